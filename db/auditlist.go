package db

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/streaming-hub/streaming-hub/db/internal/dbsqlc"
	"github.com/streaming-hub/streaming-hub/hub"
)

// AuditRecord is an entry of the audit log as it is kept.
type AuditRecord struct {
	ID        hub.ID
	Tenant    hub.TenantID // "" for the platform
	Actor     hub.TokenID  // zero for the hub itself
	ActorName string
	Action    string
	Object    string
	// Before and After are JSON, nil for nothing.
	Before, After json.RawMessage
}

// AuditFilter says which entries are listed; zero fields do not filter.
type AuditFilter struct {
	Tenant         hub.TenantID
	Actor          hub.TokenID
	Action, Object string
	// After is the first moment, Before the first one that no longer belongs in.
	After, Before time.Time
}

func (f *AuditFilter) passes(r *AuditRecord) bool {
	at := r.ID.Time()
	return (f.Actor.IsZero() || r.Actor == f.Actor) &&
		(f.Action == "" || r.Action == f.Action) &&
		(f.Object == "" || r.Object == f.Object) &&
		(f.After.IsZero() || !at.Before(f.After)) &&
		(f.Before.IsZero() || at.Before(f.Before))
}

// narrow reports whether most entries may fail the filter, so that a page
// reads ahead.
func (f *AuditFilter) narrow() bool { return !f.Actor.IsZero() || f.Action != "" || f.Object != "" }

// AuditPage reads up to limit entries behind the id before, the newest first.
// Its work is bounded whatever the filter; a page can be short while More is
// true.
func (d *DB) AuditPage(ctx context.Context, f AuditFilter, before hub.ID, limit int) (page Page[AuditRecord], err error) {
	before, lowest := timeBounds(before, f.After, f.Before)
	err = pgx.BeginTxFunc(ctx, d.pool, snapshotRead, func(tx pgx.Tx) error {
		page, err = walkDown(before, limit, f.narrow(), auditID, func(before hub.ID, chunk int) ([]AuditRecord, error) {
			return d.auditRecords(ctx, tx, f.Tenant, before, lowest, chunk)
		}, each(f.passes))
		return err
	})
	if err != nil {
		return page, fmt.Errorf("list the audit log: %w", err)
	}
	return page, nil
}

func auditID(r *AuditRecord) hub.ID { return r.ID }

func (d *DB) auditRecords(ctx context.Context, tx dbsqlc.DBTX, tenant hub.TenantID, before, lowest hub.ID, chunk int) ([]AuditRecord, error) {
	var rows []dbsqlc.AuditLog
	var err error
	if tenant == "" {
		rows, err = d.queries.AuditPage(ctx, tx, dbsqlc.AuditPageParams{Before: before, Lowest: lowest, Page: int32(chunk)})
	} else {
		rows, err = d.queries.AuditPageOfTenant(ctx, tx, dbsqlc.AuditPageOfTenantParams{
			TenantID: string(tenant), Before: before, Lowest: lowest, Page: int32(chunk),
		})
	}
	return auditRecordsOf(rows), err
}

// AuditByID reads entries; those that do not exist are missing.
func (d *DB) AuditByID(ctx context.Context, ids []hub.ID) ([]AuditRecord, error) {
	lowest, highest := bounds(ids)
	rows, err := d.queries.AuditByID(ctx, d.pool, dbsqlc.AuditByIDParams{Ids: ids, Lowest: lowest, Highest: highest})
	if err != nil {
		return nil, fmt.Errorf("read %d audit entries: %w", len(ids), err)
	}
	return auditRecordsOf(rows), nil
}

func auditRecordsOf(rows []dbsqlc.AuditLog) []AuditRecord {
	list := make([]AuditRecord, len(rows))
	for i, r := range rows {
		list[i] = AuditRecord{
			ID: r.ID, Tenant: hub.TenantID(orZero(r.TenantID)), Actor: hub.TokenID{ID: orZero(r.ActorID)}, ActorName: r.ActorName,
			Action: r.Action, Object: r.Object, Before: r.Before, After: r.After,
		}
	}
	return list
}
