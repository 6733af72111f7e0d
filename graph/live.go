package graph

import (
	"context"
	"time"

	"github.com/streaming-hub/streaming-hub/controlplane"
	"github.com/streaming-hub/streaming-hub/db"
	"github.com/streaming-hub/streaming-hub/graph/model"
)

func (r subscriptionResolver) DeliveryOutcomes(ctx context.Context, filter *model.DeliveryFilter, after *string) (<-chan model.DeliveryOutcomeItem, error) {
	f, possible := deliveryFilter(filter)
	at, err := liveStart(after)
	if err != nil {
		return nil, err
	}
	items := make(chan model.DeliveryOutcomeItem)
	go r.follow(ctx, controlplane.LiveFilter(f), possible, at, items)
	return items, nil
}

// follow feeds one subscription until its context ends, which gqlgen sees to
// when the client leaves.
func (r subscriptionResolver) follow(ctx context.Context, f controlplane.LiveFilter, possible bool, after *controlplane.Cursor, items chan<- model.DeliveryOutcomeItem) {
	defer close(items)
	if !possible {
		<-ctx.Done()
		return
	}
	// Its only errors are those of the function below: the client has left.
	_ = r.Feed.Follow(ctx, actorOf(ctx), f, after, func(item controlplane.LiveItem) error {
		select {
		case items <- toLiveItem(item):
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	})
}

func liveStart(after *string) (*controlplane.Cursor, error) {
	if after == nil {
		return nil, nil
	}
	c, err := controlplane.ParseCursor(*after)
	return &c, err
}

func toLiveItem(i controlplane.LiveItem) model.DeliveryOutcomeItem {
	if g := i.Gap; g != nil {
		gap := &model.LiveGap{Cursor: i.Cursor.String(), After: g.After.String(), Through: g.Through.String()}
		if g.Missed >= 0 {
			n := int32(g.Missed)
			gap.Missed = &n
		}
		return gap
	}
	return toOutcome(i.Cursor, i.Outcome)
}

func toOutcome(c controlplane.Cursor, o *db.FeedItem) *model.DeliveryOutcome {
	m := &model.DeliveryOutcome{
		Cursor: c.String(), DeliveryID: globalID(deliveryPrefix, o.Delivery.ID), EventID: globalID(eventPrefix, o.Event.ID),
		EventSubscriptionID: globalID(subscriptionPrefix, o.Subscription.ID), TenantID: string(o.Tenant),
		EventType: o.EventType, Source: o.Source, AttemptNumber: o.Number, State: o.State,
		Status: optional(o.Status), ErrorClass: optional(o.ErrorClass), DeadReason: optional(o.DeadReason),
		At: o.Started().Add(micros(o.TotalMicros)), Of: o.Delivery,
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
