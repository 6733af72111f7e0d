package controlplane

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/streaming-hub/streaming-hub/access"
	"github.com/streaming-hub/streaming-hub/db"
	"github.com/streaming-hub/streaming-hub/hub"
)

// maxTokenLife is the longest life of a token that ends at all: ten years.
const maxTokenLife = 10 * 365 * 24 * time.Hour

// Tokens makes, shows and ends API tokens.
type Tokens struct {
	DB     *db.DB
	Access *access.Tokens
	Now    func() time.Time
	Random io.Reader // crypto/rand.Reader
}

// TokenWish is a token that a caller asks for; every field is still unchecked.
type TokenWish struct {
	Tenant    string // "" for the actor's own
	Platform  bool   // reaches all tenants; Tenant is then ""
	Name      string
	Role      hub.Role
	ExpiresIn *time.Duration // nil for never
}

// Create makes a token, or tells all mistakes of the wish at once. text is the
// token itself, shown this once.
func (t *Tokens) Create(ctx context.Context, a Actor, w TokenWish) (text string, token hub.APIToken, mistakes []UserError, err error) {
	now := t.Now()
	n, mistakes := judgeToken(a, w, now)
	if len(mistakes) > 0 {
		return "", token, mistakes, nil
	}
	if text, token, err = t.Access.Draw(n); err != nil {
		return "", token, nil, err
	}
	entry := a.auditEntry(now, t.Random, token.Tenant, auditCreateToken, GlobalID(TokenIDs, token.ID.ID), nil, tokenForAudit(&token))
	if err := t.DB.CreateTokenBy(ctx, token, entry); err != nil {
		return "", token, nil, err
	}
	return text, token, nil, nil
}

// judgeToken decides which token an actor may have made: within its own scope
// and role.
func judgeToken(a Actor, w TokenWish, now time.Time) (n access.NewToken, mistakes []UserError) {
	fault := func(code UserErrorCode, field, message string) {
		mistakes = append(mistakes, userError(code, []string{"input", field}, "%s", message))
	}
	n = access.NewToken{Name: strings.TrimSpace(w.Name), Role: w.Role}
	switch {
	case w.Platform && !a.Platform():
		fault(TenantMismatch, "scope", "a token of one tenant makes none that reaches others")
	case w.Platform && w.Tenant != "":
		fault(Invalid, "tenantId", "a token of scope PLATFORM belongs to no tenant")
	case !w.Platform:
		tenant, mismatch := a.tenantFor(w.Tenant, []string{"input", "tenantId"})
		if mismatch != nil {
			mistakes = append(mistakes, *mismatch)
		}
		n.Tenant = tenant
	}
	if n.Name == "" {
		fault(Invalid, "name", "a token needs a name")
	} else if err := checkText("name", n.Name, maxName); err != nil {
		fault(Invalid, "name", err.Error())
	}
	if !a.Role.Includes(w.Role) {
		fault(Invalid, "role", "a token has no higher role than the one that makes it")
	}
	if life := w.ExpiresIn; life != nil {
		if *life < time.Second || *life > maxTokenLife {
			fault(Invalid, "expiresIn", "a token that expires lives for 1 second to 10 years")
		}
		n.ExpiresAt = now.Add(*life).UTC().Truncate(time.Microsecond)
	}
	return n, mistakes
}

// Revoke ends a token; it stops working within 5 s. One that was revoked
// before stays as it is.
func (t *Tokens) Revoke(ctx context.Context, a Actor, id string) (hub.APIToken, []UserError, error) {
	key, ok := ParseGlobalID(TokenIDs, id)
	found, err := t.ByID(ctx, a, []hub.TokenID{{ID: key}})
	if err != nil {
		return hub.APIToken{}, nil, err
	}
	missing := []UserError{userError(NotFound, []string{"input", "id"}, "there is no such API token")}
	if !ok || len(found) == 0 {
		return hub.APIToken{}, missing, nil
	}
	token, ok, err := t.DB.RevokeTokenBy(ctx, hub.TokenID{ID: key}, func(before, after *hub.APIToken) db.AuditEntry {
		return a.auditEntry(t.Now(), t.Random, after.Tenant, auditRevokeToken, id, tokenForAudit(before), tokenForAudit(after))
	})
	if err == nil && !ok {
		return token, missing, nil
	}
	t.Access.Forget(token.ID)
	return token, nil, err
}

// ByID gives the tokens that exist and that the actor manages.
func (t *Tokens) ByID(ctx context.Context, a Actor, ids []hub.TokenID) ([]hub.APIToken, error) {
	if !a.Can(ManageTokens) {
		return nil, nil
	}
	list, err := t.DB.TokensByID(ctx, ids)
	return slices.DeleteFunc(list, func(k hub.APIToken) bool { return !a.Sees(k.Tenant) }), err
}

// Page gives up to limit tokens behind the id before, the newest first.
func (t *Tokens) Page(ctx context.Context, a Actor, tenant hub.TenantID, before hub.ID, limit int) ([]hub.APIToken, error) {
	if !a.Can(ManageTokens) {
		return nil, errors.New(a.WhyNot(ManageTokens))
	}
	tenant, none := a.narrow(tenant)
	if none {
		return nil, nil
	}
	return t.DB.TokenPage(ctx, tenant, before, limit)
}

// auditedToken is a token as the audit log keeps it.
type auditedToken struct {
	Name      string     `json:"name"`
	Role      hub.Role   `json:"role"`
	Platform  bool       `json:"platform,omitempty"`
	ExpiresAt *time.Time `json:"expiresAt,omitempty"`
	RevokedAt *time.Time `json:"revokedAt,omitempty"`
}

func tokenForAudit(t *hub.APIToken) auditedToken {
	v := auditedToken{Name: t.Name, Role: t.Role, Platform: t.Tenant == ""}
	if !t.ExpiresAt.IsZero() {
		v.ExpiresAt = &t.ExpiresAt
	}
	if !t.RevokedAt.IsZero() {
		v.RevokedAt = &t.RevokedAt
	}
	return v
}

// TokenLookup is where access finds tokens, before anybody is known to be let
// in.
type TokenLookup struct{ DB *db.DB }

// CreateToken stores a token.
func (l TokenLookup) CreateToken(ctx context.Context, t hub.APIToken) error {
	return l.DB.CreateToken(db.OfPlatform(ctx), t)
}

// TokenByID reads a token.
func (l TokenLookup) TokenByID(ctx context.Context, id hub.TokenID) (hub.APIToken, bool, error) {
	return l.DB.TokenByID(db.OfPlatform(ctx), id)
}
