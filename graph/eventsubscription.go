package graph

import (
	"context"
	"time"

	"github.com/streaming-hub/streaming-hub/graph/model"
	"github.com/streaming-hub/streaming-hub/hub"
)

func (r eventSubscriptionResolver) Destination(ctx context.Context, obj *model.EventSubscription) (*model.Destination, error) {
	d, err := load(ctx, loadersOf(ctx).destinations, obj.Of.Destination)
	return toDestination(d), err
}

func toSubscription(s *hub.EventSubscription) *model.EventSubscription {
	if s == nil {
		return nil
	}
	return &model.EventSubscription{
		ID: globalID(subscriptionPrefix, s.ID.ID), TenantID: string(s.Tenant), Name: s.Name, Description: s.Description,
		CreatedAt: s.CreatedAt, UpdatedAt: s.UpdatedAt, Version: s.Version,
		Origin: optional(s.Origin), EventTypes: s.EventTypes, SchemaMajor: s.SchemaMajor,
		Enabled: s.Enabled, DisabledBy: optional(s.DisabledBy), DisabledReason: optional(s.DisabledReason), DisabledAt: optional(s.DisabledAt),
		VerificationState: s.VerificationState, VerificationError: optional(s.VerificationError),
		RetryPolicy: toRetryPolicy(s.RetryPolicy), Timeout: s.Timeout,
		Headers: toHeaders(s.Headers), DisableOnGone: s.DisableOnGone, DeletedAt: optional(s.DeletedAt), Of: s,
	}
}

func toRetryPolicy(p hub.RetryPolicy) *model.RetryPolicy {
	switch p.Kind {
	case hub.RetrySchedule:
		steps := make([]time.Duration, len(p.StepsMillis))
		for i, ms := range p.StepsMillis {
			steps[i] = time.Duration(ms) * time.Millisecond
		}
		return &model.RetryPolicy{Kind: p.Kind, Steps: steps}
	case hub.RetryExponential:
		unit := time.Duration(p.UnitMillis) * time.Millisecond
		return &model.RetryPolicy{Kind: p.Kind, Unit: &unit, Attempts: &p.Attempts, Elapsed: &p.Elapsed}
	}
	return &model.RetryPolicy{Kind: hub.RetryCurve}
}

func subscriptionConnection(list []hub.EventSubscription, size int) *model.EventSubscriptionConnection {
	list, more := cut(list, size)
	c := &model.EventSubscriptionConnection{Edges: []*model.EventSubscriptionEdge{}, Nodes: []*model.EventSubscription{}}
	end := ""
	for i := range list {
		node := toSubscription(&list[i])
		end = cursorOfID(bySubscriptionID, list[i].ID.ID)
		c.Nodes = append(c.Nodes, node)
		c.Edges = append(c.Edges, &model.EventSubscriptionEdge{Cursor: end, Node: node})
	}
	c.PageInfo = pageInfo(more, end)
	return c
}

func tenantOfSubscriptions(f *model.EventSubscriptionFilter) hub.TenantID {
	if f == nil || f.TenantID == nil {
		return ""
	}
	return hub.TenantID(*f.TenantID)
}
