package dispatch

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// The caps, and what is held under them, are metrics: an operator sees at a
// glance that hanging destinations have their half and no more.
func TestPool_metrics_show_the_caps(t *testing.T) {
	bubble(t, 50, func(r *rig, _ *Deps) { r.sink.do = hanging(r, 50) }, func(r *rig) {
		for lane := range 50 {
			r.ingest(r.deliveries(lane, 3))
		}
		r.after(5 * time.Second)
		registry := prometheus.NewRegistry()
		registry.MustRegister(r.pool)
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]float64{}
		for _, f := range families {
			for _, m := range f.GetMetric() {
				got[f.GetName()+"/"+m.GetLabel()[0].GetValue()] = m.GetGauge().GetValue()
			}
		}
		for name, want := range map[string]float64{
			"streaming_hub_dispatch_worker_cap/all":         8,
			"streaming_hub_dispatch_worker_cap/destination": 4,
			"streaming_hub_dispatch_worker_cap/suspects":    4,
			"streaming_hub_dispatch_busy_workers/all":       4,
			"streaming_hub_dispatch_busy_workers/suspect":   4,
		} {
			if got[name] != want {
				t.Errorf("%s = %g, want %g", name, got[name], want)
			}
		}
		if held := got["streaming_hub_dispatch_held_deliveries/suspect"]; held < 4 || held > float64(SuspectRoom(8)) {
			t.Errorf("%g deliveries of hanging destinations are held", held)
		}
	})
}
