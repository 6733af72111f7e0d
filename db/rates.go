package db

import (
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/streaming-hub/streaming-hub/db/internal/dbsqlc"
	"github.com/streaming-hub/streaming-hub/hub"
	"github.com/streaming-hub/streaming-hub/hub/health"
)

// StoredRate is what FAILURE_RATE knows of a destination.
type StoredRate struct {
	Lane
	Rate health.Rate
}

// RatesNotActive reads the destinations that FAILURE_RATE has switched off, at
// most limit.
func (d *DB) RatesNotActive(ctx context.Context, limit int) ([]StoredRate, error) {
	rows, err := d.queries.RatesNotActive(ctx, d.pool, int32(limit))
	if err != nil {
		return nil, fmt.Errorf("read the destinations that are switched off: %w", err)
	}
	list := make([]StoredRate, len(rows))
	for i := range rows {
		list[i] = storedRate(&rows[i])
	}
	return list, nil
}

func storedRate(r *dbsqlc.FailureRate) StoredRate {
	return StoredRate{
		Lane: Lane{Tenant: hub.TenantID(r.TenantID), Destination: hub.DestinationID{ID: r.DestinationID}}, Rate: rateOf(r),
	}
}

// ChangeRates rewrites the rates of distinct destinations, each by what change
// makes of it under its lock, and publishes change's notices, in one
// transaction. The waiting deliveries of a destination that became FROZEN, or
// no longer is, will be held or resumed. The result is in the order of lanes.
func (d *DB) ChangeRates(ctx context.Context, lanes []Lane, feedID hub.ID, change func(i int, stored health.Rate) (health.Rate, []hub.Notice)) ([]health.Rate, error) {
	rates := make([]health.Rate, len(lanes))
	err := pgx.BeginFunc(ctx, d.pool, func(tx pgx.Tx) error {
		ids := make([]hub.ID, len(lanes))
		for i, l := range lanes {
			ids[i] = l.Destination.ID
		}
		if err := d.queries.EnsureRates(ctx, tx, ids); err != nil {
			return err
		}
		rows, err := d.queries.LockRates(ctx, tx, ids)
		if err != nil {
			return err
		}
		var notices []hub.Notice
		for i := range rows {
			at := slices.Index(ids, rows[i].DestinationID)
			before := rateOf(&rows[i])
			after, told := change(at, before)
			notices = append(notices, told...)
			if rates[at] = after; after == before {
				continue
			}
			if err := d.queries.UpdateRate(ctx, tx, rateParams(ids[at], &after)); err != nil {
				return err
			}
			if (before.Judged == health.Frozen) != (after.Judged == health.Frozen) {
				if err := d.addDestinationChores(ctx, tx, lanes[at]); err != nil {
					return err
				}
			}
		}
		return d.queueNotices(ctx, tx, feedID, notices)
	})
	if err != nil {
		return nil, fmt.Errorf("change the failure rates of %d destinations: %w", len(lanes), err)
	}
	return rates, nil
}

func rateParams(id hub.ID, r *health.Rate) dbsqlc.UpdateRateParams {
	state := r.Judged
	if state == "" {
		state = health.Active
	}
	return dbsqlc.UpdateRateParams{
		DestinationID: id, Attempts: r.Attempts, Failures: r.Failures, FailuresInRow: r.Row, LastSuccessAt: r.LastSuccessAt,
		State: string(state), StateSince: timeOrNull(r.JudgedAt), NextTryAt: timeOrNull(r.NextTryAt),
	}
}

// addDestinationChores asks to bring the deliveries of all subscriptions of a
// destination in line.
func (d *DB) addDestinationChores(ctx context.Context, tx pgx.Tx, l Lane) error {
	subs, err := d.queries.SubscriptionsOfDestination(ctx, tx, l.Destination.ID)
	if err != nil {
		return err
	}
	var chores []chore
	for i := range subs {
		chores = append(chores, chore{hub.SubscriptionID{ID: subs[i].ID}, l.Destination})
	}
	return d.addChores(ctx, tx, l.Tenant, chores)
}
