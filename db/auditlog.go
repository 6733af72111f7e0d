package db

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/streaming-hub/streaming-hub/db/internal/dbsqlc"
	"github.com/streaming-hub/streaming-hub/hub"
)

// AuditEntry is one action of a person or program on the hub.
type AuditEntry struct {
	ID        hub.ID       // made by the caller; its time is that of the entry
	Tenant    hub.TenantID // that it concerns; "" for the platform
	Actor     hub.TokenID  // zero for the hub itself
	ActorName string
	Action    string // in snake case: create_event_subscription
	Object    string // global id of what was acted on
	// Before and After are what the action changed, as JSON objects; nil when
	// there was nothing before or is nothing after. No secret may be in them.
	Before, After any
}

// audit writes entries in the transaction of what they tell. The call that
// changes it, if it has an idempotency key, is marked there too.
func (d *DB) audit(ctx context.Context, tx dbsqlc.DBTX, entries ...AuditEntry) error {
	if len(entries) == 0 {
		return nil
	}
	var p dbsqlc.InsertAuditEntriesParams
	for i := range entries {
		e := &entries[i]
		before, err := json.Marshal(e.Before)
		if err != nil {
			return fmt.Errorf("audit %s: %w", e.Action, err)
		}
		after, err := json.Marshal(e.After)
		if err != nil {
			return fmt.Errorf("audit %s: %w", e.Action, err)
		}
		p.Ids, p.TenantIds = append(p.Ids, e.ID), append(p.TenantIds, string(e.Tenant))
		p.ActorIds, p.ActorNames = append(p.ActorIds, e.Actor.ID), append(p.ActorNames, e.ActorName)
		p.Actions, p.Objects = append(p.Actions, e.Action), append(p.Objects, e.Object)
		p.Befores, p.Afters = append(p.Befores, before), append(p.Afters, after)
	}
	if err := d.queries.InsertAuditEntries(ctx, tx, p); err != nil {
		return fmt.Errorf("write %d audit entries: %w", len(entries), err)
	}
	return d.markRan(ctx, tx)
}
