// Package tracingtest is a collector of traces for tests: it takes OTLP over
// HTTP on loopback and keeps all spans.
package tracingtest

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// Span is what a test reads of a span. Ids are in hex, an empty Parent is that
// of a trace's first span; attributes are written as text.
type Span struct {
	Service, Name, Kind string
	Trace, ID, Parent   string
	State               string // tracestate
	Failed              bool
	Message             string // of a failure
	Attributes          map[string]string
	Begun, Ended        time.Time
	Events, Links       int
}

// Collector is a running collector.
type Collector struct {
	URL   string
	Close func() // it is away from then on; the end of the test does it too

	mu      sync.Mutex
	spans   []Span
	raw     bytes.Buffer
	headers []http.Header
	arrived chan struct{} // closed and renewed with each request
}

// New starts a collector that ends with the test.
func New(t testing.TB) *Collector {
	c := &Collector{arrived: make(chan struct{})}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/traces", c.take)
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	c.URL, c.Close = server.URL, server.Close
	return c
}

func (c *Collector) take(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	var request collector.ExportTraceServiceRequest
	if err == nil {
		err = proto.Unmarshal(body, &request)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.headers = append(c.headers, r.Header)
	c.raw.Write(body)
	c.raw.WriteString(protojson.Format(&request))
	for _, of := range request.ResourceSpans {
		service := textOf(of.Resource.GetAttributes())["service.name"]
		for _, scope := range of.ScopeSpans {
			for _, s := range scope.Spans {
				c.spans = append(c.spans, Span{
					Service: service, Name: s.Name, Kind: s.Kind.String()[len("SPAN_KIND_"):],
					Trace: hex.EncodeToString(s.TraceId), ID: hex.EncodeToString(s.SpanId), Parent: hex.EncodeToString(s.ParentSpanId),
					State: s.TraceState, Failed: s.Status.GetCode() == 2, Message: s.Status.GetMessage(), Attributes: textOf(s.Attributes),
					Begun: time.Unix(0, int64(s.StartTimeUnixNano)), Ended: time.Unix(0, int64(s.EndTimeUnixNano)),
					Events: len(s.Events), Links: len(s.Links),
				})
			}
		}
	}
	close(c.arrived)
	c.arrived = make(chan struct{})
	w.Header().Set("Content-Type", "application/x-protobuf")
}

func textOf(list []*common.KeyValue) map[string]string {
	all := map[string]string{}
	for _, one := range list {
		switch v := one.Value.GetValue().(type) {
		case *common.AnyValue_StringValue:
			all[one.Key] = v.StringValue
		case *common.AnyValue_IntValue:
			all[one.Key] = fmt.Sprint(v.IntValue)
		case *common.AnyValue_BoolValue:
			all[one.Key] = fmt.Sprint(v.BoolValue)
		default:
			all[one.Key] = one.Value.String()
		}
	}
	return all
}

// Spans are those that came until now.
func (c *Collector) Spans() []Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.spans)
}

// Raw is everything that came until now, as it came and as JSON.
func (c *Collector) Raw() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.raw.String()
}

// Headers are those of all requests.
func (c *Collector) Headers() []http.Header {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.headers)
}

// Await waits until so many spans are there that enough says so.
func (c *Collector) Await(t testing.TB, enough func([]Span) bool) []Span {
	t.Helper()
	late := time.NewTimer(time.Minute)
	defer late.Stop()
	for {
		c.mu.Lock()
		spans, arrived := slices.Clone(c.spans), c.arrived
		c.mu.Unlock()
		if enough(spans) {
			return spans
		}
		select {
		case <-arrived:
		case <-late.C:
			t.Fatalf("only these spans came: %+v", spans)
		}
	}
}
