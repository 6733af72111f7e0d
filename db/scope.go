package db

import (
	"context"
	"errors"
	"fmt"

	"github.com/streaming-hub/streaming-hub/hub"
)

// The roles as which a walled DB works; migration 00011 makes them.
const (
	tenantRole   = "hub_tenant"   // sees and writes rows of one tenant, named in hub.tenant
	platformRole = "hub_platform" // sees and writes those of all
)

// ErrNoScope is returned by a walled DB to a call for nobody.
var ErrNoScope = errors.New("db: the call says neither for which tenant it is nor that it is for the platform")

// scope is for whom calls are made: for one tenant or for all.
type scope struct {
	tenant   hub.TenantID
	platform bool
}

type scopeKey struct{}

// OfTenant says that calls with this context are made for one tenant. A walled
// DB lets them reach that tenant's rows only, whatever they ask for. Other DBs
// take no notice.
func OfTenant(ctx context.Context, t hub.TenantID) context.Context {
	return context.WithValue(ctx, scopeKey{}, scope{tenant: t})
}

// OfPlatform says that calls with this context may reach all tenants.
func OfPlatform(ctx context.Context) context.Context {
	return context.WithValue(ctx, scopeKey{}, scope{platform: true})
}

// scopeOf is the scope of a call. A tenant that is no tenant id has none: it
// would have to be quoted, and it sees nothing anyway.
func scopeOf(ctx context.Context) (scope, error) {
	s, ok := ctx.Value(scopeKey{}).(scope)
	if !ok {
		return s, ErrNoScope
	}
	if !s.platform && !s.tenant.Valid() {
		return s, fmt.Errorf("db: %.40q is not a tenant id", s.tenant)
	}
	return s, nil
}
