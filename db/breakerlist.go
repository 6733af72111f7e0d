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

// BreakerFilter says which circuit breakers are listed; zero fields do not
// filter.
type BreakerFilter struct {
	Tenant      hub.TenantID
	Destination hub.DestinationID
	Phases      []breaker.Phase
}

func (f *BreakerFilter) passes(b *StoredBreaker) bool {
	return (f.Tenant == "" || b.Tenant == f.Tenant) && (len(f.Phases) == 0 || slices.Contains(f.Phases, b.State.Phase))
}

// BreakerPage reads up to limit circuit breakers behind the destination before,
// the destinations made last first, and the snapshot in which they were read.
// Destinations that have not failed lately have none. The work is bounded; a
// page can be short while More is true.
func (d *DB) BreakerPage(ctx context.Context, f BreakerFilter, before hub.ID, limit int) (page Page[StoredBreaker], snapshot string, err error) {
	page, snapshot, err = snapshotPage(ctx, d, func(tx pgx.Tx) (Page[StoredBreaker], error) {
		return walkDown(before, limit, len(f.Phases) > 0, breakerID, func(before hub.ID, chunk int) ([]StoredBreaker, error) {
			return d.breakers(ctx, tx, &f, before, chunk)
		}, each(f.passes))
	})
	if err != nil {
		return page, "", fmt.Errorf("list circuit breakers: %w", err)
	}
	return page, snapshot, nil
}

func breakerID(b *StoredBreaker) hub.ID { return b.Destination.ID }

func (d *DB) breakers(ctx context.Context, tx pgx.Tx, f *BreakerFilter, before hub.ID, chunk int) ([]StoredBreaker, error) {
	var rows []dbsqlc.CircuitBreaker
	var err error
	switch {
	case !f.Destination.IsZero():
		if bytes.Compare(f.Destination.ID[:], before[:]) < 0 {
			rows, err = d.queries.BreakersByID(ctx, tx, []hub.ID{f.Destination.ID})
		}
	case f.Tenant != "":
		rows, err = d.queries.BreakerPageOfTenant(ctx, tx, dbsqlc.BreakerPageOfTenantParams{
			TenantID: string(f.Tenant), Before: before, Page: int32(chunk),
		})
	default:
		rows, err = d.queries.BreakerPage(ctx, tx, dbsqlc.BreakerPageParams{Before: before, Page: int32(chunk)})
	}
	return breakersOf(rows), err
}

// BreakersOf reads the circuit breakers of destinations; one without a row is
// missing, and closed.
func (d *DB) BreakersOf(ctx context.Context, ids []hub.DestinationID) ([]StoredBreaker, error) {
	rows, err := d.queries.BreakersByID(ctx, d.pool, destinationKeys(ids))
	if err != nil {
		return nil, fmt.Errorf("read the circuit breakers of %d destinations: %w", len(ids), err)
	}
	return breakersOf(rows), nil
}

func breakersOf(rows []dbsqlc.CircuitBreaker) []StoredBreaker {
	list := make([]StoredBreaker, len(rows))
	for i := range rows {
		list[i] = storedBreaker(&rows[i])
	}
	return list
}

// Gate is what can make deliveries wait besides circuit breaker and health.
type Gate struct {
	// FreeAt is when the destination's rate limit lets the next attempt start;
	// zero while nothing was started under a limit.
	FreeAt time.Time
	// KeyIDs name the key-encryption keys of the secrets that sign now.
	KeyIDs []string
}

// GatesOf reads the gates of destinations that exist.
func (d *DB) GatesOf(ctx context.Context, ids []hub.DestinationID) (map[hub.DestinationID]Gate, error) {
	rows, err := d.queries.GatesByID(ctx, d.pool, destinationKeys(ids))
	if err != nil {
		return nil, fmt.Errorf("read what %d destinations wait for: %w", len(ids), err)
	}
	byID := make(map[hub.DestinationID]Gate, len(rows))
	for _, r := range rows {
		g := Gate{KeyIDs: r.KeyIds}
		if r.Limited {
			g.FreeAt = r.FreeAt
		}
		byID[hub.DestinationID{ID: r.ID}] = g
	}
	return byID, nil
}

func destinationKeys(ids []hub.DestinationID) []hub.ID {
	keys := make([]hub.ID, len(ids))
	for i, id := range ids {
		keys[i] = id.ID
	}
	return keys
}
