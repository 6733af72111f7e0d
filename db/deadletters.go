package db

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/streaming-hub/streaming-hub/db/internal/dbsqlc"
	"github.com/streaming-hub/streaming-hub/hub"
	"github.com/streaming-hub/streaming-hub/hub/match"
)

// DeadLetterFilter says which dead deliveries are listed; zero fields do not
// filter.
type DeadLetterFilter struct {
	Tenant       hub.TenantID
	Subscription hub.SubscriptionID
	Destination  hub.DestinationID
	// EventType is an exact key, <resource>.* or *. Events past their retention
	// have no type any more.
	EventType string
	Reasons   []hub.DeadReason
	// Fingerprint is that of one cause, nil for all.
	Fingerprint []byte
	// EndedAfter is the first moment, EndedBefore the first one that no longer
	// belongs in.
	EndedAfter, EndedBefore time.Time
}

// ended judges what the end alone tells.
func (f *DeadLetterFilter) ended(e *deadEnd) bool {
	at := e.ID.Time()
	return hub.State(e.State) == hub.Dead && !e.Test &&
		(len(f.Reasons) == 0 || slices.Contains(f.Reasons, hub.DeadReason(orZero(e.DeadReason)))) &&
		(f.EndedAfter.IsZero() || !at.Before(f.EndedAfter)) &&
		(f.EndedBefore.IsZero() || at.Before(f.EndedBefore))
}

// born judges what the birth row tells.
func (f *DeadLetterFilter) born(b *dbsqlc.Delivery) bool {
	return (f.Tenant == "" || b.TenantID == string(f.Tenant)) && (f.Subscription.IsZero() || b.SubscriptionID == f.Subscription.ID)
}

// dead judges where the delivery stands.
func (f *DeadLetterFilter) dead(s *hub.Standing) bool {
	return s.State == hub.Dead && (f.Destination.IsZero() || s.Destination == f.Destination)
}

// deadEnd is an end in the walk, with where its delivery stands now if that is
// still this end.
type deadEnd struct {
	dbsqlc.DeadEndsRow
	standing hub.Standing
}

func deadEndID(e *deadEnd) hub.ID { return e.ID }

// DeadLetterPage reads up to limit deliveries that are dead now, those behind
// the position before, the newest end first. A delivery that was redelivered
// since is none, until it dies again. The work is bounded whatever the filter;
// a page can be short while More is true. Positions are those of a
// DeliveryPage that is walked by ends.
func (d *DB) DeadLetterPage(ctx context.Context, f DeadLetterFilter, before hub.ID, limit int) (page DeliveryPage, err error) {
	before, lowest := timeBounds(before, f.EndedAfter, f.EndedBefore)
	err = pgx.BeginTxFunc(ctx, d.pool, snapshotRead, func(tx pgx.Tx) error {
		// Any number of the newest ends may be of redelivered ones.
		const narrow = true
		found, err := walkDown(before, limit, narrow, deadEndID, func(before hub.ID, chunk int) ([]deadEnd, error) {
			return d.deadEnds(ctx, tx, &f, before, lowest, chunk)
		}, func(chunk []deadEnd) ([]bool, error) {
			return d.stillDead(ctx, tx, &f, chunk)
		})
		if err != nil {
			return err
		}
		page.More, page.End = found.More, found.End
		for i := range found.Rows {
			page.Deliveries = append(page.Deliveries, found.Rows[i].standing)
			page.Positions = append(page.Positions, found.Rows[i].ID)
		}
		page.Snapshot, err = d.queries.FeedSnapshot(ctx, tx)
		return err
	})
	if err != nil {
		return page, fmt.Errorf("list dead letters: %w", err)
	}
	return page, nil
}

