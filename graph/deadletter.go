package graph

import (
	"context"
	"encoding/hex"

	"github.com/streaming-hub/streaming-hub/db"
	"github.com/streaming-hub/streaming-hub/graph/model"
	"github.com/streaming-hub/streaming-hub/hub"
	"github.com/streaming-hub/streaming-hub/hub/fingerprint"
	"github.com/streaming-hub/streaming-hub/hub/match"
)

func (r queryResolver) DeadLetters(ctx context.Context, first int32, after *string, filter *model.DeadLetterFilter) (*model.DeliveryConnection, error) {
	size, err := pageSize(first)
	if err != nil {
		return nil, err
	}
	before, err := idBehind(byDeliveryEnd, after)
	if err != nil {
		return nil, err
	}
	f, possible, err := deadLetterFilter(filter)
	if err != nil {
		return nil, err
	}
	if !possible {
		before = hub.ID{} // behind the last row
	}
	page, err := r.History.DeadLetters(ctx, actorOf(ctx), f, before, size)
	if err != nil {
		return nil, err
	}
	return deliveryConnection(&page, byDeliveryEnd)
}

// deadLetterFilter reads a filter; possible is false when it names an id that
// cannot exist.
func deadLetterFilter(m *model.DeadLetterFilter) (f db.DeadLetterFilter, possible bool, err error) {
	if m == nil {
		return f, true, nil
	}
	f = db.DeadLetterFilter{
		Tenant: hub.TenantID(value(m.TenantID)), EventType: value(m.EventType), Reasons: m.Reason,
		EndedAfter: moment(m.EndedAfter), EndedBefore: moment(m.EndedBefore),
	}
	if m.EventType != nil {
		if err := match.CheckPattern(*m.EventType); err != nil {
			return f, false, apiErrorf(codeBadInput, "filter.eventType: %s", err)
		}
	}
	possible = true
	if m.EventSubscriptionID != nil {
		f.Subscription.ID, possible = parseGlobalID(subscriptionPrefix, *m.EventSubscriptionID)
	}
	if m.DestinationID != nil {
		var ok bool
		f.Destination.ID, ok = parseGlobalID(destinationPrefix, *m.DestinationID)
		possible = possible && ok
	}
	if m.Fingerprint != nil {
		f.Fingerprint, err = hex.DecodeString(*m.Fingerprint)
		possible = possible && err == nil && len(f.Fingerprint) == fingerprint.Size
	}
	return f, possible, nil
}

func (r mutationResolver) DiscardDeadLetters(ctx context.Context, input model.DiscardDeadLettersInput) (*model.DiscardDeadLettersPayload, error) {
	list, mistakes, err := r.Discarding.Discard(ctx, actorOf(ctx), input.Ids, input.Reason)
	p := &model.DiscardDeadLettersPayload{Deliveries: []*model.Delivery{}, UserErrors: userErrors(mistakes)}
	for i := range list {
		p.Deliveries = append(p.Deliveries, toDelivery(&list[i]))
	}
	return p, err
}

func (r mutationResolver) Redeliver(ctx context.Context, input model.RedeliverInput) (*model.RedeliverPayload, error) {
	now, mistakes, err := r.Redelivery.Begin(ctx, actorOf(ctx), input.ID, input.IdempotencyKey != nil)
	if err != nil || len(mistakes) > 0 {
		return &model.RedeliverPayload{UserErrors: userErrors(mistakes)}, err
	}
	return &model.RedeliverPayload{Delivery: toDelivery(&now), UserErrors: userErrors(nil)}, nil
}
