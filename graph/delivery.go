package graph

import (
	"context"
	"encoding/hex"

	"github.com/streaming-hub/streaming-hub/controlplane"
	"github.com/streaming-hub/streaming-hub/db"
	"github.com/streaming-hub/streaming-hub/graph/model"
	"github.com/streaming-hub/streaming-hub/hub"
)

func (r deliveryResolver) Event(ctx context.Context, obj *model.Delivery) (*model.Event, error) {
	e, err := load(ctx, loadersOf(ctx).events, obj.Of.Event)
	return toEvent(e), err
}

func (r deliveryResolver) EventSubscription(ctx context.Context, obj *model.Delivery) (*model.EventSubscription, error) {
	s, err := load(ctx, loadersOf(ctx).subscriptions, obj.Of.Subscription)
	return toSubscription(s), err
}

func (r deliveryResolver) Destination(ctx context.Context, obj *model.Delivery) (*model.Destination, error) {
	d, err := load(ctx, loadersOf(ctx).destinations, obj.Of.Destination)
	return toDestination(d), err
}

func (r deliveryResolver) LastError(ctx context.Context, obj *model.Delivery) (*string, error) {
	if obj.Of.State == hub.Delivered {
		return nil, nil
	}
	if obj.Of.LastError != "" {
		return &obj.Of.LastError, nil
	}
	last, err := lastAttempt(ctx, obj.Of.Delivery.ID)
	if last == nil || err != nil {
		return nil, err
	}
	return optional(last.Failure.Detail), nil
}

func (r deliveryResolver) Attempts(ctx context.Context, obj *model.Delivery) ([]*model.Attempt, error) {
	list, err := load(ctx, loadersOf(ctx).attempts, obj.Of.Delivery.ID)
	return toAttempts(list), err
}

func (r deliveryResolver) Explanation(ctx context.Context, obj *model.Delivery) (string, error) {
	last, err := lastAttempt(ctx, obj.Of.Delivery.ID)
	if err != nil {
		return "", err
	}
	f := controlplane.Facts{Now: r.Now(), Delivery: obj.Of, Last: last, KillSwitch: r.Policies.KillSwitch, CurveSteps: r.CurveSteps}
	if !obj.Of.State.Settled() {
		err = r.surroundings(ctx, &f)
	}
	return controlplane.Explain(f), err
}

// surroundings adds to an explanation what an unfinished delivery waits for.
func (r deliveryResolver) surroundings(ctx context.Context, f *controlplane.Facts) (err error) {
	l, d := loadersOf(ctx), f.Delivery
	if f.Subscription, err = load(ctx, l.subscriptions, d.Subscription); err != nil {
		return err
	}
	if f.Destination, err = load(ctx, l.destinations, d.Destination); err != nil || f.Destination == nil {
		return err
	}
	known, err := breakerOf(ctx, f.Destination)
	if err != nil {
		return err
	}
	f.Breaker = known.State
	if f.Rate, err = rateOf(ctx, f.Destination); err != nil {
		return err
	}
	f.Gate, err = load(ctx, l.gates, d.Destination)
	return err
}

func lastAttempt(ctx context.Context, id hub.DeliveryID) (*hub.RecordedAttempt, error) {
	list, err := load(ctx, loadersOf(ctx).lastAttempts, id)
	if len(list) == 0 || err != nil {
		return nil, err
	}
	return &list[0], nil
}

func toDelivery(s *hub.Standing) *model.Delivery {
	if s == nil {
		return nil
	}
	return &model.Delivery{
		ID: globalID(deliveryPrefix, s.Delivery.ID.ID), TenantID: string(s.Tenant), State: s.State, AttemptCount: s.Attempts,
		NextAttemptAt: optional(s.NextAt), DeadReason: optional(s.DeadReason), Fingerprint: optional(hex.EncodeToString(s.Fingerprint)),
		CreatedAt: s.CreatedAt(), FinishedAt: optional(s.FinishedAt), Of: s,
	}
}

// deliveryPage answers a list of deliveries. possible is false for a filter
// that nothing can pass.
func (r *Resolver) deliveryPage(ctx context.Context, f db.DeliveryFilter, possible bool, first int32, after *string) (*model.DeliveryConnection, error) {
	size, err := pageSize(first)
	if err != nil {
		return nil, err
	}
	o := byDeliveryID
	if f.ByEnd() {
		o = byDeliveryEnd
	}
	before, err := idBehind(o, after)
	if err != nil {
		return nil, err
	}
	if !possible {
		before = hub.ID{} // behind the last row
	}
	page, err := r.History.Deliveries(ctx, actorOf(ctx), f, before, size)
	if err != nil {
		return nil, err
	}
	return deliveryConnection(&page, o)
}

func deliveryConnection(page *db.DeliveryPage, o order) (*model.DeliveryConnection, error) {
	c := &model.DeliveryConnection{Edges: []*model.DeliveryEdge{}, Nodes: []*model.Delivery{}}
	end := ""
	for i := range page.Deliveries {
		node := toDelivery(&page.Deliveries[i])
		end = cursorOfID(o, page.Positions[i])
		c.Nodes = append(c.Nodes, node)
		c.Edges = append(c.Edges, &model.DeliveryEdge{Cursor: end, Node: node})
	}
	if page.More {
		end = cursorOfID(o, page.End)
	}
	c.PageInfo = pageInfo(page.More, end)
	var err error
	c.LiveCursor, err = liveCursor(page.Snapshot)
	return c, err
}

// deliveryFilter reads a filter; possible is false when it names an id that
// cannot exist.
func deliveryFilter(m *model.DeliveryFilter) (f db.DeliveryFilter, possible bool) {
	if m == nil {
		return f, true
	}
	possible = true
	f.States = m.State
	if m.TenantID != nil {
		f.Tenant = hub.TenantID(*m.TenantID)
	}
	if m.EventSubscriptionID != nil {
		f.Subscription.ID, possible = parseGlobalID(subscriptionPrefix, *m.EventSubscriptionID)
	}
	if m.DestinationID != nil {
		var ok bool
		f.Destination.ID, ok = parseGlobalID(destinationPrefix, *m.DestinationID)
		possible = possible && ok
	}
	if m.EventID != nil {
		var ok bool
		f.Event.ID, ok = parseGlobalID(eventPrefix, *m.EventID)
		possible = possible && ok
	}
	return f, possible
}
