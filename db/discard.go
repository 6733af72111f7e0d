package db

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/streaming-hub/streaming-hub/db/internal/dbsqlc"
	"github.com/streaming-hub/streaming-hub/hub"
)

// DiscardRequest gives deliveries up.
type DiscardRequest struct {
	Deliveries []hub.DeliveryID
	Tenant     hub.TenantID // of the deliveries; "" for those of all tenants
	Reason     string       // for people; it becomes their LastError
	FeedID     hub.ID       // of the row in the live feed; its time is that of the discard
	// Audit makes the audit log's entries for what was done, which is never
	// nothing.
	Audit func(done []Discarded) []AuditEntry
}

// Discarded is a delivery that was given up.
type Discarded struct{ Before, After hub.Standing }

// DiscardDeliveries gives up those of the deliveries that are dead, waiting or
// held, and returns them in the order of their ids. Left out are those that are
// in flight, were delivered or discarded before, are of another tenant, or do
// not exist: a call that is repeated does nothing.
func (d *DB) DiscardDeliveries(ctx context.Context, r DiscardRequest) (done []Discarded, err error) {
	if len(r.Deliveries) == 0 {
		return nil, nil
	}
	err = pgx.BeginFunc(ctx, d.pool, func(tx pgx.Tx) error {
		done = nil
		ids := deliveryKeys(r.Deliveries)
		lowest, highest := bounds(ids)
		births, err := d.queries.LockDeliveries(ctx, tx, dbsqlc.LockDeliveriesParams{Ids: ids, Lowest: lowest, Highest: highest})
		if err != nil {
			return err
		}
		births = slices.DeleteFunc(births, func(b dbsqlc.Delivery) bool { return r.Tenant != "" && b.TenantID != string(r.Tenant) })
		before, err := d.standings(ctx, tx, births)
		if err != nil {
			return err
		}
		given, err := d.giveUp(ctx, tx, before)
		if err != nil || len(given) == 0 {
			return err
		}
		if err := d.writeDiscards(ctx, tx, &r, given); err != nil {
			return err
		}
		births = slices.DeleteFunc(births, func(b dbsqlc.Delivery) bool {
			return !slices.ContainsFunc(given, func(s hub.Standing) bool { return s.Delivery.ID.ID == b.ID })
		})
		after, err := d.standings(ctx, tx, births)
		if err != nil {
			return err
		}
		for i := range after {
			done = append(done, Discarded{Before: given[i], After: after[i]})
		}
		return d.audit(ctx, tx, r.Audit(done)...)
	})
	if err != nil {
		return nil, fmt.Errorf("discard %d deliveries: %w", len(r.Deliveries), err)
	}
	return done, nil
}

// giveUp takes deliveries out of the queue, and returns these and the dead
// ones, in their order.
func (d *DB) giveUp(ctx context.Context, tx pgx.Tx, list []hub.Standing) (given []hub.Standing, err error) {
	var waiting []hub.ID
	for i := range list {
		if s := &list[i]; s.State == hub.Waiting || s.State == hub.Held {
			waiting = append(waiting, s.Delivery.ID.ID)
		}
	}
	taken := make(map[hub.ID]bool, len(waiting))
	if len(waiting) > 0 {
		// One that was claimed meanwhile stays.
		rows, err := d.queries.TakeDeliveries(ctx, tx, waiting)
		if err != nil {
			return nil, err
		}
		for i := range rows {
			taken[rows[i].ID] = true
		}
	}
	for i := range list {
		if list[i].State == hub.Dead || taken[list[i].Delivery.ID.ID] {
			given = append(given, list[i])
		}
	}
	return given, nil
}

// writeDiscards writes history and feed of what was given up, and moves the
// items of replay jobs.
func (d *DB) writeDiscards(ctx context.Context, tx pgx.Tx, r *DiscardRequest, given []hub.Standing) error {
	at := r.FeedID.Time()
	events := make([]hub.ID, len(given))
	for i := range given {
		events[i] = given[i].Event.ID
		// Whatever clock the end had, this one is later.
		if later := given[i].FinishedAt.Truncate(time.Millisecond).Add(time.Millisecond); later.After(at) {
			at = later
		}
	}
	names, err := d.eventNames(ctx, tx, events)
	if err != nil {
		return err
	}
	ids := hub.NewIDs(at, rand.Reader)
	p := dbsqlc.InsertDiscardsParams{Reason: r.Reason}
	var moves itemMoves
	var feed []FeedItem
	for i := range given {
		s := &given[i]
		p.Ids, p.TenantIds = append(p.Ids, ids.Next()), append(p.TenantIds, string(s.Tenant))
		p.DeliveryIds, p.Runs, p.Tests = append(p.DeliveryIds, s.Delivery.ID.ID), append(p.Runs, s.Run), append(p.Tests, s.Test)
		moves.add(&s.Delivery, hub.ItemDead)
		feed = append(feed, FeedItem{
			Delivery: s.Delivery.ID, Event: s.Event, Tenant: s.Tenant, Subscription: s.Subscription, Destination: s.Destination,
			Number: s.Attempts, State: hub.Discarded, StartedMicros: at.UnixMicro(),
			EventType: names[s.Event.ID].EventType, Source: names[s.Event.ID].Source, Test: s.Test,
		})
	}
	if err := d.queries.InsertDiscards(ctx, tx, p); err != nil {
		return err
	}
	if err := d.moveItems(ctx, tx, &moves); err != nil {
		return err
	}
	return d.queries.InsertFeed(ctx, tx, dbsqlc.InsertFeedParams{ID: r.FeedID, Items: FeedLines(feed), Notable: true})
}
