package graph

import (
	"context"
	"time"

	"github.com/streaming-hub/streaming-hub/graph/model"
	"github.com/streaming-hub/streaming-hub/hub"
	"github.com/streaming-hub/streaming-hub/hub/wire"
)

const (
	// masked stands for a signature: who has an attempt's signature and body
	// can replay it.
	masked = "v1,********"
	// hidden stands for a credential.
	hidden = "••••"
)

// RequestHeaders follow from event, delivery and attempt, as they did when the
// request was made; they are not stored. What the tenant adds is as it is now.
func (r attemptResolver) RequestHeaders(ctx context.Context, obj *model.Attempt) ([]*model.HTTPHeader, error) {
	e, err := load(ctx, loadersOf(ctx).events, obj.Of.Event)
	if e == nil || err != nil {
		return nil, err
	}
	a, event := obj.Of, e.Event
	if a.TraceParent != "" {
		event.TraceParent = a.TraceParent
	}
	sent := wire.WebhookHeaders(nil, r.HeaderPrefix, &event, &hub.Delivery{ID: a.Delivery}, a.ID, a.Number, a.Started)
	sent = append(sent, hub.Header{Name: "webhook-signature", Value: masked}, hub.Header{Name: r.HeaderPrefix + "Signature", Value: masked})
	own, err := r.ownHeaders(ctx, a)
	return toHeaders(append(sent, own...)), err
}

// ownHeaders are those that the tenant adds: custom ones, and the credential's.
func (r attemptResolver) ownHeaders(ctx context.Context, a *hub.RecordedAttempt) ([]hub.Header, error) {
	var own []hub.Header
	sub, err := load(ctx, loadersOf(ctx).subscriptions, a.Subscription)
	if err != nil {
		return nil, err
	}
	if sub != nil {
		own = append(own, sub.Headers...)
	}
	name, err := load(ctx, loadersOf(ctx).authorizations, a.Destination)
	if name != "" {
		own = append(own, hub.Header{Name: name, Value: hidden})
	}
	return own, err
}

func toHeaders(lines []hub.Header) []*model.HTTPHeader {
	list := make([]*model.HTTPHeader, len(lines))
	for i, l := range lines {
		list[i] = &model.HTTPHeader{Name: l.Name, Value: l.Value}
	}
	return list
}

func toAttempts(list []hub.RecordedAttempt) []*model.Attempt {
	out := make([]*model.Attempt, len(list))
	for i := range list {
		out[i] = toAttempt(&list[i])
	}
	return out
}

func toAttempt(a *hub.RecordedAttempt) *model.Attempt {
	m := &model.Attempt{
		Number: a.Number, AttemptID: a.ID.String(), StartedAt: a.Started, Duration: micros(a.Timings.Total),
		Timings: toTimings(a.Timings), Status: optional(a.Answer.Status), ResponseHeaders: toHeaders(a.Answer.Headers),
		ResponseBodyTruncated: a.Answer.Truncated, RemoteIP: optional(a.Answer.RemoteIP), TLSVersion: optional(a.Answer.TLSVersion),
		ErrorClass: optional(a.Failure.Class), ErrorPhase: optional(a.Failure.Phase), ErrorDetail: optional(a.Failure.Detail),
		Decision: &model.AttemptDecision{
			State: a.Decision.State, NextAttemptAt: optional(a.Decision.NextAt),
			DeadReason: optional(a.Decision.DeadReason), Reason: optional(a.Decision.Reason),
		},
		Of: a,
	}
	if a.Answer.Status != 0 {
		m.ResponseBody = &a.Answer.Snippet
	}
	return m
}

func toTimings(t hub.Timings) *model.AttemptTimings {
	return &model.AttemptTimings{
		DNS: optional(micros(t.DNS)), Connect: optional(micros(t.Connect)), TLS: optional(micros(t.TLS)),
		FirstByte: optional(micros(t.FirstByte)), Total: micros(t.Total),
	}
}

func micros(n int32) time.Duration { return time.Duration(n) * time.Microsecond }