func (d *DB) deadEnds(ctx context.Context, tx pgx.Tx, f *DeadLetterFilter, before, lowest hub.ID, chunk int) (ends []deadEnd, err error) {
	switch {
	case f.Fingerprint != nil:
		var rows []dbsqlc.DeadEndsOfCauseRow
		rows, err = d.queries.DeadEndsOfCause(ctx, tx, dbsqlc.DeadEndsOfCauseParams{
			Fingerprint: f.Fingerprint, Before: before, Lowest: lowest, Page: int32(chunk),
		})
		for _, r := range rows {
			ends = append(ends, deadEnd{DeadEndsRow: dbsqlc.DeadEndsRow(r)})
		}
	case f.Tenant != "":
		var rows []dbsqlc.DeadEndsOfTenantRow
		rows, err = d.queries.DeadEndsOfTenant(ctx, tx, dbsqlc.DeadEndsOfTenantParams{
			TenantID: string(f.Tenant), Before: before, Lowest: lowest, Page: int32(chunk),
		})
		for _, r := range rows {
			ends = append(ends, deadEnd{DeadEndsRow: dbsqlc.DeadEndsRow(r)})
		}
	default:
		var rows []dbsqlc.DeadEndsRow
		rows, err = d.queries.DeadEnds(ctx, tx, dbsqlc.DeadEndsParams{Before: before, Lowest: lowest, Page: int32(chunk)})
		for _, r := range rows {
			ends = append(ends, deadEnd{DeadEndsRow: r})
		}
	}
	return ends, err
}

// stillDead judges a chunk, and notes where those that pass stand. What costs
// more is looked up only of what passes all else.
func (d *DB) stillDead(ctx context.Context, tx pgx.Tx, f *DeadLetterFilter, chunk []deadEnd) ([]bool, error) {
	pass := make([]bool, len(chunk))
	var ids []hub.ID
	for i := range chunk {
		if pass[i] = f.ended(&chunk[i]); pass[i] {
			ids = append(ids, chunk[i].DeliveryID)
		}
	}
	if len(ids) == 0 {
		return pass, nil
	}
	byID, err := d.birthsByID(ctx, tx, ids)
	if err != nil {
		return nil, err
	}
	var births []dbsqlc.Delivery
	for _, b := range byID {
		if f.born(&b) {
			births = append(births, b)
		}
	}
	list, err := d.standings(ctx, tx, births)
	if err != nil {
		return nil, err
	}
	list = slices.DeleteFunc(list, func(s hub.Standing) bool { return !f.dead(&s) })
	if list, err = d.ofEventType(ctx, tx, f.EventType, list); err != nil {
		return nil, err
	}
	dead := make(map[hub.ID]*hub.Standing, len(list))
	for i := range list {
		dead[list[i].Delivery.ID.ID] = &list[i]
	}
	for i := range chunk {
		// One that died in several runs stands at the end of its last one only.
		s := dead[chunk[i].DeliveryID]
		if pass[i] = pass[i] && s != nil && s.Run == chunk[i].Run; pass[i] {
			chunk[i].standing = *s
		}
	}
	return pass, nil
}

// ofEventType keeps the deliveries whose event has a type that the pattern
// takes.
func (d *DB) ofEventType(ctx context.Context, tx pgx.Tx, pattern string, list []hub.Standing) ([]hub.Standing, error) {
	if pattern == "" || len(list) == 0 {
		return list, nil
	}
	ids := make([]hub.ID, len(list))
	for i := range list {
		ids[i] = list[i].Event.ID
	}
	lowest, highest := bounds(ids)
	rows, err := d.queries.EventTypesByID(ctx, tx, dbsqlc.EventTypesByIDParams{Ids: ids, Lowest: lowest, Highest: highest})
	if err != nil {
		return nil, err
	}
	wanted := make(map[hub.ID]bool, len(rows))
	for _, r := range rows {
		wanted[r.ID] = match.Covers(pattern, r.EventType)
	}
	return slices.DeleteFunc(list, func(s hub.Standing) bool { return !wanted[s.Event.ID] }), nil
}
