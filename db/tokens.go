package db

import (
	"context"
	"fmt"

	"github.com/streaming-hub/streaming-hub/db/internal/dbsqlc"
	"github.com/streaming-hub/streaming-hub/hub"
)

// CreateToken stores an API token.
func (d *DB) CreateToken(ctx context.Context, t hub.APIToken) error {
	p := dbsqlc.InsertTokenParams{
		ID: t.ID.ID, TenantID: textOrNull(string(t.Tenant)), Name: t.Name, Role: string(t.Role),
		Hash: t.Hash[:], CreatedAt: t.CreatedAt,
	}
	if !t.ExpiresAt.IsZero() {
		p.ExpiresAt = &t.ExpiresAt
	}
	if err := d.queries.InsertToken(ctx, d.pool, p); err != nil {
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
	list := make([]hub.APIToken, len(rows))
	for i := range rows {
		list[i] = tokenOf(&rows[i])
	}
	return list, nil
}

// RevokeToken ends an API token now; found is false when there is none. A
// second call changes nothing.
func (d *DB) RevokeToken(ctx context.Context, id hub.TokenID) (found bool, err error) {
	n, err := d.queries.RevokeToken(ctx, d.pool, id.ID)
	if err != nil {
		return false, fmt.Errorf("revoke API token %s: %w", id, err)
	}
	return n > 0, nil
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
