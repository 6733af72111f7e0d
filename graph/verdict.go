package graph

import (
	"context"

	"github.com/streaming-hub/streaming-hub/controlplane"
	"github.com/streaming-hub/streaming-hub/db"
	"github.com/streaming-hub/streaming-hub/graph/model"
	"github.com/streaming-hub/streaming-hub/hub"
	"github.com/streaming-hub/streaming-hub/hub/match"
)

func (r queryResolver) ExplainMatch(ctx context.Context, eventID, eventSubscriptionID string) (*model.MatchVerdict, error) {
	event, ok1 := parseGlobalID(eventPrefix, eventID)
	sub, ok2 := parseGlobalID(subscriptionPrefix, eventSubscriptionID)
	if !ok1 || !ok2 {
		return nil, nil
	}
	e, err := load(ctx, loadersOf(ctx).events, hub.EventID{ID: event})
	if e == nil || err != nil {
		return nil, err
	}
	s, err := load(ctx, loadersOf(ctx).subscriptions, hub.SubscriptionID{ID: sub})
	if s == nil || err != nil {
		return nil, err
	}
	return toVerdict(&e.Event, s), nil
}

// Verdicts judges by the clauses that matching itself uses.
func (r eventResolver) Verdicts(ctx context.Context, obj *model.Event, first int32, after *string) ([]*model.MatchVerdict, error) {
	size, err := pageSize(first)
	if err != nil {
		return nil, err
	}
	page := subscriptionPage{tenant: obj.Of.Tenant, before: controlplane.Newest, size: size}
	if after != nil {
		var ok bool
		if page.before, ok = parseGlobalID(subscriptionPrefix, *after); !ok {
			return nil, apiErrorf(codeBadInput, "after is no id of an event subscription")
		}
	}
	subs, err := load(ctx, loadersOf(ctx).ofTenant, page)
	list := make([]*model.MatchVerdict, len(subs))
	for i := range subs {
		list[i] = toVerdict(obj.Of, &subs[i])
	}
	return list, err
}

func (r matchVerdictResolver) Event(ctx context.Context, obj *model.MatchVerdict) (*model.Event, error) {
	e, err := load(ctx, loadersOf(ctx).events, obj.Of.ID)
	return toEvent(e), err
}

func (r matchVerdictResolver) Delivery(ctx context.Context, obj *model.MatchVerdict) (*model.Delivery, error) {
	s, err := deliveryOf(ctx, obj)
	return toDelivery(s), err
}

func (r matchVerdictResolver) Summary(ctx context.Context, obj *model.MatchVerdict) (string, error) {
	s, err := deliveryOf(ctx, obj)
	sub := obj.EventSubscription.Of
	return controlplane.ExplainMatch(r.Now(), obj.Of, sub, match.Explain(obj.Of, sub), s), err
}

func deliveryOf(ctx context.Context, obj *model.MatchVerdict) (*hub.Standing, error) {
	return load(ctx, loadersOf(ctx).ofPairs, db.Pair{Event: obj.Of.ID, Subscription: obj.EventSubscription.Of.ID})
}

func toVerdict(ev *hub.Event, s *hub.EventSubscription) *model.MatchVerdict {
	e := match.Explain(ev, s)
	v := &model.MatchVerdict{EventSubscription: toSubscription(s), Matched: e.Matched, FailedClause: optional(e.FailedClause), Of: ev}
	for _, c := range e.Clauses {
		v.Clauses = append(v.Clauses, &model.MatchClause{Name: c.Name, Passed: c.Passed, Wanted: c.Wanted, Got: c.Got})
	}
	return v
}
