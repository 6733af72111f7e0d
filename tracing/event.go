package tracing

import (
	"context"
	"net/url"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/streaming-hub/streaming-hub/hub"
)

// The hub's own attributes, beside those of OpenTelemetry's conventions.
const (
	tenantKey       = attribute.Key("streaming_hub.tenant.id")
	eventKey        = attribute.Key("streaming_hub.event.id")
	eventTypeKey    = attribute.Key("streaming_hub.event.type")
	eventSeqKey     = attribute.Key("streaming_hub.event.seq")
	deliveryKey     = attribute.Key("streaming_hub.delivery.id")
	runKey          = attribute.Key("streaming_hub.delivery.run")
	testKey         = attribute.Key("streaming_hub.delivery.test")
	subscriptionKey = attribute.Key("streaming_hub.subscription.id")
	destinationKey  = attribute.Key("streaming_hub.destination.id")
	attemptKey      = attribute.Key("streaming_hub.attempt.id")
	numberKey       = attribute.Key("streaming_hub.attempt.number")
	phaseKey        = attribute.Key("streaming_hub.attempt.phase") // in which it failed
	decisionKey     = attribute.Key("streaming_hub.decision")
	deadReasonKey   = attribute.Key("streaming_hub.dead_reason")
)

// Ingested tells of events that were stored.
func (t *Tracer) Ingested(events []hub.Event, begun, ended time.Time) {
	if t == nil {
		return
	}
	for i := range events {
		ev := &events[i]
		if o, followed := originOf(ev, t.chosen); followed {
			t.ingested(ev, o, begun, ended)
		}
	}
}

func (t *Tracer) ingested(ev *hub.Event, o origin, begun, ended time.Time) {
	attributes := append(make([]attribute.KeyValue, 0, 12),
		tenantKey.String(string(ev.Tenant)), eventKey.String(ev.ID.String()), eventTypeKey.String(ev.Key()), eventSeqKey.Int64(ev.Seq),
		semconv.MessagingOperationName("ingest"), semconv.MessagingOperationTypeProcess, semconv.MessagingMessageBodySize(len(ev.Body)),
	)
	name, kind := "ingest", trace.SpanKindInternal
	if ev.Tenant != hub.HubTenant { // whose events come from no broker
		name, kind = name+" "+ev.Record.Topic, trace.SpanKindConsumer
		attributes = append(attributes, semconv.MessagingSystemKafka, semconv.MessagingDestinationName(ev.Record.Topic),
			semconv.MessagingDestinationPartitionID(strconv.Itoa(int(ev.Record.Partition))), semconv.MessagingKafkaOffset(int(ev.Record.Offset)))
	}
	span := t.begin(o, o.parent, true, spanOf(ev.ID.ID), name, kind, begun, attributes)
	span.End(trace.WithTimestamp(ended))
}

// Outbound is the event as a receiver is to see it at an attempt: when it is
// followed, a copy that names the attempt's span as the parent of what the
// receiver does; else the event itself, with the producer's trace context.
func (t *Tracer) Outbound(ev *hub.Event, attempt hub.AttemptID) *hub.Event {
	if t == nil {
		return ev
	}
	o, followed := originOf(ev, t.chosen)
	if !followed {
		return ev
	}
	out := *ev
	out.TraceParent = o.traceParent(spanOf(attempt.ID))
	return &out
}

// Attempted tells of an attempt and of what followed from it. Of the URL only
// scheme, host and port are told.
func (t *Tracer) Attempted(ev *hub.Event, outcome *hub.Outcome, to string, ended time.Time) {
	if t == nil {
		return
	}
	if o, followed := originOf(ev, t.chosen); followed {
		t.attempted(ev, o, outcome, to, ended)
	}
}

func (t *Tracer) attempted(ev *hub.Event, o origin, outcome *hub.Outcome, to string, ended time.Time) {
	d, a := &outcome.Delivery, &outcome.Attempt
	attributes := append(make([]attribute.KeyValue, 0, 20),
		semconv.HTTPRequestMethodPost,
		tenantKey.String(string(d.Tenant)), eventKey.String(d.Event.String()), eventTypeKey.String(ev.Key()),
		deliveryKey.String(d.ID.String()), runKey.Int(int(d.Run)), subscriptionKey.String(d.Subscription.String()), destinationKey.String(d.Destination.String()),
		attemptKey.String(a.ID.String()), numberKey.Int(int(a.Number)),
		decisionKey.String(strings.ToLower(string(outcome.Decision.State))),
	)
	attributes = append(attributes, place(to)...)
	if a.Answer.RemoteIP != "" {
		attributes = append(attributes, semconv.NetworkPeerAddress(a.Answer.RemoteIP))
	}
	if a.Answer.Status != 0 {
		attributes = append(attributes, semconv.HTTPResponseStatusCode(int(a.Answer.Status)))
	}
	if a.Failure.Failed() {
		attributes = append(attributes, semconv.ErrorTypeKey.String(errorType(a)))
		if a.Failure.Phase != "" {
			attributes = append(attributes, phaseKey.String(strings.ToLower(string(a.Failure.Phase))))
		}
	}
	if outcome.Decision.DeadReason != "" {
		attributes = append(attributes, deadReasonKey.String(strings.ToLower(string(outcome.Decision.DeadReason))))
	}
	parent := spanOf(d.Event.ID)
	if d.Test {
		// Nobody ingested the event of a test.
		parent = trace.SpanID{}
		attributes = append(attributes, testKey.Bool(true))
	}
	span := t.begin(o, parent, false, spanOf(a.ID.ID), "POST", trace.SpanKindClient, a.Started, attributes)
	if a.Failure.Failed() {
		span.SetStatus(codes.Error, "") // the receiver's words are not told
	}
	span.End(trace.WithTimestamp(ended))
}

// begin makes a span with an id of ours; a zero parent begins the trace.
func (t *Tracer) begin(o origin, parent trace.SpanID, remote bool, span trace.SpanID, name string, kind trace.SpanKind, at time.Time, attributes []attribute.KeyValue) trace.Span {
	ctx := withIdentity(context.Background(), identity{trace: o.trace, span: span})
	if parent.IsValid() {
		ctx = trace.ContextWithSpanContext(ctx, o.context(parent, remote))
	}
	_, s := t.tracer.Start(ctx, name, trace.WithSpanKind(kind), trace.WithTimestamp(at), trace.WithAttributes(attributes...))
	t.exporter.spans.WithLabelValues(spanMade).Inc()
	return s
}

// errorType is the kind of a failure: the status, or the class in lower case.
func errorType(a *hub.Attempt) string {
	if a.Failure.Class == hub.ErrStatus && a.Answer.Status != 0 {
		return strconv.Itoa(int(a.Answer.Status))
	}
	return strings.ToLower(string(a.Failure.Class))
}

// place is what is told of a URL: never its path or query, which may hold a
// secret.
func place(raw string) []attribute.KeyValue {
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" {
		return nil
	}
	port, err := strconv.Atoi(u.Port())
	if err != nil {
		port = 443
		if u.Scheme == "http" {
			port = 80
		}
	}
	return []attribute.KeyValue{semconv.URLScheme(u.Scheme), semconv.ServerAddress(u.Hostname()), semconv.ServerPort(port)}
}
