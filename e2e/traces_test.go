package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/streaming-hub/streaming-hub/dev/sample"
	"github.com/streaming-hub/streaming-hub/tracing/tracingtest"
)

// TestTraces follows events from their producer to the receiver, over a
// failure and over a restart, and then without a collector.
func TestTraces(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	defer cancel()
	dir := stateDir(t)
	c := tracingtest.New(t)
	environ := []string{
		"STREAMING_HUB_DEFAULT_RETRY_STEPS=0s,10s,10s", "STREAMING_HUB_OTLP_ENDPOINT=" + c.URL, "STREAMING_HUB_TRACE_SAMPLE_RATIO=0", "OTEL_BSP_SCHEDULE_DELAY=100",
	}
	hub := startDev(ctx, t, dir, environ...)
	d := newDesk(t, hub.state)
	one := d.subscribe(ctx, t, "traced", "/hooks/traced", nil)

	const producer = "00f067aa0ba902b7"
	parents := map[string]string{
		"sampled": "00-4bf92f3577b34da6a3ce929d0e0e4736-" + producer + "-01", "unsampled": "00-11111111111111111111111111111111-" + producer + "-00", "untraced": "",
	}
	publish := func(id, parent string) {
		t.Helper()
		r := sample.Fact{
			ID: id, Source: "tracer", ResourceType: "loan", EventType: "closed", SchemaVersion: "1", TenantID: "traced", Time: time.Now(), Body: []byte(`{}`),
		}.Record(sample.Prefixes{Topic: "lerian.streaming", Type: "studio.lerian"})
		if parent != "" {
			r.Headers = append(r.Headers, kgo.RecordHeader{Key: "traceparent", Value: []byte(parent)}, kgo.RecordHeader{Key: "tracestate", Value: []byte("vendor=1")})
		}
		if err := d.kafka.ProduceSync(ctx, r).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}

	// The first attempts fail; the second ones are another process's.
	script(ctx, t, d.st, "/hooks/traced", `{"answers":[{"status":503,"times":3},{"status":200}]}`)
	for id, parent := range parents {
		publish(id, parent)
	}
	d.all(ctx, t, one.ID, len(parents), "attempted", func(one stands) bool { return one.AttemptCount > 0 })
	came := d.came(ctx, t, "/hooks/traced")
	hub.stop(t)
	hub = startDev(ctx, t, dir, environ...)
	d = newDesk(t, hub.state)
	d.all(ctx, t, one.ID, len(parents), "delivered", in("DELIVERED"))
	came = append(came, d.came(ctx, t, "/hooks/traced")...)
	told := map[string][]string{}
	for _, r := range came {
		told[r.Headers.Get("Ce-Id")] = append(told[r.Headers.Get("Ce-Id")], r.Headers.Get("Traceparent")+" "+r.Headers.Get("Tracestate"))
	}
	for id, want := range map[string]string{"unsampled": parents["unsampled"] + " vendor=1", "untraced": " "} {
		if !slices.Equal(told[id], []string{want, want}) {
			t.Errorf("%s: the receiver was told %q, want %q twice", id, told[id], want)
		}
	}

	ofEvent := func(all []tracingtest.Span) (spans []tracingtest.Span) {
		for _, s := range all {
			if s.Service == "streaming-hub-dataplane" {
				spans = append(spans, s)
			}
		}
		return spans
	}
	spans := ofEvent(c.Await(t, func(all []tracingtest.Span) bool { return len(ofEvent(all)) >= 3 }))
	slices.SortFunc(spans, func(a, b tracingtest.Span) int { return a.Begun.Compare(b.Begun) })
	if len(spans) != 3 {
		t.Fatalf("spans = %+v", spans)
	}
	ingest := spans[0]
	if ingest.Kind != "CONSUMER" || ingest.Parent != producer || ingest.Name != "ingest lerian.streaming.tracer" {
		t.Errorf("the first span is %+v", ingest)
	}
	var want []string
	for i, s := range spans[1:] {
		want = append(want, "00-"+strings.Split(parents["sampled"], "-")[1]+"-"+s.ID+"-01 vendor=1")
		if s.Kind != "CLIENT" || s.Trace != ingest.Trace || s.Parent != ingest.ID || s.Attributes["http.response.status_code"] != []string{"503", "200"}[i] ||
			s.Attributes["streaming_hub.attempt.number"] != fmt.Sprint(i+1) {
			t.Errorf("attempt %d is %+v", i+1, s)
		}
	}
	if !slices.Equal(told["sampled"], want) {
		t.Errorf("the receiver was told %q, want %q", told["sampled"], want)
	}

	t.Run("a_collector_that_is_away_holds_nobody_up", func(t *testing.T) {
		c.Close()
		for _, id := range numbered("later", 5) {
			publish(id, parents["sampled"])
		}
		d.all(ctx, t, one.ID, len(parents)+5, "delivered", in("DELIVERED"))
		hub.stop(t) // which would say that a plane had to be killed
		logs := logFiles(t, dir)
		if i := slices.IndexFunc(logs, func(s *searched) bool { return s.name == "dataplane.log" }); strings.Count(logs[i].text.String(), "does not take traces") != 1 {
			t.Errorf("the log does not say it once:\n%s", logs[i].text.String())
		}
	})
}

// traces is everything that the planes told a collector.
func traces(t *testing.T, c *tracingtest.Collector) *searched {
	t.Helper()
	s := &searched{name: "the traces", control: []string{"streaming_hub.event.id", "streaming-hub-controlplane", "http.response.status_code", "127.0.0.1"}}
	s.add(c.Raw())
	for what, text := range map[string]string{"a secret in a URL's query": urlKey, "a path": "/bearer", "a body": `{"id":"`, "an answer": "you sent", "an event's id of its producer": "at_the_cut"} {
		if form, _ := find(c.Raw(), text); form != "" {
			t.Errorf("%s is in the traces, %s", what, form)
		}
	}
	if h := c.Headers(); len(h) == 0 || h[0].Get("Api-Key") != canaries["key of the collector"] {
		t.Error("the collector did not get its key")
	}
	return s
}
