package dispatch

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/streaming-hub/streaming-hub/hub"
)

// Metrics of dispatch. No label names a tenant, a URL or an id.
type Metrics struct {
	Attempts          *prometheus.CounterVec // by error class, "" for success
	States            *prometheus.CounterVec // by what the delivery became
	PutOff            *prometheus.CounterVec // leases given back, by reason
	Queued            *prometheus.CounterVec // new deliveries left to the queue, by reason
	Claimed           prometheus.Counter
	LostLeases        prometheus.Counter
	Panics            prometheus.Counter
	AttemptDuration   prometheus.Histogram
	FirstAttemptDelay prometheus.Histogram
	FlushSize         prometheus.Histogram
	FlushDuration     prometheus.Histogram
}

// NewMetrics registers the metrics.
func NewMetrics(r prometheus.Registerer) *Metrics {
	m := &Metrics{
		Attempts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "streaming_hub_dispatch_attempts_total", Help: "Attempts by class of failure; NONE for a success.",
		}, []string{"failure"}),
		States: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "streaming_hub_dispatch_outcomes_total", Help: "Attempts by what their delivery became.",
		}, []string{"state"}),
		PutOff: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "streaming_hub_dispatch_put_off_total", Help: "Claims given back, or deliveries ended, without an attempt, by reason.",
		}, []string{"reason"}),
		Queued: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "streaming_hub_dispatch_queued_total",
			Help: "New deliveries that were left to the queue instead of going straight to a worker, by reason.",
		}, []string{"reason"}),
		Claimed: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "streaming_hub_dispatch_claimed_total", Help: "Deliveries claimed from the queue; those born claimed are not among them.",
		}),
		LostLeases: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "streaming_hub_dispatch_lost_leases_total", Help: "Outcomes refused because the lease had passed to another worker.",
		}),
		Panics: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "streaming_hub_dispatch_panics_total", Help: "Attempts that panicked: a fault of the hub, told in its log.",
		}),
		AttemptDuration: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "streaming_hub_dispatch_attempt_seconds", Help: "Duration of an attempt.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30},
		}),
		FirstAttemptDelay: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "streaming_hub_dispatch_first_attempt_delay_seconds", Help: "From receipt of the event to the start of its first attempt.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 5, 30, 300},
		}),
		FlushSize: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "streaming_hub_dispatch_flush_outcomes", Help: "Outcomes per flush.",
			Buckets: []float64{1, 5, 10, 25, 50, 100, 250, 500},
		}),
		FlushDuration: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "streaming_hub_dispatch_flush_seconds", Help: "Duration of a flush.",
			Buckets: prometheus.ExponentialBuckets(0.001, 2, 12),
		}),
	}
	r.MustRegister(m.Attempts, m.States, m.PutOff, m.Queued, m.Claimed, m.LostLeases, m.Panics, m.AttemptDuration,
		m.FirstAttemptDelay, m.FlushSize, m.FlushDuration)
	return m
}

// Describe and Collect make the pool's own state a metric.
func (p *Pool) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{heldDesc, workersDesc, capDesc} {
		ch <- d
	}
}

var (
	heldDesc = prometheus.NewDesc("streaming_hub_dispatch_held_deliveries",
		"Deliveries that this process holds a lease of, of all destinations and of slow or unproven ones.", []string{"destinations"}, nil)
	workersDesc = prometheus.NewDesc("streaming_hub_dispatch_busy_workers",
		"Workers that make an attempt now, for all destinations and for slow or unproven ones.", []string{"destinations"}, nil)
	capDesc = prometheus.NewDesc("streaming_hub_dispatch_worker_cap",
		"Most workers that all destinations, one destination, and all slow or unproven ones together may hold.", []string{"of"}, nil)
)

// Collect reads the state.
func (p *Pool) Collect(ch chan<- prometheus.Metric) {
	p.mu.Lock()
	held, suspectHeld, running, suspectRunning := p.held, p.suspectHeld, p.running, p.suspectRunning
	p.mu.Unlock()
	gauge := func(d *prometheus.Desc, v int, label string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(v), label)
	}
	gauge(heldDesc, held, "all")
	gauge(heldDesc, suspectHeld, "suspect")
	gauge(workersDesc, running, "all")
	gauge(workersDesc, suspectRunning, "suspect")
	gauge(capDesc, p.deps.Workers, "all")
	gauge(capDesc, DestinationCap(p.deps.Workers), "destination")
	gauge(capDesc, SuspectCap(p.deps.Workers), "suspects")
}

func (m *Metrics) attempt(a *hub.Attempt, d *hub.Decision) {
	failure := string(a.Failure.Class)
	if failure == "" {
		failure = "NONE"
	}
	m.Attempts.WithLabelValues(failure).Inc()
	m.States.WithLabelValues(string(d.State)).Inc()
	m.AttemptDuration.Observe(float64(a.Timings.Total) / 1e6)
}

func (m *Metrics) flush(outcomes, lost int, took time.Duration) {
	m.FlushSize.Observe(float64(outcomes))
	m.FlushDuration.Observe(took.Seconds())
	m.LostLeases.Add(float64(lost))
}
