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
	"github.com/streaming-hub/streaming-hub/hub/breaker"
)

// StoredBreaker is the circuit breaker of a destination as it is stored.
type StoredBreaker struct {
	Lane
	State     breaker.State
	ChangedAt time.Time // by the database clock
}

// BreakersChangedSince reads the circuit breakers that were written after a
// moment of the database clock, the oldest first, at most limit; those of
// destinations that never failed do not exist.
func (d *DB) BreakersChangedSince(ctx context.Context, since time.Time, limit int) ([]StoredBreaker, error) {
	rows, err := d.queries.BreakersChangedSince(ctx, d.pool, dbsqlc.BreakersChangedSinceParams{Since: since, Most: int32(limit)})
	if err != nil {
		return nil, fmt.Errorf("read the circuit breakers that changed: %w", err)
	}
	list := make([]StoredBreaker, len(rows))
	for i := range rows {
		list[i] = storedBreaker(&rows[i])
	}
	return list, nil
}

// ChangeBreakers rewrites circuit breakers, each by what change makes of its
// stored state under the row's lock, and publishes the notices that change
// returns, all in one transaction. The lanes are distinct. It returns the
// states as they then are, in the order of lanes.
func (d *DB) ChangeBreakers(ctx context.Context, lanes []Lane, feedID hub.ID, change func(i int, stored breaker.State) (breaker.State, []hub.Notice)) ([]breaker.State, error) {
	states := make([]breaker.State, len(lanes))
	err := pgx.BeginFunc(ctx, d.pool, func(tx pgx.Tx) error {
		place := make(map[hub.DestinationID]int, len(lanes))
		var ensure dbsqlc.EnsureBreakersParams
		for i, l := range lanes {
			place[l.Destination] = i
			ensure.DestinationIds = append(ensure.DestinationIds, l.Destination.ID)
			ensure.TenantIds = append(ensure.TenantIds, string(l.Tenant))
		}
		slices.SortFunc(ensure.DestinationIds, func(a, b hub.ID) int { return bytes.Compare(a[:], b[:]) })
		for i, id := range ensure.DestinationIds {
			ensure.TenantIds[i] = string(lanes[place[hub.DestinationID{ID: id}]].Tenant)
		}
		if err := d.queries.EnsureBreakers(ctx, tx, ensure); err != nil {
			return err
		}
		rows, err := d.queries.LockBreakers(ctx, tx, ensure.DestinationIds)
		if err != nil {
			return err
		}
		var batch pgx.Batch
		line := &pipeline{batch: &batch}
		var notices []hub.Notice
		for i := range rows {
			stored := storedBreaker(&rows[i])
			at := place[stored.Destination]
			after, told := change(at, stored.State)
			notices = append(notices, told...)
			if after == stored.State {
				states[at] = after
				continue
			}
			if err := d.queries.UpdateBreaker(ctx, line, breakerParams(stored.Destination, &after)); err != nil {
				return err
			}
			after.Version = stored.State.Version + 1
			states[at] = after
		}
		if err := d.queueNotices(ctx, line, feedID, notices); err != nil {
			return err
		}
		if batch.Len() == 0 {
			return nil
		}
		return tx.SendBatch(ctx, &batch).Close()
	})
	if err != nil {
		return nil, fmt.Errorf("change %d circuit breakers: %w", len(lanes), err)
	}
	return states, nil
}

func breakerParams(id hub.DestinationID, s *breaker.State) dbsqlc.UpdateBreakerParams {
	p := dbsqlc.UpdateBreakerParams{
		DestinationID: id.ID, Phase: string(s.Phase), Generation: s.Generation, Failures: s.Failures,
		WindowNewest: s.Window.Newest, WindowAttempts: s.Window.Attempts[:], WindowFailures: s.Window.Failures[:],
		Cause: string(s.Cause), OpenedAt: timeOrNull(s.OpenedAt), OpenForMs: s.OpenFor.Milliseconds(),
		NextProbeAt: timeOrNull(s.NextProbeAt), ProbeStartedAt: timeOrNull(s.Probe.StartedAt),
		ClosedAt: timeOrNull(s.ClosedAt), RampLimit: s.RampLimit,
	}
	if s.Phase == "" {
		p.Phase = string(breaker.Closed)
	}
	if !s.Probe.Attempt.IsZero() {
		p.ProbeAttempt = &s.Probe.Attempt.ID
	}
	return p
}

func storedBreaker(r *dbsqlc.CircuitBreaker) StoredBreaker {
	s := breaker.State{
		Version: r.Version, Phase: breaker.Phase(r.Phase), Generation: r.Generation, Failures: r.Failures,
		Cause: breaker.Cause(r.Cause), OpenedAt: timeOf(r.OpenedAt), OpenFor: time.Duration(r.OpenForMs) * time.Millisecond,
		NextProbeAt: timeOf(r.NextProbeAt), ClosedAt: timeOf(r.ClosedAt), RampLimit: r.RampLimit,
	}
	s.Window.Newest = r.WindowNewest
	copy(s.Window.Attempts[:], r.WindowAttempts)
	copy(s.Window.Failures[:], r.WindowFailures)
	s.Probe.StartedAt = timeOf(r.ProbeStartedAt)
	if r.ProbeAttempt != nil {
		s.Probe.Attempt = hub.AttemptID{ID: *r.ProbeAttempt}
	}
	return StoredBreaker{
		Lane:  Lane{Tenant: hub.TenantID(r.TenantID), Destination: hub.DestinationID{ID: r.DestinationID}},
		State: s, ChangedAt: r.ChangedAt,
	}
}

func timeOf(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return *t
}
