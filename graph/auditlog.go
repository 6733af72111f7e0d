package graph

import (
	"context"

	"github.com/streaming-hub/streaming-hub/db"
	"github.com/streaming-hub/streaming-hub/graph/model"
	"github.com/streaming-hub/streaming-hub/hub"
)

func (r queryResolver) AuditLog(ctx context.Context, first int32, after *string, filter *model.AuditLogFilter) (*model.AuditLogConnection, error) {
	size, err := pageSize(first)
	if err != nil {
		return nil, err
	}
	before, err := idBehind(byAuditID, after)
	if err != nil {
		return nil, err
	}
	f, possible := auditFilter(filter)
	if !possible {
		before = hub.ID{} // behind the last row
	}
	page, err := r.Audit.Page(ctx, actorOf(ctx), f, before, size)
	if err != nil {
		return nil, err
	}
	return auditConnection(&page), nil
}

func (r queryResolver) auditEntry(ctx context.Context, id string) (*model.AuditLogEntry, error) {
	key, ok := parseGlobalID(auditPrefix, id)
	if !ok {
		return nil, nil
	}
	e, err := load(ctx, loadersOf(ctx).audit, key)
	return toAuditEntry(e), err
}

// auditFilter reads a filter; possible is false when it names an id that
// cannot exist.
func auditFilter(m *model.AuditLogFilter) (f db.AuditFilter, possible bool) {
	if m == nil {
		return f, true
	}
	f = db.AuditFilter{
		Tenant: hub.TenantID(value(m.TenantID)), Action: value(m.Action), Object: value(m.Object),
		After: moment(m.After), Before: moment(m.Before),
	}
	possible = true
	if m.ActorID != nil {
		f.Actor.ID, possible = parseGlobalID(tokenPrefix, *m.ActorID)
	}
	return f, possible
}

func toAuditEntry(e *db.AuditRecord) *model.AuditLogEntry {
	if e == nil {
		return nil
	}
	m := &model.AuditLogEntry{
		ID: globalID(auditPrefix, e.ID), At: e.ID.Time().UTC(), TenantID: optional(string(e.Tenant)), ActorName: e.ActorName,
		Action: e.Action, Object: e.Object, Before: e.Before, After: e.After,
	}
	if !e.Actor.IsZero() {
		m.ActorID = optional(globalID(tokenPrefix, e.Actor.ID))
	}
	return m
}

func auditConnection(page *db.Page[db.AuditRecord]) *model.AuditLogConnection {
	c := &model.AuditLogConnection{Edges: []*model.AuditLogEdge{}, Nodes: []*model.AuditLogEntry{}}
	end := ""
	for i := range page.Rows {
		node := toAuditEntry(&page.Rows[i])
		end = cursorOfID(byAuditID, page.Rows[i].ID)
		c.Nodes = append(c.Nodes, node)
		c.Edges = append(c.Edges, &model.AuditLogEdge{Cursor: end, Node: node})
	}
	if page.More {
		end = cursorOfID(byAuditID, page.End)
	}
	c.PageInfo = pageInfo(page.More, end)
	return c
}
