// Package snapshot keeps what the data plane knows of tenants: their
// subscriptions, compiled for matching, and for each the route to its
// destination with the keys that sign now. Every tenant's part is immutable
// and of one configuration version.
//
// Ingest compares the version with the one in the tenant's counter row, whose
// lock it holds, so an event is always matched by the newest configuration.
// Dispatch takes what is here; Run keeps it at most refreshEvery behind.
package snapshot

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/streaming-hub/streaming-hub/dataplane/outage"
	"github.com/streaming-hub/streaming-hub/db"
	"github.com/streaming-hub/streaming-hub/hub"
	"github.com/streaming-hub/streaming-hub/hub/secret"
)

const (
	// refreshEvery bounds how long a revoked secret or a changed URL is used.
	refreshEvery = time.Second
	// forgetAfter bounds memory: a tenant that nobody asked for is dropped.
	forgetAfter = 10 * time.Minute
)

// Store reads configurations.
type Store interface {
	TenantConfigs(ctx context.Context, tenants []hub.TenantID) (map[hub.TenantID]*db.TenantConfig, error)
	ConfigVersions(ctx context.Context, tenants []hub.TenantID) (map[hub.TenantID]int64, error)
}

// Deps are what a Cache works with.
type Deps struct {
	Store   Store
	Keyring *secret.Keyring
	// CurveSteps, if any, replace the waits of the CURVE: for development.
	CurveSteps []time.Duration
	Now        func() time.Time
	Log        *slog.Logger
}

// Cache holds the tenants in use. It is safe for concurrent use.
type Cache struct {
	deps Deps

	mu      sync.Mutex
	tenants map[hub.TenantID]*entry
}

type entry struct {
	tenant *Tenant
	usedAt time.Time
}

// New makes an empty cache.
func New(d Deps) *Cache {
	return &Cache{deps: d, tenants: map[hub.TenantID]*entry{}}
}

// Get returns the tenants, loading those that are not here. A tenant that the
// database does not know is one without subscriptions.
func (c *Cache) Get(ctx context.Context, ids []hub.TenantID) (map[hub.TenantID]*Tenant, error) {
	return c.atLeast(ctx, ids, nil)
}

// Current returns a tenant as the database has it now, at the cost of reading
// it.
func (c *Cache) Current(ctx context.Context, id hub.TenantID) (*Tenant, error) {
	loaded, err := c.load(ctx, []hub.TenantID{id})
	if err != nil {
		return nil, err
	}
	return loaded[id], nil
}

// AtVersion returns the tenants at exactly the versions given or newer.
func (c *Cache) AtVersion(ctx context.Context, versions map[hub.TenantID]int64) (map[hub.TenantID]*Tenant, error) {
	ids := make([]hub.TenantID, 0, len(versions))
	for id := range versions {
		ids = append(ids, id)
	}
	return c.atLeast(ctx, ids, versions)
}

func (c *Cache) atLeast(ctx context.Context, ids []hub.TenantID, versions map[hub.TenantID]int64) (map[hub.TenantID]*Tenant, error) {
	found := make(map[hub.TenantID]*Tenant, len(ids))
	var wanted []hub.TenantID
	now := c.deps.Now()
	c.mu.Lock()
	for _, id := range ids {
		if e, ok := c.tenants[id]; ok && e.tenant.Version >= versions[id] {
			e.usedAt = now
			found[id] = e.tenant
			continue
		}
		wanted = append(wanted, id)
	}
	c.mu.Unlock()
	if len(wanted) == 0 {
		return found, nil
	}
	loaded, err := c.load(ctx, wanted)
	if err != nil {
		return nil, err
	}
	for id, t := range loaded {
		found[id] = t
	}
	return found, nil
}

func (c *Cache) load(ctx context.Context, ids []hub.TenantID) (map[hub.TenantID]*Tenant, error) {
	configs, err := c.deps.Store.TenantConfigs(ctx, ids)
	if err != nil {
		return nil, err
	}
	now := c.deps.Now()
	loaded := make(map[hub.TenantID]*Tenant, len(ids))
	for _, id := range ids {
		config := configs[id]
		if config == nil {
			config = &db.TenantConfig{Tenant: id}
		}
		loaded[id] = c.build(config, now)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, t := range loaded {
		// Two loads may cross; the newer one stays.
		if e, ok := c.tenants[id]; ok && e.tenant.Version > t.Version {
			loaded[id] = e.tenant
			continue
		}
		c.tenants[id] = &entry{tenant: t, usedAt: now}
	}
	return loaded, nil
}

// Run keeps the tenants in use up to date until ctx ends.
func (c *Cache) Run(ctx context.Context) error {
	outages := outage.New(c.deps.Log)
	tick := time.NewTicker(refreshEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			outages.Failed("refresh subscriptions, what is known of them is used on", c.refresh(ctx))
		}
	}
}

// refresh reloads the tenants whose version grew or whose keys ran out.
func (c *Cache) refresh(ctx context.Context) error {
	now := c.deps.Now()
	var ids []hub.TenantID
	c.mu.Lock()
	for id, e := range c.tenants {
		if now.Sub(e.usedAt) > forgetAfter {
			delete(c.tenants, id)
			continue
		}
		ids = append(ids, id)
	}
	c.mu.Unlock()
	if len(ids) == 0 {
		return nil
	}
	versions, err := c.deps.Store.ConfigVersions(ctx, ids)
	if err != nil {
		return err
	}
	var stale []hub.TenantID
	c.mu.Lock()
	for id, e := range c.tenants {
		keysEnded := !e.tenant.keysUntil.IsZero() && !now.Before(e.tenant.keysUntil)
		if version, ok := versions[id]; ok && (version > e.tenant.Version || keysEnded) {
			stale = append(stale, id)
		}
	}
	c.mu.Unlock()
	if len(stale) == 0 {
		return nil
	}
	_, err = c.load(ctx, stale)
	return err
}
