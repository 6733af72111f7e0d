package controlplane

import (
	"context"
	"io"
	"slices"
	"strconv"
	"time"

	"github.com/streaming-hub/streaming-hub/db"
	"github.com/streaming-hub/streaming-hub/hub"
)

// Discarding gives deliveries up, with a reason.
type Discarding struct {
	DB     *db.DB
	Now    func() time.Time
	Random io.Reader // crypto/rand.Reader
}

// maxDiscards bounds the deliveries of one call.
const maxDiscards = 100

// auditedDiscard is what a discard leads to.
type auditedDiscard struct {
	auditedRun
	Reason string `json:"reason"`
}

// Discard gives up deliveries that are dead, and those that wait or are held,
// and returns them in the order of the ids. One that was discarded before
// stays as it is and is returned too. Of the others each is told as a mistake,
// and the rest is done all the same. The ids are global ids.
func (d *Discarding) Discard(ctx context.Context, a Actor, ids []string, reason string) ([]hub.Standing, []UserError, error) {
	reason, mistakes := checkReason(reason)
	if reason == "" && mistakes == nil {
		mistakes = append(mistakes, userError(Required, []string{"input", "reason"}, "say why, in 1 to %d characters", maxReason))
	}
	if len(ids) == 0 || len(ids) > maxDiscards {
		mistakes = append(mistakes, userError(Invalid, discardPath(), "name 1 to %d deliveries", maxDiscards))
	}
	if mistakes != nil {
		return nil, mistakes, nil
	}
	keys := deliveryIDs(ids)
	if err := d.giveUp(ctx, a, keys, reason); err != nil {
		return nil, nil, err
	}
	now, err := (&History{DB: d.DB}).DeliveriesByID(ctx, a, keys)
	if err != nil {
		return nil, nil, err
	}
	byID := make(map[hub.DeliveryID]*hub.Standing, len(now))
	for i := range now {
		byID[now[i].Delivery.ID] = &now[i]
	}
	var done []hub.Standing
	for _, key := range keys {
		if s := byID[key]; s != nil && s.State == hub.Discarded {
			done = append(done, *s)
		}
	}
	return done, whyKept(ids, byID), nil
}

func (d *Discarding) giveUp(ctx context.Context, a Actor, keys []hub.DeliveryID, reason string) error {
	now := d.Now()
	_, err := d.DB.DiscardDeliveries(ctx, db.DiscardRequest{
		Deliveries: keys, Tenant: a.Tenant, Reason: reason, FeedID: hub.NewID(now, d.Random),
		Audit: func(done []db.Discarded) (entries []db.AuditEntry) {
			for i := range done {
				before, after := &done[i].Before, &done[i].After
				entries = append(entries, a.auditEntry(now, d.Random, after.Tenant, auditDiscard, GlobalID(DeliveryIDs, after.Delivery.ID.ID),
					runOf(before), auditedDiscard{runOf(after), reason}))
			}
			return entries
		},
	})
	return err
}

// whyKept says of each id why its delivery was not given up.
func whyKept(ids []string, byID map[hub.DeliveryID]*hub.Standing) (mistakes []UserError) {
	for i, text := range ids {
		key, ok := ParseGlobalID(DeliveryIDs, text)
		s := byID[hub.DeliveryID{ID: key}]
		path := append(discardPath(), strconv.Itoa(i))
		switch {
		case !ok || s == nil:
			mistakes = append(mistakes, userError(NotFound, path, "there is no such delivery"))
		case s.State == hub.Delivered:
			mistakes = append(mistakes, userError(Conflict, path, "it was delivered: there is nothing to discard"))
		case s.State == hub.InFlight:
			mistakes = append(mistakes, userError(Conflict, path, "an attempt of the delivery is being made; discard it when that has ended"))
		case s.State != hub.Discarded:
			mistakes = append(mistakes, userError(Conflict, path, "the delivery changed meanwhile; read it again"))
		}
	}
	return mistakes
}

func discardPath() []string { return []string{"input", "ids"} }

// deliveryIDs reads global ids, each once; what is none is left out.
func deliveryIDs(ids []string) (keys []hub.DeliveryID) {
	for _, text := range ids {
		if id, ok := ParseGlobalID(DeliveryIDs, text); ok && !slices.Contains(keys, hub.DeliveryID{ID: id}) {
			keys = append(keys, hub.DeliveryID{ID: id})
		}
	}
	return keys
}
