package graph_test

import (
	"fmt"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/streaming-hub/streaming-hub/graph"
	"github.com/streaming-hub/streaming-hub/hub"
	"github.com/streaming-hub/streaming-hub/tracing"
	"github.com/streaming-hub/streaming-hub/tracing/tracingtest"
)

func TestTraces_of_operations(t *testing.T) {
	w := newWorld(t)
	token := w.token("acme", hub.Operator)
	c := tracingtest.New(t)
	tracer, err := tracing.New(tracing.Config{Endpoint: c.URL, SampleRatio: 1, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	api, err := graph.NewServer(graph.Deps{Resolver: w.resolver, Tokens: w.tokens, Tracer: tracer, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(api)
	t.Cleanup(server.Close)
	w.server = server
	const parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	w.send(token, `{"query":"query Look($id: ID!) { ...all } fragment all on Query { found: node(id: $id) { id } }","variables":{"id":"canary"},"operationName":"Look"}`, "Traceparent", parent)
	w.send(token, `{"query":"mutation { redeliver(input: {id: \"canary\"}) { userErrors { code } } }"}`)
	w.send(token, `{"query":"{ auditLog { nodes { id } } }"}`) // only for administrators
	w.send(token, `{"query":"{ canary }"}`)                    // there is no such field
	w.send("canary", `{"query":"{ viewer { role } }"}`)
	w.send(token, `{"query":"{ viewer { role } }"}`, "Traceparent", strings.Replace(parent, "-01", "-00", 1))
	tracer.Close(t.Context())
	var got []string
	for _, s := range c.Spans() {
		got = append(got, fmt.Sprint(s.Name, " ", s.Kind, " ", s.Attributes["graphql.operation.name"], " ", s.Parent, " ", s.Failed))
	}
	want := []string{"query node SERVER Look 00f067aa0ba902b7 false", "mutation redeliver SERVER   false", "query auditLog SERVER   true"}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("spans = %q, want %q", got, want)
	}
	if strings.Contains(c.Raw(), "canary") {
		t.Errorf("a trace tells what was asked:\n%s", c.Raw())
	}
}

func TestAttempt_request_headers_show_the_trace_context_that_was_sent(t *testing.T) {
	w := newWorld(t)
	token := w.token("acme", hub.Viewer)
	sub, dest := w.subscriptionOf("acme")
	const producer, sent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "00-4bf92f3577b34da6a3ce929d0e0e4736-1111111111111111-01"
	for name, c := range map[string]struct{ recorded, want string }{
		"of_the_attempt_when_it_was_traced": {sent, sent}, "of_the_producer_else": {"", producer},
	} {
		t.Run(name, func(t *testing.T) {
			d := w.deliver("acme", sub, dest)
			w.exec(`UPDATE events SET context = context::jsonb || jsonb_build_object('traceparent', $2::text) WHERE id = $1`, d.Event.String(), producer)
			o := d.outcome(200, hub.Delivered)
			o.Attempt.TraceParent = c.recorded
			w.record(o)
			a := w.must(token, `query ($id: ID!) { delivery(id: $id) { attempts { requestHeaders { name value } } } }`, map[string]any{"id": gid("dlv_", d.Delivery.ID.ID)})
			if got := fmt.Sprint(a.at("delivery", "attempts", 0, "requestHeaders")); strings.Count(got, "traceparent") != 1 || !strings.Contains(got, c.want) {
				t.Errorf("got %s", got)
			}
		})
	}
}
