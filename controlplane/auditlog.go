package controlplane

import (
	"context"
	"errors"
	"slices"

	"github.com/streaming-hub/streaming-hub/db"
	"github.com/streaming-hub/streaming-hub/hub"
)

// AuditLog shows what people and programs did.
type AuditLog struct{ DB *db.DB }

// Page gives up to limit entries behind the id before, the newest first.
func (l *AuditLog) Page(ctx context.Context, a Actor, f db.AuditFilter, before hub.ID, limit int) (db.Page[db.AuditRecord], error) {
	if !a.Can(ReadAudit) {
		return db.Page[db.AuditRecord]{}, errors.New(a.WhyNot(ReadAudit))
	}
	tenant, none := a.narrow(f.Tenant)
	if none {
		return db.Page[db.AuditRecord]{}, nil
	}
	f.Tenant = tenant
	return l.DB.AuditPage(ctx, f, before, limit)
}

// ByID gives the entries that exist and that the actor may read.
func (l *AuditLog) ByID(ctx context.Context, a Actor, ids []hub.ID) ([]db.AuditRecord, error) {
	if !a.Can(ReadAudit) {
		return nil, nil
	}
	list, err := l.DB.AuditByID(ctx, ids)
	return slices.DeleteFunc(list, func(r db.AuditRecord) bool { return !a.Sees(r.Tenant) }), err
}
