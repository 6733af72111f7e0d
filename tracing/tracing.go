// Package tracing tells an OpenTelemetry collector of each event's way: one
// span when it was stored, one for each attempt to deliver it, and in the
// control plane one for each operation of the API. Spans go out by OTLP/HTTP,
// in batches, behind everybody's back: nothing waits for them, and what does
// not fit into the queue is dropped.
//
//	origin.go    in which trace an event stands, and whether it is followed  (pure)
//	event.go     the spans of an event
//	operation.go the spans of the API
//	exporter.go  how it goes with the collector
//
// No state is kept between the spans of an event, and nothing is stored for
// them: all ids follow from ids that the hub has anyway, so that any replica
// finds the parent of an attempt, days later too. A span's id is the second
// half of the id of what it tells of; a trace that begins here has the event's
// id as its own.
//
// Without a collector there is no Tracer: all methods of a nil one do nothing,
// and cost nothing.
package tracing

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"
	"golang.org/x/net/http/httpguts"

	"github.com/streaming-hub/streaming-hub/hub"
	"github.com/streaming-hub/streaming-hub/hub/secret"
)

const (
	// scope names the instrumentation, as OpenTelemetry asks.
	scope = "github.com/streaming-hub/streaming-hub"
	// tracesPath is where a collector takes traces unless its URL says
	// otherwise.
	tracesPath = "/v1/traces"
	// flushTime is how long the last spans may take at the end: a collector
	// that hangs does not use up the time of the shutdown.
	flushTime = 5 * time.Second
)

// Config is what a Tracer is made of. What else matters for the way to the
// collector, its certificates say, the exporter takes from the variables
// OTEL_EXPORTER_OTLP_*.
type Config struct {
	// Endpoint is the URL of a collector that speaks OTLP/HTTP; without a path
	// it gets /v1/traces. "" means that there are no traces.
	Endpoint string
	// Headers go with each request to the collector: name=value, separated by
	// commas, values percent-encoded.
	Headers secret.Secret
	// SampleRatio is the share of events without a trace of their producer, and
	// of API requests without one of their caller, that begin one: 0–1.
	SampleRatio float64
	// Service and Version say who tells.
	Service, Version string
	Log              *slog.Logger
}

// Tracer makes spans. It is safe for concurrent use; nil makes none.
type Tracer struct {
	tracer   trace.Tracer
	provider *sdktrace.TracerProvider
	exporter *exporter
	chosen   threshold
}

// New makes a tracer, nil when there is no endpoint. Close ends it.
func New(c Config) (*Tracer, error) {
	if c.Endpoint == "" {
		return nil, nil
	}
	endpoint, err := endpointURL(c.Endpoint)
	if err != nil {
		return nil, fmt.Errorf("the endpoint of traces %w", err)
	}
	options := []otlptracehttp.Option{otlptracehttp.WithEndpointURL(endpoint)}
	if headers, err := parseHeaders(string(c.Headers.Reveal())); err != nil {
		return nil, fmt.Errorf("the headers for the collector of traces %w", err)
	} else if len(headers) > 0 {
		options = append(options, otlptracehttp.WithHeaders(headers))
	}
	ctx := context.Background()
	client, err := otlptracehttp.New(ctx, options...)
	if err != nil {
		return nil, fmt.Errorf("make the exporter of traces: %w", err)
	}
	about, err := resource.New(ctx, resource.WithTelemetrySDK(), resource.WithHost(), resource.WithAttributes(
		semconv.ServiceName(c.Service), semconv.ServiceVersion(c.Version),
		semconv.ServiceInstanceID(hub.NewID(time.Now(), rand.Reader).String()),
	), resource.WithFromEnv()) // what OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES say wins
	if err != nil {
		return nil, fmt.Errorf("describe this process to the collector of traces: %w", err)
	}
	e := newExporter(client, c.Log)
	provider := sdktrace.NewTracerProvider(
		sdktrace.WithBatcher(e), sdktrace.WithResource(about), sdktrace.WithIDGenerator(identities{}),
		// A span is made only for what is followed.
		sdktrace.WithSampler(sdktrace.AlwaysSample()),
	)
	t := &Tracer{
		tracer:   provider.Tracer(scope, trace.WithInstrumentationVersion(c.Version)),
		provider: provider, exporter: e, chosen: thresholdOf(c.SampleRatio),
	}
	c.Log.Info("traces are exported", "endpoint", endpoint, "sample_ratio", c.SampleRatio)
	return t, nil
}

// Close sends what is queued, for 5 s at most and not beyond ctx, and returns
// when no export is under way any more. Spans made later are dropped.
func (t *Tracer) Close(ctx context.Context) {
	if t == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, flushTime)
	defer cancel()
	// Then exports fail at once, and the wait below ends.
	defer context.AfterFunc(ctx, t.exporter.giveUp)()
	// Its errors are those of exports, which were logged.
	_ = t.provider.Shutdown(context.WithoutCancel(ctx))
}

// Register makes the tracer's metrics known.
func (t *Tracer) Register(r prometheus.Registerer) {
	if t != nil {
		r.MustRegister(t.exporter.spans)
	}
}

// endpointURL is where to send spans. Errors do not repeat the URL: there may
// be a password in it.
func endpointURL(raw string) (string, error) {
	u, err := url.Parse(raw)
	switch {
	case err != nil:
		return "", errors.New("is not a URL")
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return "", errors.New("must be a URL that begins with http:// or https:// and names a host")
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return "", errors.New("may have no user, query or fragment; what proves who you are belongs into the headers")
	}
	if u.Path == "" || u.Path == "/" {
		u.Path = tracesPath
	}
	return u.String(), nil
}

// parseHeaders reads what OTEL_EXPORTER_OTLP_HEADERS may hold too. Errors name
// no values.
func parseHeaders(text string) (map[string]string, error) {
	headers := map[string]string{}
	for part := range strings.SplitSeq(text, ",") {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		name, encoded, found := strings.Cut(part, "=")
		name = strings.TrimSpace(name)
		value, err := url.PathUnescape(strings.TrimSpace(encoded))
		if !found || err != nil || !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(value) {
			return nil, errors.New("must be name=value, separated by commas, with percent-encoded values")
		}
		headers[name] = value
	}
	return headers, nil
}
