package graph

import (
	"context"
	"encoding/hex"
	"time"

	"github.com/streaming-hub/streaming-hub/controlplane"
	"github.com/streaming-hub/streaming-hub/db"
	"github.com/streaming-hub/streaming-hub/graph/model"
)

func (r subscriptionResolver) DeliveryOutcomes(ctx context.Context, filter *model.DeliveryFilter, after *string) (<-chan model.DeliveryOutcomeItem, error) {
	f, possible := deliveryFilter(filter)
	return follow(ctx, r.Feed, controlplane.LiveOutcomes(f), possible, after, toOutcomeItem)
}

func (r subscriptionResolver) DeadLetterAdded(ctx context.Context, filter *model.DeadLetterFilter, after *string) (<-chan model.DeliveryOutcomeItem, error) {
	f, possible, err := deadLetterFilter(filter)
	if err != nil {
		return nil, err
	}
	return follow(ctx, r.Feed, controlplane.LiveDeadLetters(f), possible, after, toOutcomeItem)
}

func (r subscriptionResolver) CircuitBreakerChanged(ctx context.Context, filter *model.CircuitBreakerFilter, after *string) (<-chan model.CircuitBreakerItem, error) {
	f, possible := breakerFilter(filter)
	return follow(ctx, r.Feed, controlplane.LiveBreakers(f), possible, after, toBreakerItem)
}

func (r subscriptionResolver) FailureSpanChanged(ctx context.Context, filter *model.FailureSpanFilter, after *string) (<-chan model.FailureSpanItem, error) {
	f, possible := spanFilter(filter)
	return follow(ctx, r.Feed, controlplane.LiveSpans(f), possible, after, toSpanItem)
}

// follow feeds one subscription until its context ends, which gqlgen sees to
// when the client leaves. possible is false for a filter that nothing can pass.
func follow[T any](ctx context.Context, feed *controlplane.Feed, f controlplane.LiveFilter, possible bool, after *string, show func(controlplane.LiveItem) T) (<-chan T, error) {
	at, err := liveStart(after)
	if err != nil {
		return nil, err
	}
	items := make(chan T)
	go func() {
		defer close(items)
		if !possible {
			<-ctx.Done()
			return
		}
		// Its only errors are those of the function below: the client has left.
		_ = feed.Follow(ctx, actorOf(ctx), f, at, func(item controlplane.LiveItem) error {
			select {
			case items <- show(item):
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
	}()
	return items, nil
}

func liveStart(after *string) (*controlplane.Cursor, error) {
	if after == nil {
		return nil, nil
	}
	c, err := controlplane.ParseCursor(*after)
	return &c, err
}

func toGap(c controlplane.Cursor, g *controlplane.Gap) *model.LiveGap {
	gap := &model.LiveGap{Cursor: c.String(), After: g.After.String(), Through: g.Through.String()}
	if g.Missed >= 0 {
		n := int32(g.Missed)
		gap.Missed = &n
	}
	return gap
}

func toOutcomeItem(i controlplane.LiveItem) model.DeliveryOutcomeItem {
	if i.Gap != nil {
		return toGap(i.Cursor, i.Gap)
	}
	return toOutcome(i.Cursor, i.Item)
}

func toOutcome(c controlplane.Cursor, o *db.FeedItem) *model.DeliveryOutcome {
	m := &model.DeliveryOutcome{
		Cursor: c.String(), DeliveryID: globalID(deliveryPrefix, o.Delivery.ID), EventID: globalID(eventPrefix, o.Event.ID),
		EventSubscriptionID: globalID(subscriptionPrefix, o.Subscription.ID), DestinationID: globalID(destinationPrefix, o.Destination.ID),
		TenantID: string(o.Tenant), EventType: o.EventType, Source: o.Source, AttemptCount: o.Number, State: o.State,
		Status: optional(o.Status), ErrorClass: optional(o.ErrorClass), DeadReason: optional(o.DeadReason),
		Fingerprint: optional(hex.EncodeToString(o.Fingerprint)), At: o.Ended(), Of: o.Delivery,
	}
	if o.Attempted() {
		m.AttemptNumber = &o.Number
	}
	if o.NextMicros != 0 {
		next := time.UnixMicro(o.NextMicros).UTC()
		m.NextAttemptAt = &next
	}
	return m
}

func (r deliveryOutcomeResolver) Delivery(ctx context.Context, obj *model.DeliveryOutcome) (*model.Delivery, error) {
	s, err := load(ctx, loadersOf(ctx).deliveries, obj.Of)
	return toDelivery(s), err
}
