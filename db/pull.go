package db

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/streaming-hub/streaming-hub/db/internal/dbsqlc"
	"github.com/streaming-hub/streaming-hub/hub"
)

// EventMark is what a reader's filter needs to know of an event.
type EventMark struct {
	// Event holds ID, Tenant, Seq, Source, ResourceType, EventType and
	// SchemaMajor; the other fields are empty.
	Event     hub.Event
	BodyBytes int32
}

// NewestSeqs reads the seq of each tenant's newest event, 0 where there is
// none yet; tenants that the hub never met are missing.
func (d *DB) NewestSeqs(ctx context.Context, tenants []hub.TenantID) (map[hub.TenantID]int64, error) {
	rows, err := d.queries.NewestSeqs(ctx, d.pool, tenantStrings(tenants))
	if err != nil {
		return nil, fmt.Errorf("read the newest seq of %d tenants: %w", len(tenants), err)
	}
	newest := make(map[hub.TenantID]int64, len(rows))
	for _, r := range rows {
		newest[hub.TenantID(r.TenantID)] = r.Newest
	}
	return newest, nil
}

// ScanEvents reads up to limit of a tenant's events behind a seq, in seq
// order. since, if it is not zero, is when the event of that seq was made: it
// spares the partitions of the time before, less clockSlack. What the clocks
// of the hub's processes make of that can hide events, so a caller who misses
// a seq asks again without it.
func (d *DB) ScanEvents(ctx context.Context, tenant hub.TenantID, after int64, since time.Time, limit int) ([]EventMark, error) {
	p := dbsqlc.ScanEventsParams{TenantID: string(tenant), After: after, Page: int32(limit)}
	if !since.IsZero() {
		p.NotBefore = hub.FloorID(since.Add(-clockSlack))
	}
	rows, err := d.queries.ScanEvents(ctx, d.pool, p)
	if err != nil {
		return nil, fmt.Errorf("scan the events of a tenant behind seq %d: %w", after, err)
	}
	marks := make([]EventMark, len(rows))
	for i, r := range rows {
		resource, event, _ := strings.Cut(r.EventType, ".") // neither part has a dot
		marks[i] = EventMark{BodyBytes: r.BodyBytes, Event: hub.Event{
			ID: hub.EventID{ID: r.ID}, Tenant: tenant, Seq: r.Seq, Source: r.Source,
			ResourceType: resource, EventType: event, SchemaMajor: r.SchemaMajor,
		}}
	}
	return marks, nil
}
