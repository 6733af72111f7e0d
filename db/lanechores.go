package db

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/streaming-hub/streaming-hub/db/internal/dbsqlc"
	"github.com/streaming-hub/streaming-hub/hub"
)

// choreRest is how long a chore rests between its two rounds: replicas that
// had not heard of the change put deliveries back as they knew them before.
const choreRest = 5 * time.Second

// byIndex makes the planner walk indexes in their order until the transaction
// ends, whatever it believes of the queue's size: the next few rows of a
// million are found without a look at the others.
const byIndex = `SET LOCAL enable_seqscan = off; SET LOCAL enable_sort = off; SET LOCAL enable_hashjoin = off; SET LOCAL enable_mergejoin = off`

// Dead is a delivery that ends without a further attempt.
type Dead struct {
	Delivery    hub.Delivery
	ID          hub.ID // of the result; its time is that of the end
	Reason      hub.DeadReason
	Text        string
	Fingerprint []byte
}

// DoChore does the next part of a lane chore, at most batch deliveries, in one
// transaction, and reports whether there was anything to do. ending makes the
// end of a delivery whose subscription was deleted.
func (d *DB) DoChore(ctx context.Context, batch int, feedID hub.ID, ending func(hub.Delivery) Dead) (did bool, err error) {
	err = pgx.BeginFunc(ctx, d.pool, func(tx pgx.Tx) error {
		chores, err := d.queries.LockChore(ctx, tx)
		if err != nil || len(chores) == 0 {
			return err
		}
		did = true
		if _, err := tx.Exec(ctx, byIndex); err != nil {
			return err
		}
		c := &chores[0]
		facts, err := d.queries.ChoreFacts(ctx, tx, c.SubscriptionID)
		if err != nil {
			return err
		}
		if len(facts) == 0 {
			facts = []dbsqlc.ChoreFactsRow{{Deleted: true}}
		}
		f := &facts[0]
		ids, next, err := d.choreStretch(ctx, tx, c, batch)
		if err != nil {
			return err
		}
		switch {
		case f.Deleted:
			err = d.endWaiting(ctx, tx, ids, feedID, ending)
		case !f.Deliverable || f.Frozen:
			if !c.Held {
				_, err = d.queries.HoldDeliveries(ctx, tx, ids)
			}
		case c.Held || f.DestinationID != c.DestinationID:
			_, err = d.queries.ResumeDeliveries(ctx, tx, dbsqlc.ResumeDeliveriesParams{Ids: ids, DestinationID: f.DestinationID})
			if err == nil && len(ids) > 0 {
				err = d.queries.NotifyDue(ctx, tx)
			}
		}
		if err != nil {
			return err
		}
		return d.moveChore(ctx, tx, c, next)
	})
	if err != nil {
		return did, fmt.Errorf("bring a lane in line: %w", err)
	}
	return did, nil
}

// chorePlace is how far a chore has come; done when nothing is behind it.
type chorePlace struct {
	held bool
	due  time.Time
	id   hub.ID
	done bool
}

// choreStretch is the next part of the walk: first what waits in the lane,
// then what is held of the subscription.
func (d *DB) choreStretch(ctx context.Context, tx pgx.Tx, c *dbsqlc.LaneChore, batch int) (ids []hub.ID, next chorePlace, err error) {
	if c.Held {
		ids, err = d.queries.HeldStretch(ctx, tx, dbsqlc.HeldStretchParams{
			SubscriptionID: c.SubscriptionID, AfterID: c.AfterID, Most: int32(batch),
		})
		next = chorePlace{held: true, due: c.AfterDue, done: len(ids) < batch}
		if len(ids) > 0 {
			next.id = ids[len(ids)-1]
		}
		return ids, next, err
	}
	rows, err := d.queries.LaneStretch(ctx, tx, dbsqlc.LaneStretchParams{
		TenantID: c.TenantID, DestinationID: c.DestinationID, AfterDue: c.AfterDue, AfterID: c.AfterID, Most: int32(batch),
	})
	for i := range rows {
		if rows[i].SubscriptionID == c.SubscriptionID {
			ids = append(ids, rows[i].ID)
		}
	}
	if len(rows) < batch {
		return ids, chorePlace{held: true, due: c.AfterDue}, err
	}
	last := &rows[len(rows)-1]
	return ids, chorePlace{due: last.DueAt, id: last.ID}, err
}

func (d *DB) moveChore(ctx context.Context, tx pgx.Tx, c *dbsqlc.LaneChore, next chorePlace) error {
	p := dbsqlc.MoveChoreParams{ID: c.ID, Round: c.Round, Held: next.held, AfterDue: next.due, AfterID: next.id, Rest: interval(0)}
	if next.done {
		if c.Round > 1 {
			return d.queries.EndChore(ctx, tx, c.ID)
		}
		p.Round, p.Rest = c.Round+1, interval(choreRest)
		p.Held, p.AfterDue, p.AfterID = false, time.Unix(0, 0), hub.ID{}
	}
	return d.queries.MoveChore(ctx, tx, p)
}

