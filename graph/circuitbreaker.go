package graph

import (
	"context"
	"time"

	"github.com/streaming-hub/streaming-hub/controlplane"
	"github.com/streaming-hub/streaming-hub/db"
	"github.com/streaming-hub/streaming-hub/graph/model"
	"github.com/streaming-hub/streaming-hub/hub"
	"github.com/streaming-hub/streaming-hub/hub/breaker"
)

func (r queryResolver) CircuitBreakers(ctx context.Context, first int32, after *string, filter *model.CircuitBreakerFilter) (*model.CircuitBreakerConnection, error) {
	size, err := pageSize(first)
	if err != nil {
		return nil, err
	}
	before, err := idBehind(byBreaker, after)
	if err != nil {
		return nil, err
	}
	f, possible := breakerFilter(filter)
	if !possible {
		before = hub.ID{} // behind the last row
	}
	page, snapshot, err := r.Breakers.Page(ctx, actorOf(ctx), f, before, size)
	if err != nil {
		return nil, err
	}
	return breakerConnection(r.Now(), &page, snapshot)
}

func (r destinationResolver) CircuitBreaker(ctx context.Context, obj *model.Destination) (*model.CircuitBreaker, error) {
	s, err := breakerOf(ctx, obj.Of)
	return toBreaker(r.Now(), &s), err
}

// breakerOf is a destination's circuit breaker, a closed one when it has none.
func breakerOf(ctx context.Context, d *hub.Destination) (db.StoredBreaker, error) {
	s, err := load(ctx, loadersOf(ctx).breakers, d.ID)
	if s == nil {
		s = &db.StoredBreaker{Lane: db.Lane{Tenant: d.Tenant, Destination: d.ID}, State: breaker.State{Phase: breaker.Closed}}
	}
	return *s, err
}

func (r circuitBreakerResolver) Destination(ctx context.Context, obj *model.CircuitBreaker) (*model.Destination, error) {
	d, err := load(ctx, loadersOf(ctx).destinations, obj.Of)
	return toDestination(d), err
}

func (r circuitBreakerChangeResolver) Destination(ctx context.Context, obj *model.CircuitBreakerChange) (*model.Destination, error) {
	d, err := load(ctx, loadersOf(ctx).destinations, obj.Of)
	return toDestination(d), err
}

func toBreaker(now time.Time, b *db.StoredBreaker) *model.CircuitBreaker {
	s := &b.State
	attempts, failures := s.Window.Totals(now)
	return &model.CircuitBreaker{
		DestinationID: globalID(destinationPrefix, b.Destination.ID), TenantID: string(b.Tenant), Phase: s.Phase,
		OpenedAt: optional(s.OpenedAt), Cause: optional(s.Cause), FailuresInRow: s.Failures,
		RecentAttempts: attempts, RecentFailures: failures, NextProbeAt: optional(s.NextProbeAt),
		ProbeSince: optional(s.Probe.StartedAt), ClosedAt: optional(s.ClosedAt), RampLimit: optional(s.RampLimit),
		Explanation: controlplane.ExplainBreaker(now, *s), Of: b.Destination,
	}
}

func breakerConnection(now time.Time, page *db.Page[db.StoredBreaker], snapshot string) (*model.CircuitBreakerConnection, error) {
	c := &model.CircuitBreakerConnection{Edges: []*model.CircuitBreakerEdge{}, Nodes: []*model.CircuitBreaker{}}
	end := ""
	for i := range page.Rows {
		node := toBreaker(now, &page.Rows[i])
		end = cursorOfID(byBreaker, page.Rows[i].Destination.ID)
		c.Nodes = append(c.Nodes, node)
		c.Edges = append(c.Edges, &model.CircuitBreakerEdge{Cursor: end, Node: node})
	}
	if page.More {
		end = cursorOfID(byBreaker, page.End)
	}
	c.PageInfo = pageInfo(page.More, end)
	var err error
	c.LiveCursor, err = liveCursor(snapshot)
	return c, err
}

// breakerFilter reads a filter; possible is false when it names an id that
// cannot exist.
func breakerFilter(m *model.CircuitBreakerFilter) (f db.BreakerFilter, possible bool) {
	if m == nil {
		return f, true
	}
	possible = true
	f.Tenant, f.Phases = hub.TenantID(value(m.TenantID)), m.Phase
	if m.DestinationID != nil {
		f.Destination.ID, possible = parseGlobalID(destinationPrefix, *m.DestinationID)
	}
	return f, possible
}

func toBreakerItem(i controlplane.LiveItem) model.CircuitBreakerItem {
	if i.Gap != nil {
		return toGap(i.Cursor, i.Gap)
	}
	n := i.Item.Notice
	m := &model.CircuitBreakerChange{
		Cursor: i.Cursor.String(), Kind: n.Kind, At: n.At, TenantID: string(n.Tenant),
		DestinationID: globalID(destinationPrefix, n.Destination.ID), Phase: controlplane.PhaseOf(n), Reason: n.Reason, Of: n.Destination,
	}
	if b := n.Breaker; b != nil {
		m.FailuresInRow, m.OpenedAt, m.NextProbeAt = b.Failures, optional(b.OpenedAt), optional(b.NextProbeAt)
	}
	return m
}
