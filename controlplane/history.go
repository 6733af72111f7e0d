package controlplane

import (
	"context"
	"math"
	"slices"

	"github.com/streaming-hub/streaming-hub/db"
	"github.com/streaming-hub/streaming-hub/hub"
)

// History shows events and deliveries.
type History struct {
	DB *db.DB
}

// Newest is the position before the first row of a list by id.
var Newest = hub.ID{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}

// NewestSeq is the position before the first row of a list by seq.
const NewestSeq = math.MaxInt64

// Deliveries gives up to limit deliveries behind the position before, the
// newest first; see db.DeliveryPage about short pages.
func (h *History) Deliveries(ctx context.Context, a Actor, f db.DeliveryFilter, before hub.ID, limit int) (db.DeliveryPage, error) {
	tenant, none := a.narrow(f.Tenant)
	if none {
		moment, err := h.DB.FeedSnapshot(ctx)
		return db.DeliveryPage{Snapshot: moment}, err
	}
	f.Tenant = tenant
	return h.DB.DeliveryPage(ctx, f, before, limit)
}

// DeliveriesByID gives the deliveries that exist and that the actor sees.
func (h *History) DeliveriesByID(ctx context.Context, a Actor, ids []hub.DeliveryID) ([]hub.Standing, error) {
	list, err := h.DB.DeliveriesByID(ctx, ids)
	return slices.DeleteFunc(list, func(s hub.Standing) bool { return !a.Sees(s.Tenant) }), err
}

// DeliveriesOfPairs gives the deliveries of events for subscriptions, as far as
// the actor sees them; a pair without one is missing.
func (h *History) DeliveriesOfPairs(ctx context.Context, a Actor, pairs []db.Pair) (map[db.Pair]*hub.Standing, error) {
	found, err := h.DB.DeliveriesOfPairs(ctx, pairs)
	byPair := make(map[db.Pair]*hub.Standing, len(found))
	for pair, s := range found {
		if a.Sees(s.Tenant) {
			byPair[pair] = &s
		}
	}
	return byPair, err
}

// Attempts gives the newest hundred attempts of deliveries that the actor
// sees, the first one first.
func (h *History) Attempts(ctx context.Context, a Actor, ids []hub.DeliveryID) (map[hub.DeliveryID][]hub.RecordedAttempt, error) {
	byID, err := h.DB.AttemptsOf(ctx, ids)
	return seenAttempts(a, byID), err
}

// LastAttempts gives the last attempt of deliveries that the actor sees.
func (h *History) LastAttempts(ctx context.Context, a Actor, ids []hub.DeliveryID) (map[hub.DeliveryID][]hub.RecordedAttempt, error) {
	byID, err := h.DB.LastAttempts(ctx, ids)
	return seenAttempts(a, byID), err
}

// Authorizations gives the names of the headers that hold the credentials of
// destinations, to which the caller has seen attempts.
func (h *History) Authorizations(ctx context.Context, ids []hub.DestinationID) (map[hub.DestinationID]string, error) {
	return h.DB.AuthorizationHeaders(ctx, ids)
}

func seenAttempts(a Actor, byID map[hub.DeliveryID][]hub.RecordedAttempt) map[hub.DeliveryID][]hub.RecordedAttempt {
	for id, list := range byID {
		if !a.Sees(list[0].Tenant) {
			delete(byID, id)
		}
	}
	return byID
}

// EventsOf gives up to limit events of one tenant with a smaller seq than
// before, the newest first.
func (h *History) EventsOf(ctx context.Context, a Actor, tenant hub.TenantID, before int64, limit int) (db.EventPage, error) {
	tenant, none := a.narrow(tenant)
	if none {
		moment, err := h.DB.FeedSnapshot(ctx)
		return db.EventPage{Snapshot: moment}, err
	}
	return h.DB.EventPageOfTenant(ctx, tenant, before, limit)
}

// Events gives up to limit events of all tenants behind the id before, to a
// platform actor; the newest first.
func (h *History) Events(ctx context.Context, a Actor, before hub.ID, limit int) (db.EventPage, error) {
	if !a.Platform() {
		return h.EventsOf(ctx, a, a.Tenant, NewestSeq, limit)
	}
	return h.DB.EventPage(ctx, before, limit)
}

// EventsByID gives the events that exist and that the actor sees, without
// bodies.
func (h *History) EventsByID(ctx context.Context, a Actor, ids []hub.EventID) ([]db.EventHead, error) {
	list, err := h.DB.EventHeadsByID(ctx, ids)
	return slices.DeleteFunc(list, func(e db.EventHead) bool { return !a.Sees(e.Event.Tenant) }), err
}

// Bodies gives the bodies of events that the caller has already seen.
func (h *History) Bodies(ctx context.Context, ids []hub.EventID) (map[hub.EventID][]byte, error) {
	return h.DB.EventBodies(ctx, ids)
}
