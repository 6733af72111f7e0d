package pull

import "github.com/prometheus/client_golang/prometheus"

// Metrics of the pull API. No label names a tenant, a token or an id.
type Metrics struct {
	Requests *prometheus.CounterVec // by class of status
	Waiting  prometheus.Gauge
	Scanned  prometheus.Counter
	Events   prometheus.Counter
}

// NewMetrics registers the metrics.
func NewMetrics(r prometheus.Registerer) *Metrics {
	m := &Metrics{
		Requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "streaming_hub_pull_requests_total",
			Help: "Requests to the pull API by class of status: 2xx, 4xx, 5xx, left when the reader went away before the answer, broken when it broke off inside.",
		}, []string{"status"}),
		Waiting: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "streaming_hub_pull_waiting", Help: "Long polls that wait for events.",
		}),
		Scanned: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "streaming_hub_pull_scanned_rows_total", Help: "Rows that pull requests looked at, whether or not their filter let them through.",
		}),
		Events: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "streaming_hub_pull_events_total", Help: "Events handed out by the pull API.",
		}),
	}
	r.MustRegister(m.Requests, m.Waiting, m.Scanned, m.Events)
	return m
}
