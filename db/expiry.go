package db

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/streaming-hub/streaming-hub/db/internal/dbsqlc"
	"github.com/streaming-hub/streaming-hub/hub"
)

// ExpireWaiting ends up to limit deliveries that were made before a moment and
// still wait or are held, the oldest first, and returns how many there were.
// Their events can be dropped after that.
func (d *DB) ExpireWaiting(ctx context.Context, made time.Time, limit int, feedID hub.ID, ending func(hub.Delivery) Dead) (n int, err error) {
	err = pgx.BeginFunc(ctx, d.pool, func(tx pgx.Tx) error {
		ids, err := d.queries.WaitingTooLong(ctx, tx, dbsqlc.WaitingTooLongParams{MadeBefore: hub.FloorID(made), Most: int32(limit)})
		if err != nil {
			return err
		}
		n = len(ids)
		return d.endWaiting(ctx, tx, ids, feedID, ending)
	})
	if err != nil {
		return 0, fmt.Errorf("expire what waits since before %s: %w", made.UTC().Format(time.RFC3339), err)
	}
	return n, nil
}

// HoldLane takes up to limit deliveries of a lane out of it and returns how
// many there were: those of a destination that nothing is to be tried of.
func (d *DB) HoldLane(ctx context.Context, l Lane, limit int) (n int, err error) {
	err = pgx.BeginFunc(ctx, d.pool, func(tx pgx.Tx) error {
		ids, err := d.queries.DueInLane(ctx, tx, dbsqlc.DueInLaneParams{
			TenantID: string(l.Tenant), DestinationID: l.Destination.ID, Most: int32(limit),
		})
		if err != nil || len(ids) == 0 {
			return err
		}
		held, err := d.queries.HoldDeliveries(ctx, tx, ids)
		n = int(held)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("hold the deliveries of destination %s: %w", l.Destination, err)
	}
	return n, nil
}

// EndHeld ends up to limit held deliveries of a subscription that wait since
// before a moment, the oldest first, and returns how many there were.
func (d *DB) EndHeld(ctx context.Context, sub hub.SubscriptionID, since time.Time, limit int, feedID hub.ID, ending func(hub.Delivery) Dead) (n int, err error) {
	err = pgx.BeginFunc(ctx, d.pool, func(tx pgx.Tx) error {
		ids, err := d.queries.HeldTooLong(ctx, tx, dbsqlc.HeldTooLongParams{
			SubscriptionID: sub.ID, MadeBefore: hub.FloorID(since), WaitingSince: since, Most: int32(limit),
		})
		if err != nil {
			return err
		}
		n = len(ids)
		return d.endWaiting(ctx, tx, ids, feedID, ending)
	})
	if err != nil {
		return 0, fmt.Errorf("end the held deliveries of subscription %s: %w", sub, err)
	}
	return n, nil
}
