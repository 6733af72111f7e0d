package db

import (
	"bytes"
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/streaming-hub/streaming-hub/db/internal/dbsqlc"
	"github.com/streaming-hub/streaming-hub/hub"
)

// namedDeliveries reads where the deliveries of the next part of a walk stand,
// the oldest first: those that a filter names one by one, or by the ends of
// dead letters, or by the births of deliveries.
func (d *DB) namedDeliveries(ctx context.Context, tx pgx.Tx, s *replayScan) ([]hub.Standing, error) {
	f := &s.job.Filter
	if len(f.Deliveries) > 0 {
		s.done = true
		return d.eachDelivery(ctx, tx, f.Deliveries)
	}
	tenant, err := d.tenantOfFilter(ctx, tx, s)
	if err != nil {
		return nil, err
	}
	w := replayWalk{tenant: tenant, page: int32(s.chunk), after: orZero(s.row.ScannedTo), before: hub.FloorID(s.job.CreatedAt.Add(time.Millisecond))}
	if aboutDead(f) || !slices.ContainsFunc(statesOf(f), func(st hub.State) bool { return st != hub.Dead }) {
		return d.deadEndsFrom(ctx, tx, s, w)
	}
	w.between(f.CreatedAfter, f.CreatedBefore)
	births, err := d.birthsFrom(ctx, tx, f, w)
	if err != nil {
		return nil, err
	}
	if s.done = len(births) < s.chunk; len(births) > 0 {
		s.row.ScannedTo = &births[len(births)-1].ID
	}
	return d.standings(ctx, tx, births)
}

// replayWalk is what bounds a part of a walk upwards by id.
type replayWalk struct {
	tenant                hub.TenantID // "" for all
	after, lowest, before hub.ID
	page                  int32
}

// between narrows a walk down to the ids of a time.
func (w *replayWalk) between(after, until time.Time) {
	w.before, w.lowest = timeBounds(w.before, after, until)
}

// tenantOfFilter is the tenant to walk: that of the job, else the one of the
// subscription or destination that it names.
func (d *DB) tenantOfFilter(ctx context.Context, tx pgx.Tx, s *replayScan) (hub.TenantID, error) {
	f := &s.job.Filter
	switch {
	case s.job.Tenant != "":
		return s.job.Tenant, nil
	case !f.Subscription.IsZero():
		rows, err := d.queries.SubscriptionsByID(ctx, tx, []hub.ID{f.Subscription.ID})
		if err != nil || len(rows) == 0 {
			return "", err
		}
		return hub.TenantID(rows[0].TenantID), nil
	}
	list := DeliveryFilter{Destination: f.Destination}
	err := d.ofOneTenant(ctx, tx, &list)
	return list.Tenant, err
}

// eachDelivery reads deliveries that are named one by one.
func (d *DB) eachDelivery(ctx context.Context, tx pgx.Tx, ids []hub.DeliveryID) ([]hub.Standing, error) {
	byID, err := d.birthsByID(ctx, tx, deliveryKeys(ids))
	if err != nil {
		return nil, err
	}
	births := make([]dbsqlc.Delivery, 0, len(byID))
	for _, b := range byID {
		births = append(births, b)
	}
	slices.SortFunc(births, func(a, b dbsqlc.Delivery) int { return bytes.Compare(a.ID[:], b.ID[:]) })
	return d.standings(ctx, tx, births)
}

// deadEndsFrom walks by ends, of which only those count at which a delivery
// still stands.
func (d *DB) deadEndsFrom(ctx context.Context, tx pgx.Tx, s *replayScan, w replayWalk) ([]hub.Standing, error) {
	f := &s.job.Filter
	w.between(f.EndedAfter, f.EndedBefore)
	if !f.CreatedAfter.IsZero() {
		// What was made later ended later.
		if made := hub.FloorID(f.CreatedAfter.Add(-clockSlack)); bytes.Compare(made[:], w.lowest[:]) > 0 {
			w.lowest = made
		}
	}
	ends, err := d.endsFrom(ctx, tx, f.Fingerprint, w)
	if err != nil {
		return nil, err
	}
	if s.done = len(ends) < s.chunk; len(ends) > 0 {
		s.row.ScannedTo = &ends[len(ends)-1].ID
	}
	pass, err := d.stillDead(ctx, tx, &DeadLetterFilter{
		Tenant: w.tenant, Subscription: f.Subscription, Destination: f.Destination, Reasons: f.Reasons,
		EndedAfter: f.EndedAfter, EndedBefore: f.EndedBefore,
	}, ends)
	var list []hub.Standing
	for i := range pass {
		if pass[i] {
			list = append(list, ends[i].standing)
		}
	}
	return list, err
}

func (d *DB) endsFrom(ctx context.Context, tx pgx.Tx, fingerprint []byte, w replayWalk) (ends []deadEnd, err error) {
	switch {
	case fingerprint != nil:
		var rows []dbsqlc.DeadEndsOfCauseFromRow
		rows, err = d.queries.DeadEndsOfCauseFrom(ctx, tx, dbsqlc.DeadEndsOfCauseFromParams{
			Fingerprint: fingerprint, After: w.after, Lowest: w.lowest, Before: w.before, Page: w.page,
		})
		for _, r := range rows {
			ends = append(ends, deadEnd{DeadEndsRow: dbsqlc.DeadEndsRow(r)})
		}
	case w.tenant != "":
		var rows []dbsqlc.DeadEndsOfTenantFromRow
		rows, err = d.queries.DeadEndsOfTenantFrom(ctx, tx, dbsqlc.DeadEndsOfTenantFromParams{
			TenantID: string(w.tenant), After: w.after, Lowest: w.lowest, Before: w.before, Page: w.page,
		})
		for _, r := range rows {
			ends = append(ends, deadEnd{DeadEndsRow: dbsqlc.DeadEndsRow(r)})
		}
	default:
		var rows []dbsqlc.DeadEndsFromRow
		rows, err = d.queries.DeadEndsFrom(ctx, tx, dbsqlc.DeadEndsFromParams{After: w.after, Lowest: w.lowest, Before: w.before, Page: w.page})
		for _, r := range rows {
			ends = append(ends, deadEnd{DeadEndsRow: dbsqlc.DeadEndsRow(r)})
		}
	}
	return ends, err
}

func (d *DB) birthsFrom(ctx context.Context, tx pgx.Tx, f *hub.ReplayFilter, w replayWalk) ([]dbsqlc.Delivery, error) {
	switch {
	case !f.Subscription.IsZero():
		return d.queries.BirthsOfSubscriptionFrom(ctx, tx, dbsqlc.BirthsOfSubscriptionFromParams{
			SubscriptionID: f.Subscription.ID, After: w.after, Lowest: w.lowest, Before: w.before, Page: w.page,
		})
	case w.tenant != "":
		return d.queries.BirthsOfTenantFrom(ctx, tx, dbsqlc.BirthsOfTenantFromParams{
			TenantID: string(w.tenant), After: w.after, Lowest: w.lowest, Before: w.before, Page: w.page,
		})
	}
	return d.queries.BirthsFrom(ctx, tx, dbsqlc.BirthsFromParams{After: w.after, Lowest: w.lowest, Before: w.before, Page: w.page})
}
