package ingest

import (
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics of ingest. No label names a tenant, a topic or an id.
type Metrics struct {
	Records        *prometheus.CounterVec // by where the record ended
	Quarantined    *prometheus.CounterVec // by the kind of reason
	Unmatched      prometheus.Counter
	BatchSize      prometheus.Histogram
	BatchDuration  prometheus.Histogram
	BatchErrors    prometheus.Counter
	FetchErrors    prometheus.Counter
	CommitsAhead   prometheus.Counter
	CommitsRefused prometheus.Counter
}

// NewMetrics registers the metrics.
func NewMetrics(r prometheus.Registerer) *Metrics {
	m := &Metrics{
		Records: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "streaming_hub_ingest_records_total",
			Help: "Records by where they ended: accepted, duplicate, skipped, quarantined, known_quarantined.",
		}, []string{"place"}),
		Quarantined: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "streaming_hub_ingest_quarantined_total",
			Help: "Quarantined records by reason, without the attribute's name.",
		}, []string{"reason"}),
		Unmatched: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "streaming_hub_ingest_unmatched_total",
			Help: "Accepted events that no subscription wanted.",
		}),
		BatchSize: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "streaming_hub_ingest_batch_records", Help: "Records per ingest transaction.",
			Buckets: []float64{1, 5, 10, 25, 50, 100, 250, 500, 1000, 2000},
		}),
		BatchDuration: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "streaming_hub_ingest_batch_seconds", Help: "Duration of an ingest transaction.",
			Buckets: prometheus.ExponentialBuckets(0.001, 2, 14),
		}),
		BatchErrors: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "streaming_hub_ingest_batch_errors_total", Help: "Ingest transactions that failed and were tried again.",
		}),
		FetchErrors: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "streaming_hub_ingest_fetch_errors_total", Help: "Errors from Kafka while fetching.",
		}),
	}
	m.CommitsAhead = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "streaming_hub_ingest_commits_ahead_total",
		Help: "Offsets that were about to be committed ahead of what Postgres holds. Anything but 0 is a defect.",
	})
	m.CommitsRefused = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "streaming_hub_ingest_commits_refused_total",
		Help: "Offsets of a partition that Kafka did not take; the next commit covers them.",
	})
	r.MustRegister(m.CommitsAhead, m.CommitsRefused, m.Records, m.Quarantined, m.Unmatched, m.BatchSize, m.BatchDuration, m.BatchErrors, m.FetchErrors)
	return m
}

func (m *Metrics) batch(c Counts, records int, took time.Duration) {
	quarantined := 0
	for reason, n := range c.Quarantined {
		kind, _, _ := strings.Cut(string(reason), ":")
		m.Quarantined.WithLabelValues(kind).Add(float64(n))
		quarantined += n
	}
	m.Records.WithLabelValues("accepted").Add(float64(c.Accepted))
	m.Records.WithLabelValues("duplicate").Add(float64(c.Duplicates))
	m.Records.WithLabelValues("skipped").Add(float64(c.Skipped))
	m.Records.WithLabelValues("quarantined").Add(float64(quarantined))
	m.Records.WithLabelValues("known_quarantined").Add(float64(c.KnownQuarantined))
	m.Unmatched.Add(float64(c.Unmatched))
	m.BatchSize.Observe(float64(records))
	m.BatchDuration.Observe(took.Seconds())
}

// lagDesc is the only metric with a label per topic: their number is the
// number of producing applications.
var lagDesc = prometheus.NewDesc("streaming_hub_ingest_lag_records",
	"Records that are in a partition of this process and not yet stored.", []string{"topic", "partition"}, nil)

// Describe makes the consumer a collector of its partitions' lag.
func (c *Consumer) Describe(out chan<- *prometheus.Desc) { out <- lagDesc }

// Collect reports the lag of each partition of this process.
func (c *Consumer) Collect(out chan<- prometheus.Metric) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range c.partitions {
		out <- prometheus.MustNewConstMetric(lagDesc, prometheus.GaugeValue, float64(p.lag()), p.topic, strconv.Itoa(int(p.id)))
	}
}