// endWaiting ends deliveries that nobody is attempting.
func (d *DB) endWaiting(ctx context.Context, tx pgx.Tx, ids []hub.ID, feedID hub.ID, ending func(hub.Delivery) Dead) error {
	if len(ids) == 0 {
		return nil
	}
	taken, err := d.queries.TakeDeliveries(ctx, tx, ids)
	if err != nil || len(taken) == 0 {
		return err
	}
	events := make([]hub.ID, len(taken))
	for i := range taken {
		events[i] = taken[i].EventID
	}
	names, err := d.eventNames(ctx, tx, events)
	if err != nil {
		return err
	}
	var dead dbsqlc.InsertDeadResultsParams
	var items itemMoves
	var feed []byte
	for i := range taken {
		t := &taken[i]
		waited := hub.Delivery{
			ID: hub.DeliveryID{ID: t.ID}, Event: hub.EventID{ID: t.EventID}, Tenant: hub.TenantID(t.TenantID),
			Subscription: hub.SubscriptionID{ID: t.SubscriptionID}, Destination: hub.DestinationID{ID: t.DestinationID},
			Run: t.Run, Attempts: t.Attempts, Test: t.Test, Job: hub.JobID{ID: orZero(t.JobID)},
		}
		end := ending(waited)
		addDead(&dead, &end)
		items.add(&waited, hub.ItemDead)
		item := FeedItem{
			Delivery: end.Delivery.ID, Event: end.Delivery.Event, Tenant: end.Delivery.Tenant,
			Subscription: end.Delivery.Subscription, Destination: end.Delivery.Destination, Number: t.Attempts,
			State: hub.Dead, DeadReason: end.Reason, Fingerprint: end.Fingerprint, StartedMicros: end.ID.Time().UnixMicro(),
			EventType: names[t.EventID].EventType, Source: names[t.EventID].Source, Test: t.Test,
		}
		if i > 0 {
			feed = append(feed, '\n')
		}
		feed = item.appendTo(feed)
	}
	if err := d.queries.InsertDeadResults(ctx, tx, dead); err != nil {
		return err
	}
	if err := d.moveItems(ctx, tx, &items); err != nil {
		return err
	}
	return d.queries.InsertFeed(ctx, tx, dbsqlc.InsertFeedParams{ID: feedID, Items: feed, Notable: true})
}

func addDead(p *dbsqlc.InsertDeadResultsParams, end *Dead) {
	p.Ids = append(p.Ids, end.ID)
	p.TenantIds = append(p.TenantIds, string(end.Delivery.Tenant))
	p.DeliveryIds = append(p.DeliveryIds, end.Delivery.ID.ID)
	p.Runs = append(p.Runs, end.Delivery.Run)
	p.DeadReasons = append(p.DeadReasons, string(end.Reason))
	p.LastErrors = append(p.LastErrors, end.Text)
	p.Fingerprints = append(p.Fingerprints, end.Fingerprint)
	p.Tests = append(p.Tests, end.Delivery.Test)
}

func (d *DB) eventNames(ctx context.Context, tx pgx.Tx, ids []hub.ID) (map[hub.ID]dbsqlc.EventNamesRow, error) {
	lowest, highest := bounds(ids)
	rows, err := d.queries.EventNames(ctx, tx, dbsqlc.EventNamesParams{Ids: ids, Lowest: lowest, Highest: highest})
	if err != nil {
		return nil, err
	}
	names := make(map[hub.ID]dbsqlc.EventNamesRow, len(rows))
	for _, r := range rows {
		names[r.ID] = r
	}
	return names, nil
}

// StaleLasts reads up to limit deliveries behind an id that were made before a
// moment and whose last attempt nobody has fixed.
func (d *DB) StaleLasts(ctx context.Context, after hub.DeliveryID, received time.Time, limit int) ([]hub.Delivery, error) {
	var rows []dbsqlc.StaleLastsRow
	err := pgx.BeginFunc(ctx, d.pool, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, byIndex)
		if err == nil {
			rows, err = d.queries.StaleLasts(ctx, tx, dbsqlc.StaleLastsParams{After: after.ID, Before: hub.FloorID(received), Most: int32(limit)})
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("look for old deliveries without a last attempt: %w", err)
	}
	list := make([]hub.Delivery, len(rows))
	for i, r := range rows {
		list[i] = hub.Delivery{
			ID: hub.DeliveryID{ID: r.ID}, Tenant: hub.TenantID(r.TenantID), Subscription: hub.SubscriptionID{ID: r.SubscriptionID},
			DueAt: r.DueAt, ReceivedAt: r.ReceivedAt, FirstFailedAt: timeOf(r.FirstFailedAt), RunAttempts: r.RunAttempts,
			Job: hub.JobID{ID: orZero(r.JobID)},
		}
	}
	return list, nil
}

// FixLasts says from when on the next attempt of each delivery is the last.
func (d *DB) FixLasts(ctx context.Context, ids []hub.DeliveryID, from []time.Time) error {
	p := dbsqlc.FixLastsParams{LastAts: from}
	for _, id := range ids {
		p.Ids = append(p.Ids, id.ID)
	}
	if err := d.queries.FixLasts(ctx, d.pool, p); err != nil {
		return fmt.Errorf("fix the last attempts of %d deliveries: %w", len(ids), err)
	}
	return nil
}
