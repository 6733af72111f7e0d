package db

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/streaming-hub/streaming-hub/db/internal/dbsqlc"
	"github.com/streaming-hub/streaming-hub/hub"
	"github.com/streaming-hub/streaming-hub/hub/breaker"
	"github.com/streaming-hub/streaming-hub/hub/health"
)

// DestinationsByID reads destinations; those that do not exist are missing.
func (d *DB) DestinationsByID(ctx context.Context, ids []hub.DestinationID) ([]hub.Destination, error) {
	rows, err := d.queries.DestinationsByID(ctx, d.pool, destinationKeys(ids))
	if err != nil {
		return nil, fmt.Errorf("read %d destinations: %w", len(ids), err)
	}
	return destinationsOf(rows), nil
}

// DestinationFilter narrows a list of destinations; all conditions that are
// set must hold.
type DestinationFilter struct {
	Tenant hub.TenantID
	Kind   hub.SinkKind
	URL    string // canonical
}

// DestinationPage reads up to limit destinations with smaller ids than before,
// the newest first.
func (d *DB) DestinationPage(ctx context.Context, f DestinationFilter, before hub.ID, limit int) ([]hub.Destination, error) {
	var rows []dbsqlc.Destination
	var err error
	if f.Tenant == "" {
		rows, err = d.queries.DestinationPage(ctx, d.pool, dbsqlc.DestinationPageParams{
			Before: before, Kind: string(f.Kind), Url: f.URL, Page: int32(limit),
		})
	} else {
		rows, err = d.queries.DestinationPageOfTenant(ctx, d.pool, dbsqlc.DestinationPageOfTenantParams{
			TenantID: string(f.Tenant), Before: before, Kind: string(f.Kind), Url: f.URL, Page: int32(limit),
		})
	}
	if err != nil {
		return nil, fmt.Errorf("list destinations: %w", err)
	}
	return destinationsOf(rows), nil
}

// EnableRequest asks for a destination that FAILURE_RATE switched off.
type EnableRequest struct {
	Tenant      hub.TenantID
	Destination hub.DestinationID
	Now         time.Time
	FeedID      hub.ID // of the notice
	// Audit makes the audit log's entry; was is DISABLED or FROZEN.
	Audit func(was string) AuditEntry
}

// EnableDestination lets a destination begin anew whom FAILURE_RATE switched
// off; one that is active stays as it is, counters and all. It is ErrChanged
// when the tenant has no such destination.
func (d *DB) EnableDestination(ctx context.Context, r EnableRequest) (dest hub.Destination, err error) {
	err = d.changeTenant(ctx, string(r.Tenant), func(tx pgx.Tx) error {
		state, err := d.destinationState(ctx, tx, r.Destination)
		if err != nil {
			return err
		}
		if dest = state.Destination; dest.Tenant != r.Tenant {
			return ErrChanged
		}
		was, err := d.restartRate(ctx, tx, r.Destination, r.Now)
		if err != nil {
			return err
		}
		if was == health.Active {
			return errUnchanged
		}
		lane := Lane{Tenant: r.Tenant, Destination: r.Destination}
		if err := d.resumeDestination(ctx, tx, lane, was, r.Now); err != nil {
			return err
		}
		if err := d.queueNotices(ctx, tx, r.FeedID, []hub.Notice{{
			Kind: hub.NoticeRecovered, At: r.Now, Tenant: r.Tenant, Destination: r.Destination,
			Reason: "the destination was enabled; it had been " + string(was),
		}}); err != nil {
			return err
		}
		return d.audit(ctx, tx, r.Audit(string(was)))
	})
	if err != nil {
		return dest, fmt.Errorf("enable destination %s: %w", r.Destination, err)
	}
	return dest, nil
}

// restartDestination lets a destination begin anew after somebody enabled a
// subscription of it: what FAILURE_RATE counted is forgotten if it had switched
// the destination off, for all who share it, and one probe goes before
// everything that waited. It returns what is to be told.
func (d *DB) restartDestination(ctx context.Context, tx pgx.Tx, l Lane, now time.Time) (told []hub.Notice, err error) {
	was, err := d.restartRate(ctx, tx, l.Destination, now)
	if err != nil {
		return nil, err
	}
	if was != health.Active {
		told = []hub.Notice{{
			Kind: hub.NoticeRecovered, At: now, Tenant: l.Tenant, Destination: l.Destination,
			Reason: "an event subscription of the destination was enabled; it had been " + string(was),
		}}
	}
	return told, d.resumeDestination(ctx, tx, l, was, now)
}

// restartRate enables a destination as far as FAILURE_RATE goes, and says where
// it stood.
func (d *DB) restartRate(ctx context.Context, tx pgx.Tx, id hub.DestinationID, now time.Time) (was health.RateState, err error) {
	rows, err := d.queries.LockRate(ctx, tx, id.ID)
	if err != nil || len(rows) == 0 {
		return health.Active, err
	}
	before := rateOf(&rows[0])
	after := before.Enabled(now)
	if after == before {
		return health.Active, nil
	}
	return before.Judged, d.queries.UpdateRate(ctx, tx, rateParams(id.ID, &after))
}

func (d *DB) restartBreaker(ctx context.Context, tx pgx.Tx, l Lane, now time.Time) error {
	if err := d.queries.EnsureBreakers(ctx, tx, dbsqlc.EnsureBreakersParams{
		DestinationIds: []hub.ID{l.Destination.ID}, TenantIds: []string{string(l.Tenant)},
	}); err != nil {
		return err
	}
	rows, err := d.queries.LockBreakers(ctx, tx, []hub.ID{l.Destination.ID})
	if err != nil || len(rows) == 0 {
		return err
	}
	state := breaker.Restart(storedBreaker(&rows[0]).State, now)
	return d.queries.UpdateBreaker(ctx, tx, breakerParams(l.Destination, &state))
}

func destinationsOf(rows []dbsqlc.Destination) []hub.Destination {
	list := make([]hub.Destination, len(rows))
	for i := range rows {
		list[i] = destinationOf(rows[i])
	}
	return list
}

func destinationOf(r dbsqlc.Destination) hub.Destination {
	d := hub.Destination{
		ID: hub.DestinationID{ID: r.ID}, Tenant: hub.TenantID(r.TenantID), Kind: hub.SinkKind(r.Kind),
		URL: r.Url, CreatedAt: r.CreatedAt, Version: r.Version,
	}
	if r.RateLimit != nil {
		d.RateLimit = *r.RateLimit
	}
	if r.MaxInFlight != nil {
		d.MaxInFlight = *r.MaxInFlight
	}
	if json.Unmarshal(r.FailurePolicy, &d.FailurePolicy) != nil {
		d.FailurePolicy = hub.FailurePolicy{} // as dispatch takes it: FAILURE_SPAN
	}
	return d
}

func numberOrNull(n int32) *int32 {
	if n == 0 {
		return nil
	}
	return &n
}
