package dispatch

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/streaming-hub/streaming-hub/dataplane/sink"
	"github.com/streaming-hub/streaming-hub/hub"
	"github.com/streaming-hub/streaming-hub/tracing"
	"github.com/streaming-hub/streaming-hub/tracing/tracingtest"
)

// TestPool_traces lets a delivery fail once and looks at what the receiver was
// told, what is recorded, and which spans there are. The second attempt comes
// from the queue, as in a process that knows nothing of the first.
func TestPool_traces(t *testing.T) {
	for name, ratio := range map[string]float64{"sampled": 1, "unsampled": 0, "off": -1} {
		t.Run(name, func(t *testing.T) {
			c := tracingtest.New(t)
			var tracer *tracing.Tracer
			if ratio >= 0 {
				var err error
				if tracer, err = tracing.New(tracing.Config{Endpoint: c.URL, SampleRatio: ratio, Log: slog.New(slog.DiscardHandler)}); err != nil {
					t.Fatal(err)
				}
			}
			var mu sync.Mutex
			var told []string
			var outcomes []hub.Outcome
			bubble(t, 1, func(r *rig, d *Deps) {
				d.Tracer = tracer
				r.sink.do = func(_ context.Context, job sink.Job) hub.Failure {
					mu.Lock()
					defer mu.Unlock()
					if told = append(told, job.Event.TraceParent); len(told) == 1 {
						return refusing(nil, job)
					}
					return hub.Failure{}
				}
			}, func(r *rig) {
				r.ingest(r.deliveries(0, 1))
				r.after(24 * time.Hour)
				outcomes = r.queue.history()
			})
			tracer.Close(t.Context())
			if len(outcomes) != 2 {
				t.Fatalf("%d attempts", len(outcomes))
			}
			spans := c.Spans()
			if name != "sampled" {
				if len(spans) != 0 || !slices.Equal(told, []string{"", ""}) || outcomes[0].Attempt.TraceParent+outcomes[1].Attempt.TraceParent != "" {
					t.Errorf("%d spans, the receiver was told %q, recorded %+v", len(spans), told, outcomes)
				}
				return
			}
			if len(spans) != 2 {
				t.Fatalf("spans = %+v", spans)
			}
			half := func(id hub.ID) string { return strings.ReplaceAll(id.String(), "-", "")[16:] }
			for i, s := range spans {
				o := outcomes[i]
				want := "00-" + strings.ReplaceAll(o.Delivery.Event.String(), "-", "") + "-" + half(o.Attempt.ID.ID) + "-01"
				if told[i] != want || o.Attempt.TraceParent != want {
					t.Errorf("attempt %d: the receiver was told %s, recorded %s, want %s", i+1, told[i], o.Attempt.TraceParent, want)
				}
				if s.ID != half(o.Attempt.ID.ID) || s.Parent != half(o.Delivery.Event.ID) || s.Attributes["server.address"] != "example.com" {
					t.Errorf("span %d = %+v", i+1, s)
				}
			}
			if first, second := spans[0], spans[1]; first.Attributes["streaming_hub.decision"] != "waiting" || first.Attributes["error.type"] != "connect" ||
				second.Attributes["streaming_hub.decision"] != "delivered" || second.Failed || !second.Begun.After(first.Ended) {
				t.Errorf("spans = %+v", spans)
			}
		})
	}
}
