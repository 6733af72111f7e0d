package tracing

import (
	"context"
	"net/http"
	"time"

	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/streaming-hub/streaming-hub/hub"
)

// maxOperationName bounds the name that a caller gave an operation, in bytes.
const maxOperationName = 64

// Operation is what is told of an operation of the API.
type Operation struct {
	Kind  string // query or mutation
	Field string // the first field that it asks for
	Name  string // that the caller gave it; cut at 64 bytes
}

// Operation begins the span of an operation, below that of the caller if its
// headers name one; end ends it. What the caller decided about sampling holds,
// else a share is followed.
func (t *Tracer) Operation(header http.Header, o Operation) (end func(failed bool)) {
	if t == nil {
		return func(bool) {}
	}
	ctx := propagation.TraceContext{}.Extract(context.Background(), propagation.HeaderCarrier(header))
	if caller := trace.SpanContextFromContext(ctx); caller.IsValid() {
		if !caller.IsSampled() {
			return func(bool) {}
		}
		// The caller's tracestate may hold anything: it stays here.
		ctx = trace.ContextWithRemoteSpanContext(ctx, caller.WithTraceState(trace.TraceState{}))
	} else {
		own := identity{trace: randomTrace(), span: randomSpan()}
		if !t.chosen.has(hub.ID(own.trace)) {
			return func(bool) {}
		}
		ctx = withIdentity(ctx, own)
	}
	_, span := t.tracer.Start(ctx, o.Kind+" "+o.Field, trace.WithSpanKind(trace.SpanKindServer), trace.WithTimestamp(time.Now()),
		trace.WithAttributes(semconv.GraphQLOperationTypeKey.String(o.Kind)))
	if o.Name != "" {
		span.SetAttributes(semconv.GraphQLOperationName(hub.CutText(o.Name, maxOperationName)))
	}
	t.exporter.spans.WithLabelValues(spanMade).Inc()
	return func(failed bool) {
		if failed {
			span.SetStatus(codes.Error, "")
		}
		span.End()
	}
}
