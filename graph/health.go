package graph

import (
	"context"

	"github.com/streaming-hub/streaming-hub/controlplane"
	"github.com/streaming-hub/streaming-hub/graph/model"
	"github.com/streaming-hub/streaming-hub/hub"
	"github.com/streaming-hub/streaming-hub/hub/health"
)

func (r destinationResolver) Health(ctx context.Context, obj *model.Destination) (*model.DestinationHealth, error) {
	rate, err := rateOf(ctx, obj.Of)
	return r.toHealth(obj.Of, r.Policies.Shown(obj.Of, rate)), err
}

// rateOf is what FAILURE_RATE knows of a destination.
func rateOf(ctx context.Context, d *hub.Destination) (health.Rate, error) {
	known, err := load(ctx, loadersOf(ctx).rates, d.ID)
	return controlplane.RateOf(d, known), err
}

func (r *Resolver) toHealth(d *hub.Destination, rate health.Rate) *model.DestinationHealth {
	m := &model.DestinationHealth{
		Policy: hub.FailureSpan, State: health.Active, KillSwitch: r.Policies.KillSwitch,
		Explanation: "active: each of its event subscriptions is judged by itself",
	}
	if d.FailurePolicy.Kind != hub.FailureRate {
		return m
	}
	m.Policy, m.State, m.Explanation = hub.FailureRate, rate.Judged, r.Policies.ExplainRate(d, rate)
	m.Attempts, m.Failures, m.FailuresInRow = &rate.Attempts, &rate.Failures, &rate.Row
	if rate.Judged != health.Active {
		m.Since, m.NextTryAt = optional(rate.JudgedAt), optional(rate.NextTryAt)
	}
	if rate.LastSuccessAt.After(d.CreatedAt) {
		m.LastSuccessAt = &rate.LastSuccessAt
	}
	return m
}

func (r eventSubscriptionResolver) Health(ctx context.Context, obj *model.EventSubscription) (*model.EventSubscriptionHealth, error) {
	known := controlplane.SubscriptionHealth{Subscription: obj.Of}
	var err error
	if known.Destination, err = load(ctx, loadersOf(ctx).destinations, obj.Of.Destination); err != nil {
		return nil, err
	}
	if known.Destination != nil {
		if known.Rate, err = rateOf(ctx, known.Destination); err != nil {
			return nil, err
		}
		known.Rate = r.Policies.Shown(known.Destination, known.Rate)
	}
	if known.Span, err = load(ctx, loadersOf(ctx).spans, obj.Of.ID); err != nil {
		return nil, err
	}
	return &model.EventSubscriptionHealth{
		Policy: known.Policy(), State: known.State(), FailureSpan: r.toSpan(known.Span),
		KillSwitch: r.Policies.KillSwitch, Explanation: r.Policies.ExplainHealth(&known),
	}, nil
}
