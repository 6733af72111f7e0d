package tracing

import (
	"context"
	"errors"
	"log/slog"
	"net/url"
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/streaming-hub/streaming-hub/hub"
)

// States of spans, for the metric.
const (
	spanMade = "made"
	spanSent = "sent"
	spanLost = "lost"
)

// maxReason bounds what is logged of a failed export, in bytes.
const maxReason = 300

// exporter sends batches of spans and says how it goes: once when the
// collector stops taking them, and once when it takes them again.
type exporter struct {
	sdktrace.SpanExporter
	log   *slog.Logger
	spans *prometheus.CounterVec

	hard   context.Context // ends what is under way
	giveUp context.CancelFunc

	mu      sync.Mutex
	failing bool
}

func newExporter(to sdktrace.SpanExporter, log *slog.Logger) *exporter {
	e := &exporter{SpanExporter: to, log: log, spans: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "streaming_hub_trace_spans_total",
		Help: "Spans made, sent to the collector, and lost because it did not take them. Made ones that are neither wait, or found the queue full.",
	}, []string{"state"})}
	for _, state := range []string{spanMade, spanSent, spanLost} {
		e.spans.WithLabelValues(state)
	}
	e.hard, e.giveUp = context.WithCancel(context.Background())
	return e
}

// ExportSpans sends a batch. A failure ends here: nobody else can do anything
// about it.
func (e *exporter) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(e.hard, cancel)()
	err := e.SpanExporter.ExportSpans(ctx, spans)
	state := spanSent
	if err != nil {
		state = spanLost
	}
	e.spans.WithLabelValues(state).Add(float64(len(spans)))
	e.mu.Lock()
	before := e.failing
	e.failing = err != nil
	e.mu.Unlock()
	switch {
	case err != nil && !before:
		e.log.Warn("the collector does not take traces; they are dropped until it does", "reason", reasonOf(err))
	case err == nil && before:
		e.log.Info("traces are exported again")
	}
	return nil
}

// reasonOf is what may be logged of a failed export: not the collector's
// answer, which may repeat what we sent.
func reasonOf(err error) string {
	var transport *url.Error
	if errors.As(err, &transport) {
		err = transport.Err
	}
	text, _, _ := strings.Cut(err.Error(), "body: ")
	return hub.CutText(strings.TrimRight(text, " (:"), maxReason)
}
