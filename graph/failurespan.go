package graph

import (
	"context"

	"github.com/streaming-hub/streaming-hub/controlplane"
	"github.com/streaming-hub/streaming-hub/db"
	"github.com/streaming-hub/streaming-hub/graph/model"
	"github.com/streaming-hub/streaming-hub/hub"
)

func (r queryResolver) FailureSpans(ctx context.Context, first int32, after *string, filter *model.FailureSpanFilter) (*model.FailureSpanConnection, error) {
	size, err := pageSize(first)
	if err != nil {
		return nil, err
	}
	before, err := idBehind(bySpan, after)
	if err != nil {
		return nil, err
	}
	f, possible := spanFilter(filter)
	if !possible {
		before = hub.ID{} // behind the last row
	}
	page, snapshot, err := r.Policies.Spans(ctx, actorOf(ctx), f, before, size)
	if err != nil {
		return nil, err
	}
	return r.spanConnection(&page, snapshot)
}

func (r eventSubscriptionResolver) FailureSpan(ctx context.Context, obj *model.EventSubscription) (*model.FailureSpan, error) {
	s, err := load(ctx, loadersOf(ctx).spans, obj.Of.ID)
	return r.toSpan(s), err
}

func (r failureSpanResolver) EventSubscription(ctx context.Context, obj *model.FailureSpan) (*model.EventSubscription, error) {
	s, err := load(ctx, loadersOf(ctx).subscriptions, obj.Of)
	return toSubscription(s), err
}

func (r failureSpanChangeResolver) EventSubscription(ctx context.Context, obj *model.FailureSpanChange) (*model.EventSubscription, error) {
	if obj.Of.IsZero() {
		return nil, nil
	}
	s, err := load(ctx, loadersOf(ctx).subscriptions, obj.Of)
	return toSubscription(s), err
}

func (r failureSpanChangeResolver) Destination(ctx context.Context, obj *model.FailureSpanChange) (*model.Destination, error) {
	d, err := load(ctx, loadersOf(ctx).destinations, obj.To)
	return toDestination(d), err
}

func (r *Resolver) toSpan(s *db.FailureSpan) *model.FailureSpan {
	if s == nil {
		return nil
	}
	v := r.Policies.Verdict(s.Span)
	return &model.FailureSpan{
		EventSubscriptionID: globalID(subscriptionPrefix, s.Subscription.ID), TenantID: string(s.Tenant),
		FirstFailureAt: s.Span.FirstFailureAt, LastFailureAt: s.Span.LastFailureAt, FailureCount: s.Span.FailureCount,
		Sustained: v.Sustained, Spread: v.Spread, WouldTripAt: optional(v.WouldTripAt),
		TrippedAt: optional(s.TrippedAt), WarnedPercent: optional(int32(s.Mark)),
		Explanation: r.Policies.ExplainSpan(s), Of: s.Subscription,
	}
}

func (r *Resolver) spanConnection(page *db.Page[db.FailureSpan], snapshot string) (*model.FailureSpanConnection, error) {
	c := &model.FailureSpanConnection{Edges: []*model.FailureSpanEdge{}, Nodes: []*model.FailureSpan{}}
	end := ""
	for i := range page.Rows {
		node := r.toSpan(&page.Rows[i])
		end = cursorOfID(bySpan, page.Rows[i].Subscription.ID)
		c.Nodes = append(c.Nodes, node)
		c.Edges = append(c.Edges, &model.FailureSpanEdge{Cursor: end, Node: node})
	}
	if page.More {
		end = cursorOfID(bySpan, page.End)
	}
	c.PageInfo = pageInfo(page.More, end)
	var err error
	c.LiveCursor, err = liveCursor(snapshot)
	return c, err
}

// spanFilter reads a filter; possible is false when it names an id that cannot
// exist.
func spanFilter(m *model.FailureSpanFilter) (f db.SpanFilter, possible bool) {
	if m == nil {
		return f, true
	}
	possible = true
	f.Tenant = hub.TenantID(value(m.TenantID))
	if m.EventSubscriptionID != nil {
		f.Subscription.ID, possible = parseGlobalID(subscriptionPrefix, *m.EventSubscriptionID)
	}
	if m.DestinationID != nil {
		var ok bool
		f.Destination.ID, ok = parseGlobalID(destinationPrefix, *m.DestinationID)
		possible = possible && ok
	}
	return f, possible
}

func toSpanItem(i controlplane.LiveItem) model.FailureSpanItem {
	if i.Gap != nil {
		return toGap(i.Cursor, i.Gap)
	}
	n := i.Item.Notice
	m := &model.FailureSpanChange{
		Cursor: i.Cursor.String(), Kind: n.Kind, At: n.At, TenantID: string(n.Tenant),
		DestinationID: globalID(destinationPrefix, n.Destination.ID), Reason: n.Reason, Of: n.Subscription, To: n.Destination,
	}
	if !n.Subscription.IsZero() {
		id := globalID(subscriptionPrefix, n.Subscription.ID)
		m.EventSubscriptionID = &id
	}
	if s := n.Span; s != nil {
		m.FirstFailureAt, m.LastFailureAt, m.FailureCount = optional(s.FirstFailureAt), optional(s.LastFailureAt), optional(s.FailureCount)
		m.WarnedPercent, m.WouldTripAt = optional(int32(s.Mark)), optional(s.WouldTripAt)
	}
	return m
}
