package graph

import (
	"context"

	"github.com/streaming-hub/streaming-hub/controlplane"
	"github.com/streaming-hub/streaming-hub/db"
	"github.com/streaming-hub/streaming-hub/graph/model"
	"github.com/streaming-hub/streaming-hub/hub"
)

func (r queryResolver) Viewer(ctx context.Context) (*model.Viewer, error) {
	return toViewer(actorOf(ctx)), nil
}

func (r queryResolver) EventSubscription(ctx context.Context, id string) (*model.EventSubscription, error) {
	key, ok := parseGlobalID(subscriptionPrefix, id)
	if !ok {
		return nil, nil
	}
	s, err := load(ctx, loadersOf(ctx).subscriptions, hub.SubscriptionID{ID: key})
	return toSubscription(s), err
}

func (r queryResolver) EventSubscriptions(ctx context.Context, first int32, after *string, filter *model.EventSubscriptionFilter) (*model.EventSubscriptionConnection, error) {
	size, err := pageSize(first)
	if err != nil {
		return nil, err
	}
	before, err := idBehind(bySubscriptionID, after)
	if err != nil {
		return nil, err
	}
	list, err := r.Subscriptions.Page(ctx, actorOf(ctx), tenantOfSubscriptions(filter), before, size+1)
	return subscriptionConnection(list, size), err
}

func (r queryResolver) Event(ctx context.Context, id string) (*model.Event, error) {
	key, ok := parseGlobalID(eventPrefix, id)
	if !ok {
		return nil, nil
	}
	e, err := load(ctx, loadersOf(ctx).events, hub.EventID{ID: key})
	return toEvent(e), err
}

func (r queryResolver) Events(ctx context.Context, first int32, after *string, filter *model.EventFilter) (*model.EventConnection, error) {
	size, err := pageSize(first)
	if err != nil {
		return nil, err
	}
	tenant := tenantOfEvents(filter)
	if a := actorOf(ctx); a.Platform() && tenant == "" {
		return r.eventsOfAll(ctx, a, after, size)
	}
	return r.eventsOfOne(ctx, actorOf(ctx), tenant, after, size)
}

func (r queryResolver) eventsOfAll(ctx context.Context, a controlplane.Actor, after *string, size int) (*model.EventConnection, error) {
	before, err := idBehind(byEventID, after)
	if err != nil {
		return nil, err
	}
	page, err := r.History.Events(ctx, a, before, size+1)
	if err != nil {
		return nil, err
	}
	return eventConnection(page, size, func(e *db.EventHead) string { return cursorOfID(byEventID, e.Event.ID.ID) })
}

func (r queryResolver) eventsOfOne(ctx context.Context, a controlplane.Actor, tenant hub.TenantID, after *string, size int) (*model.EventConnection, error) {
	before, err := seqBehind(after)
	if err != nil {
		return nil, err
	}
	page, err := r.History.EventsOf(ctx, a, tenant, before, size+1)
	if err != nil {
		return nil, err
	}
	return eventConnection(page, size, func(e *db.EventHead) string { return cursorOfSeq(e.Event.Seq) })
}

func (r queryResolver) Delivery(ctx context.Context, id string) (*model.Delivery, error) {
	key, ok := parseGlobalID(deliveryPrefix, id)
	if !ok {
		return nil, nil
	}
	s, err := load(ctx, loadersOf(ctx).deliveries, hub.DeliveryID{ID: key})
	return toDelivery(s), err
}

func (r queryResolver) Deliveries(ctx context.Context, first int32, after *string, filter *model.DeliveryFilter) (*model.DeliveryConnection, error) {
	f, possible := deliveryFilter(filter)
	return r.deliveryPage(ctx, f, possible, first, after)
}
