package db

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/streaming-hub/streaming-hub/db/internal/dbsqlc"
	"github.com/streaming-hub/streaming-hub/hub"
	"github.com/streaming-hub/streaming-hub/hub/limit"
)

// LimitRequest is what a process asks of a destination with limits; 0 for a
// limit that there is not.
type LimitRequest struct {
	Lane
	RateLimit, MaxInFlight int32
	Starts                 int   // attempts to start soon
	Wanted, Running        int32 // attempts to have under way, and those that are
}

// LimitGrant is what it gets.
type LimitGrant struct {
	Starts limit.Starts
	Slots  int32
}

// ShareLimits asks for a process's part of destinations' limits, in one
// transaction. Slots are held for ttl by the database clock, and a further
// call renews them. The destinations are distinct; grants are in their order.
func (d *DB) ShareLimits(ctx context.Context, holder hub.ID, ttl time.Duration, requests []LimitRequest) ([]LimitGrant, error) {
	grants := make([]LimitGrant, len(requests))
	err := pgx.BeginFunc(ctx, d.pool, func(tx pgx.Tx) error {
		order := make([]int, len(requests))
		for i := range order {
			order[i] = i
		}
		slices.SortFunc(order, func(a, b int) int {
			return bytes.Compare(requests[a].Destination.ID[:], requests[b].Destination.ID[:])
		})
		var ensure dbsqlc.EnsureLimitsParams
		for _, i := range order {
			ensure.DestinationIds = append(ensure.DestinationIds, requests[i].Destination.ID)
			ensure.TenantIds = append(ensure.TenantIds, string(requests[i].Tenant))
		}
		if err := d.queries.EnsureLimits(ctx, tx, ensure); err != nil {
			return err
		}
		rows, err := d.queries.LockLimits(ctx, tx, ensure.DestinationIds)
		if err != nil {
			return err
		}
		held, err := d.queries.SlotsOf(ctx, tx, ensure.DestinationIds)
		if err != nil {
			return err
		}
		others := map[hub.ID][]limit.Share{}
		for _, h := range held {
			if h.Holder != holder {
				others[h.DestinationID] = append(others[h.DestinationID], limit.Share{Slots: h.Slots, Wanted: h.Wanted})
			}
		}
		var batch pgx.Batch
		line := &pipeline{batch: &batch}
		for n, i := range order {
			r, g := &requests[i], &grants[i]
			if r.RateLimit > 0 && n < len(rows) {
				starts, after := limit.Rate(r.RateLimit, time.Duration(rows[n].FreeInUs)*time.Microsecond, r.Starts)
				if g.Starts = starts; starts.N > 0 {
					if err := d.queries.SetLimit(ctx, line, dbsqlc.SetLimitParams{DestinationID: r.Destination.ID, FreeIn: interval(after)}); err != nil {
						return err
					}
				}
			}
			if r.MaxInFlight > 0 {
				g.Slots = limit.Slots(r.MaxInFlight, others[r.Destination.ID], r.Wanted, r.Running)
				if err := d.queries.SetSlots(ctx, line, dbsqlc.SetSlotsParams{
					DestinationID: r.Destination.ID, Holder: holder, TenantID: string(r.Tenant),
					Slots: g.Slots, Wanted: r.Wanted, Ttl: interval(ttl),
				}); err != nil {
					return err
				}
			}
		}
		if batch.Len() == 0 {
			return nil
		}
		return tx.SendBatch(ctx, &batch).Close()
	})
	if err != nil {
		return nil, fmt.Errorf("share the limits of %d destinations: %w", len(requests), err)
	}
	return grants, nil
}

// ForgetSlots removes what processes that are gone for long held.
func (d *DB) ForgetSlots(ctx context.Context) error {
	if err := d.queries.ForgetSlots(ctx, d.pool); err != nil {
		return fmt.Errorf("forget the shares of dead processes: %w", err)
	}
	return nil
}
