package tracing_test

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/goleak"

	"github.com/streaming-hub/streaming-hub/hub"
	"github.com/streaming-hub/streaming-hub/hub/hubtest"
	"github.com/streaming-hub/streaming-hub/hub/secret"
	"github.com/streaming-hub/streaming-hub/tracing"
	"github.com/streaming-hub/streaming-hub/tracing/tracingtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	traceID    = "4bf92f3577b34da6a3ce929d0e0e4736"
	producerID = "00f067aa0ba902b7"
	sampled    = "00-" + traceID + "-" + producerID + "-01"
	unsampled  = "00-" + traceID + "-" + producerID + "-00"
)

func newTracer(t testing.TB, url string, ratio float64) *tracing.Tracer {
	t.Helper()
	tracer, err := tracing.New(tracing.Config{
		Endpoint: url, SampleRatio: ratio, Service: "hub-under-test", Version: "1.2.3", Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	return tracer
}

// stored is an event with something in it that no trace may tell.
func stored(parent string) hub.Event {
	return hub.Event{
		ID: hub.EventID{ID: hubtest.NewID()}, Tenant: "acme", Seq: 7, CEID: "canary-ceid", Source: "lender", ResourceType: "loan", EventType: "approved",
		Subject: "canary-subject", Extensions: []hub.Attribute{{Name: "partner", Value: "canary-extension"}},
		TraceParent: parent, TraceState: "vendor=canary-state",
		Record: hub.RecordPosition{Topic: "lerian.streaming.lender", Partition: 3, Offset: 1234}, Body: []byte("canary-body"),
	}
}

const receiver = "https://hooks.example.com:8443/canary-path?key=canary-query"

func outcomeOf(ev *hub.Event, at time.Time) *hub.Outcome {
	return &hub.Outcome{
		Delivery: hub.Delivery{
			ID: hub.DeliveryID{ID: hubtest.NewID()}, Event: ev.ID, Tenant: ev.Tenant, Run: 1,
			Subscription: hub.SubscriptionID{ID: hubtest.NewID()}, Destination: hub.DestinationID{ID: hubtest.NewID()},
		},
		Attempt: hub.Attempt{
			ID: hub.AttemptID{ID: hubtest.NewID()}, Number: 2, Started: at,
			Answer: hub.Answer{
				Status: 503, Headers: []hub.Header{{Name: "X-Echo", Value: "canary-header"}}, Snippet: "canary-snippet", RetryAfter: "canary-after", RemoteIP: "192.0.2.7",
			},
			Failure: hub.Failure{Class: hub.ErrStatus, Phase: hub.PhaseAnswer, Detail: "canary-detail"},
		},
		Decision: hub.Decision{State: hub.Dead, DeadReason: hub.DeadExhausted, Reason: "canary-reason"},
	}
}

// short is an id of the hub as OpenTelemetry writes the half of it.
func short(id hub.ID) string { return strings.ReplaceAll(id.String(), "-", "")[16:] }

func TestEvent_from_producer_to_receiver(t *testing.T) {
	c := tracingtest.New(t)
	tracer := newTracer(t, c.URL, 0)
	ev := stored(sampled)
	begun := time.Now().Truncate(time.Microsecond)
	tracer.Ingested([]hub.Event{ev}, begun, begun.Add(time.Millisecond))
	o := outcomeOf(&ev, begun.Add(time.Second))
	// Another process makes the attempt, with the event as it is stored.
	other := newTracer(t, c.URL, 0)
	sent := other.Outbound(&ev, o.Attempt.ID)
	other.Attempted(&ev, o, receiver, begun.Add(3*time.Second))
	tracer.Close(t.Context())
	other.Close(t.Context())

	if want := "00-" + traceID + "-" + short(o.Attempt.ID.ID) + "-01"; sent.TraceParent != want || sent.TraceState != ev.TraceState {
		t.Errorf("the receiver gets %s with %s, want %s with the producer's state", sent.TraceParent, sent.TraceState, want)
	}
	if ev.TraceParent != sampled || string(sent.Body) != string(ev.Body) {
		t.Error("the event itself was changed")
	}
	want := []tracingtest.Span{{
		Service: "hub-under-test", Name: "ingest lerian.streaming.lender", Kind: "CONSUMER",
		Trace: traceID, ID: short(ev.ID.ID), Parent: producerID, Begun: begun, Ended: begun.Add(time.Millisecond),
		Attributes: map[string]string{
			"messaging.system": "kafka", "messaging.operation.name": "ingest", "messaging.operation.type": "process",
			"messaging.destination.name": "lerian.streaming.lender", "messaging.destination.partition.id": "3", "messaging.kafka.offset": "1234",
			"messaging.message.body.size": "11", "streaming_hub.tenant.id": "acme", "streaming_hub.event.id": ev.ID.String(),
			"streaming_hub.event.type": "loan.approved", "streaming_hub.event.seq": "7",
		},
	}, {
		Service: "hub-under-test", Name: "POST", Kind: "CLIENT",
		Trace: traceID, ID: short(o.Attempt.ID.ID), Parent: short(ev.ID.ID), Failed: true, Begun: begun.Add(time.Second), Ended: begun.Add(3 * time.Second),
		Attributes: map[string]string{
			"http.request.method": "POST", "http.response.status_code": "503", "error.type": "503",
			"url.scheme": "https", "server.address": "hooks.example.com", "server.port": "8443", "network.peer.address": "192.0.2.7",
			"streaming_hub.tenant.id": "acme", "streaming_hub.event.id": ev.ID.String(), "streaming_hub.event.type": "loan.approved",
			"streaming_hub.delivery.id": o.Delivery.ID.String(), "streaming_hub.delivery.run": "1", "streaming_hub.attempt.id": o.Attempt.ID.String(),
			"streaming_hub.attempt.number": "2", "streaming_hub.attempt.phase": "answer", "streaming_hub.decision": "dead", "streaming_hub.dead_reason": "exhausted",
			"streaming_hub.subscription.id": o.Delivery.Subscription.String(), "streaming_hub.destination.id": o.Delivery.Destination.String(),
		},
	}}
	if diff := cmp.Diff(want, c.Spans()); diff != "" {
		t.Errorf("spans (-want +got):\n%s", diff)
	}
	if raw := c.Raw(); strings.Contains(raw, "canary") || !strings.Contains(raw, "hooks.example.com") {
		t.Errorf("a trace tells what it may not:\n%s", raw)
	}
}

func TestEvent_that_nobody_traces_begins_a_trace_of_its_own(t *testing.T) {
	c := tracingtest.New(t)
	tracer := newTracer(t, c.URL, 1)
	ev := stored("")
	ev.TraceState = ""
	o := outcomeOf(&ev, time.Now())
	tracer.Ingested([]hub.Event{ev}, time.Now(), time.Now())
	sent := tracer.Outbound(&ev, o.Attempt.ID)
	tracer.Attempted(&ev, o, receiver, time.Now())
	tracer.Close(t.Context())
	id := strings.ReplaceAll(ev.ID.String(), "-", "")
	if want := "00-" + id + "-" + short(o.Attempt.ID.ID) + "-01"; sent.TraceParent != want {
		t.Errorf("the receiver gets %s, want %s", sent.TraceParent, want)
	}
	spans := c.Spans()
	if len(spans) != 2 || spans[0].Trace != id || spans[0].Parent != "" || spans[1].Trace != id || spans[1].Parent != spans[0].ID {
		t.Errorf("spans = %+v", spans)
	}
}

func TestEvent_unsampled_stays_so(t *testing.T) {
	c := tracingtest.New(t)
	tracer := newTracer(t, c.URL, 1)
	ev := stored(unsampled)
	o := outcomeOf(&ev, time.Now())
	tracer.Ingested([]hub.Event{ev}, time.Now(), time.Now())
	if tracer.Outbound(&ev, o.Attempt.ID) != &ev {
		t.Error("the receiver does not get the producer's own trace context")
	}
	tracer.Attempted(&ev, o, receiver, time.Now())
	tracer.Close(t.Context())
	if spans := c.Spans(); len(spans) > 0 {
		t.Errorf("spans = %+v", spans)
	}
}

func TestEvent_special_ones(t *testing.T) {
	c := tracingtest.New(t)
	tracer := newTracer(t, c.URL, 1)
	own, test := stored(""), stored("")
	own.Tenant = hub.HubTenant
	tracer.Ingested([]hub.Event{own}, time.Now(), time.Now())
	o := outcomeOf(&test, time.Now())
	o.Delivery.Test, o.Attempt.Failure, o.Attempt.Answer.Status = true, hub.Failure{}, 204
	o.Decision = hub.Decision{State: hub.Delivered}
	tracer.Attempted(&test, o, "http://[2001:db8::1]/x", time.Now())
	timeout := outcomeOf(&test, time.Now())
	timeout.Attempt.Failure, timeout.Attempt.Answer = hub.Failure{Class: hub.ErrTimeout, Phase: hub.PhaseConnect}, hub.Answer{}
	tracer.Attempted(&test, timeout, receiver, time.Now())
	tracer.Close(t.Context())
	spans := c.Spans()
	if len(spans) != 3 {
		t.Fatalf("spans = %+v", spans)
	}
	if s := spans[0]; s.Name != "ingest" || s.Kind != "INTERNAL" || s.Attributes["messaging.system"] != "" {
		t.Errorf("an event of the hub's own: %+v", s)
	}
	if s := spans[1]; s.Parent != "" || s.Failed || s.Attributes["error.type"] != "" || s.Attributes["streaming_hub.delivery.test"] != "true" ||
		s.Attributes["server.address"] != "2001:db8::1" || s.Attributes["server.port"] != "80" {
		t.Errorf("a test's attempt: %+v", s)
	}
	if s := spans[2]; !s.Failed || s.Attributes["error.type"] != "timeout" || s.Attributes["http.response.status_code"] != "" {
		t.Errorf("an attempt without an answer: %+v", s)
	}
}

func TestTracer_off_costs_nothing(t *testing.T) {
	off, err := tracing.New(tracing.Config{SampleRatio: 1})
	if off != nil || err != nil {
		t.Fatalf("tracer without an endpoint = %v, %v", off, err)
	}
	c := tracingtest.New(t)
	on := newTracer(t, c.URL, 0)
	for name, row := range map[string]struct {
		tracer *tracing.Tracer
		parent string
	}{
		"off": {off, sampled}, "unsampled": {on, unsampled}, "not_in_the_share": {on, ""},
	} {
		t.Run(name, func(t *testing.T) {
			events := []hub.Event{stored(row.parent)}
			o := outcomeOf(&events[0], time.Now())
			if n := testing.AllocsPerRun(100, func() { hooks(row.tracer, events, o) }); n != 0 {
				t.Errorf("%v allocations", n)
			}
		})
	}
	on.Close(t.Context())
	off.Close(t.Context())
	off.Register(prometheus.NewRegistry())
	off.Operation(http.Header{}, tracing.Operation{})(true)
}

// hooks is all that ingest and dispatch ask for one event.
func hooks(tracer *tracing.Tracer, events []hub.Event, o *hub.Outcome) {
	tracer.Ingested(events, time.Time{}, time.Time{})
	if tracer.Outbound(&events[0], o.Attempt.ID) != &events[0] {
		panic("not the event itself")
	}
	tracer.Attempted(&events[0], o, receiver, time.Time{})
}

func TestTracer_collector_that_is_away(t *testing.T) {
	gone, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	gone.Close()
	var log bytes.Buffer
	tracer, err := tracing.New(tracing.Config{
		Endpoint: "http://" + gone.Addr().String(), Headers: secret.New([]byte("api-key=hunter2")), SampleRatio: 1,
		Service: "hub-under-test", Log: slog.New(slog.NewJSONHandler(&log, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	registry := prometheus.NewRegistry()
	tracer.Register(registry)
	for range 3 {
		tracer.Ingested([]hub.Event{stored("")}, time.Now(), time.Now())
	}
	tracer.Close(t.Context())
	if n := strings.Count(log.String(), "does not take traces"); n != 1 || !strings.Contains(log.String(), "connection refused") {
		t.Errorf("log:\n%s", log.String())
	}
	if strings.Contains(log.String(), "hunter2") {
		t.Error("the log tells a secret")
	}
	const want = `
		# HELP streaming_hub_trace_spans_total Spans made, sent to the collector, and lost because it did not take them. Made ones that are neither wait, or found the queue full.
		# TYPE streaming_hub_trace_spans_total counter
		streaming_hub_trace_spans_total{state="lost"} 3
		streaming_hub_trace_spans_total{state="made"} 3
		streaming_hub_trace_spans_total{state="sent"} 0
	`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
}

// TestTracer_collector_that_hangs holds requests until the test is over: what
// makes spans does not wait, and Close leaves nothing behind.
func TestTracer_collector_that_hangs(t *testing.T) {
	over, asked := make(chan struct{}), make(chan struct{}, 10)
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		asked <- struct{}{}
		<-over
	}))
	defer server.Close()
	defer close(over)
	before := goleak.IgnoreCurrent()
	tracer := newTracer(t, server.URL, 1)
	events := make([]hub.Event, 600)
	for i := range events {
		events[i] = stored("")
	}
	tracer.Ingested(events, time.Now(), time.Now())
	<-asked // the first batch is under way
	for range 10 {
		tracer.Ingested(events, time.Now(), time.Now()) // more than the queue takes
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	tracer.Close(ctx)
	goleak.VerifyNone(t, before, // the server's connections, and idle ones, which the exporter keeps for a while
		goleak.IgnoreAnyFunction("net/http.(*conn).serve"), goleak.IgnoreAnyFunction("net/http.(*connReader).backgroundRead"),
		goleak.IgnoreAnyFunction("net/http.(*persistConn).readLoop"), goleak.IgnoreAnyFunction("net/http.(*persistConn).writeLoop"))
}

func TestTracer_says_when_the_collector_is_back(t *testing.T) {
	answers := make(chan int, 2)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(<-answers)
		_, _ = w.Write([]byte("you sent " + r.Header.Get("Api-Key")))
	}))
	defer server.Close()
	t.Setenv("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "1") // each span is a request
	var log bytes.Buffer
	tracer, err := tracing.New(tracing.Config{
		Endpoint: server.URL, Headers: secret.New([]byte("api-key=hunter2")), SampleRatio: 1, Log: slog.New(slog.NewJSONHandler(&log, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, status := range []int{401, 401, 200} {
		answers <- status
		tracer.Ingested([]hub.Event{stored("")}, time.Now(), time.Now())
	}
	tracer.Close(t.Context())
	if text := log.String(); strings.Count(text, "401 Unauthorized") != 1 || strings.Count(text, "exported again") != 1 || strings.Contains(text, "hunter2") {
		t.Errorf("log:\n%s", text)
	}
}

func TestTracer_headers_reach_the_collector(t *testing.T) {
	c := tracingtest.New(t)
	tracer, err := tracing.New(tracing.Config{
		Endpoint: c.URL, Headers: secret.New([]byte("api-key=hunter%32")), SampleRatio: 1, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	tracer.Ingested([]hub.Event{stored("")}, time.Now(), time.Now())
	tracer.Close(t.Context())
	if h := c.Headers(); len(h) != 1 || h[0].Get("Api-Key") != "hunter2" {
		t.Errorf("headers = %v", h)
	}
}

func TestOperation(t *testing.T) {
	header := func(parent string) http.Header {
		return http.Header{"Traceparent": {parent}, "Tracestate": {"vendor=canary-state"}}
	}
	c := tracingtest.New(t)
	tracer := newTracer(t, c.URL, 0)
	tracer.Operation(header(unsampled), tracing.Operation{Kind: "query", Field: "node"})(false)
	tracer.Operation(http.Header{}, tracing.Operation{Kind: "query", Field: "node"})(false)
	tracer.Operation(header(sampled), tracing.Operation{Kind: "mutation", Field: "redeliver", Name: strings.Repeat("N", 100)})(true)
	tracer.Close(t.Context())
	all := newTracer(t, c.URL, 1)
	all.Operation(http.Header{}, tracing.Operation{Kind: "query", Field: "node"})(false)
	all.Close(t.Context())
	spans := c.Spans()
	if len(spans) != 2 {
		t.Fatalf("spans = %+v", spans)
	}
	if s := spans[0]; s.Name != "mutation redeliver" || s.Kind != "SERVER" || s.Trace != traceID || s.Parent != producerID || s.State != "" || !s.Failed ||
		s.Attributes["graphql.operation.type"] != "mutation" || s.Attributes["graphql.operation.name"] != strings.Repeat("N", 64) {
		t.Errorf("span of a mutation = %+v", s)
	}
	if s := spans[1]; s.Parent != "" || s.Trace == traceID || len(s.Trace) != 32 || len(s.ID) != 16 || s.Failed {
		t.Errorf("span of a query = %+v", s)
	}
}

func BenchmarkHooks(b *testing.B) {
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer server.Close()
	on := newTracer(b, server.URL, 0)
	defer on.Close(context.Background())
	for _, row := range []struct {
		name   string
		tracer *tracing.Tracer
		parent string
	}{{"off", nil, sampled}, {"unsampled", on, unsampled}, {"not_in_the_share", on, ""}} {
		b.Run(row.name, func(b *testing.B) {
			events := []hub.Event{stored(row.parent)}
			o := outcomeOf(&events[0], time.Now())
			b.ReportAllocs()
			for b.Loop() {
				hooks(row.tracer, events, o)
			}
		})
	}
	b.Run("sampled", func(b *testing.B) {
		events := []hub.Event{stored(sampled)}
		o := outcomeOf(&events[0], time.Now())
		b.ReportAllocs()
		for b.Loop() {
			on.Ingested(events, time.Time{}, time.Time{})
			on.Outbound(&events[0], o.Attempt.ID)
			on.Attempted(&events[0], o, receiver, time.Time{})
		}
	})
}
