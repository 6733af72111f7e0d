package db

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/streaming-hub/streaming-hub/db/internal/dbsqlc"
	"github.com/streaming-hub/streaming-hub/hub"
)

// CreateToken stores an API token that nobody is known to have made.
func (d *DB) CreateToken(ctx context.Context, t hub.APIToken) error { return d.createToken(ctx, t) }

// CreateTokenBy stores an API token together with the audit log's entry.
func (d *DB) CreateTokenBy(ctx context.Context, t hub.APIToken, e AuditEntry) error {
	return d.createToken(ctx, t, e)
}

func (d *DB) createToken(ctx context.Context, t hub.APIToken, entries ...AuditEntry) error {
	p := dbsqlc.InsertTokenParams{
		ID: t.ID.ID, TenantID: textOrNull(string(t.Tenant)), Name: t.Name, Role: string(t.Role),
		Hash: t.Hash[:], CreatedAt: t.CreatedAt,
	}
	if !t.ExpiresAt.IsZero() {
		p.ExpiresAt = &t.ExpiresAt
	}
	err := pgx.BeginFunc(ctx, d.pool, func(tx pgx.Tx) error {
		if err := d.queries.InsertToken(ctx, tx, p); err != nil {
			return err
		}
		return d.audit(ctx, tx, entries...)
	})
	if err != nil {
		return fmt.Errorf("store API token %s: %w", t.ID, err)
	}
	return nil
}

// TokenByID reads one API token; found is false when there is none.
func (d *DB) TokenByID(ctx context.Context, id hub.TokenID) (t hub.APIToken, found bool, err error) {
	rows, err := d.queries.TokenByID(ctx, d.pool, id.ID)
	if err != nil {
		return t, false, fmt.Errorf("read API token %s: %w", id, err)
	}
	if len(rows) == 0 {
		return t, false, nil
	}
	return tokenOf(&rows[0]), true, nil
}

// ListTokens reads the newest 1000 API tokens of a tenant, or of everybody
// when tenant is "".
func (d *DB) ListTokens(ctx context.Context, tenant hub.TenantID) ([]hub.APIToken, error) {
	rows, err := d.queries.ListTokens(ctx, d.pool, textOrNull(string(tenant)))
	if err != nil {
		return nil, fmt.Errorf("list API tokens: %w", err)
	}
	return tokensOf(rows), nil
}

// TokensByID reads API tokens; those that do not exist are missing.
func (d *DB) TokensByID(ctx context.Context, ids []hub.TokenID) ([]hub.APIToken, error) {
	keys := make([]hub.ID, len(ids))
	for i, id := range ids {
		keys[i] = id.ID
	}
	rows, err := d.queries.TokensByID(ctx, d.pool, keys)
	if err != nil {
		return nil, fmt.Errorf("read %d API tokens: %w", len(ids), err)
	}
	return tokensOf(rows), nil
}

// TokenPage reads up to limit API tokens with smaller ids than before, the
// newest first; of all scopes when tenant is "".
func (d *DB) TokenPage(ctx context.Context, tenant hub.TenantID, before hub.ID, limit int) ([]hub.APIToken, error) {
	var rows []dbsqlc.ApiToken
	var err error
	if tenant == "" {
		rows, err = d.queries.TokenPage(ctx, d.pool, dbsqlc.TokenPageParams{Before: before, Page: int32(limit)})
	} else {
		rows, err = d.queries.TokenPageOfTenant(ctx, d.pool, dbsqlc.TokenPageOfTenantParams{TenantID: string(tenant), Before: before, Page: int32(limit)})
	}
	if err != nil {
		return nil, fmt.Errorf("list API tokens: %w", err)
	}
	return tokensOf(rows), nil
}

// RevokeToken ends an API token now, by nobody known; found is false when
// there is none. A second call changes nothing.
func (d *DB) RevokeToken(ctx context.Context, id hub.TokenID) (found bool, err error) {
	_, found, err = d.RevokeTokenBy(ctx, id, nil)
	return found, err
}

// RevokeTokenBy is RevokeToken with the audit log's entry, which is written
// when the token was good until now. It returns the token as it then is.
func (d *DB) RevokeTokenBy(ctx context.Context, id hub.TokenID, audit func(before, after *hub.APIToken) AuditEntry) (t hub.APIToken, found bool, err error) {
	err = pgx.BeginFunc(ctx, d.pool, func(tx pgx.Tx) error {
		rows, err := d.queries.LockToken(ctx, tx, id.ID)
		if found = len(rows) > 0; err != nil || !found {
			return err
		}
		if t = tokenOf(&rows[0]); !t.RevokedAt.IsZero() {
			return nil
		}
		after, err := d.queries.RevokeToken(ctx, tx, id.ID)
		if err != nil {
			return err
		}
		before := t
		if t = tokenOf(&after); audit == nil {
			return nil
		}
		return d.audit(ctx, tx, audit(&before, &t))
	})
	if err != nil {
		return t, false, fmt.Errorf("revoke API token %s: %w", id, err)
	}
	return t, found, nil
}

func tokensOf(rows []dbsqlc.ApiToken) []hub.APIToken {
	list := make([]hub.APIToken, len(rows))
	for i := range rows {
		list[i] = tokenOf(&rows[i])
	}
	return list
}

func tokenOf(r *dbsqlc.ApiToken) hub.APIToken {
	t := hub.APIToken{ID: hub.TokenID{ID: r.ID}, Name: r.Name, Role: hub.Role(r.Role), CreatedAt: r.CreatedAt}
	copy(t.Hash[:], r.Hash)
	if r.TenantID != nil {
		t.Tenant = hub.TenantID(*r.TenantID)
	}
	if r.ExpiresAt != nil {
		t.ExpiresAt = *r.ExpiresAt
	}
	if r.RevokedAt != nil {
		t.RevokedAt = *r.RevokedAt
	}
	return t
}
