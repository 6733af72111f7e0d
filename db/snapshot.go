package db

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/streaming-hub/streaming-hub/hub"
)

// TenantConfig is everything that ingest and dispatch need to know of a
// tenant, all of one version.
type TenantConfig struct {
	Tenant        hub.TenantID
	Version       int64
	Subscriptions []hub.EventSubscription // in creation order
	Destinations  map[hub.DestinationID]DestinationConfig
}

// DestinationConfig is a destination with its sealed signing secrets, newest
// first, and credentials.
type DestinationConfig struct {
	Destination hub.Destination
	Secrets     []SealedSecret
	Credentials []SealedCredential
}

// ConfigVersions reads the current configuration version of tenants. Tenants
// without a counter row are missing.
func (d *DB) ConfigVersions(ctx context.Context, tenants []hub.TenantID) (map[hub.TenantID]int64, error) {
	rows, err := d.queries.ConfigVersions(ctx, d.pool, tenantStrings(tenants))
	if err != nil {
		return nil, fmt.Errorf("read the configuration versions of %d tenants: %w", len(tenants), err)
	}
	versions := make(map[hub.TenantID]int64, len(rows))
	for _, r := range rows {
		versions[hub.TenantID(r.TenantID)] = r.ConfigVersion
	}
	return versions, nil
}

// TenantConfigs reads the configuration of tenants in one snapshot, so that
// version and content belong together. Tenants without a counter row are
// missing.
func (d *DB) TenantConfigs(ctx context.Context, tenants []hub.TenantID) (map[hub.TenantID]*TenantConfig, error) {
	configs := make(map[hub.TenantID]*TenantConfig, len(tenants))
	opts := pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}
	err := pgx.BeginTxFunc(ctx, d.pool, opts, func(tx pgx.Tx) error {
		names := tenantStrings(tenants)
		versions, err := d.queries.ConfigVersions(ctx, tx, names)
		if err != nil {
			return err
		}
		for _, v := range versions {
			configs[hub.TenantID(v.TenantID)] = &TenantConfig{
				Tenant: hub.TenantID(v.TenantID), Version: v.ConfigVersion,
				Destinations: map[hub.DestinationID]DestinationConfig{},
			}
		}
		if err := d.addDestinations(ctx, tx, names, configs); err != nil {
			return err
		}
		return d.addSubscriptions(ctx, tx, names, configs)
	})
	if err != nil {
		return nil, fmt.Errorf("read the configuration of %d tenants: %w", len(tenants), err)
	}
	return configs, nil
}

func (d *DB) addDestinations(ctx context.Context, tx pgx.Tx, names []string, configs map[hub.TenantID]*TenantConfig) error {
	dests, err := d.queries.DestinationsOfTenants(ctx, tx, names)
	if err != nil {
		return err
	}
	for _, r := range dests {
		d := destinationOf(r)
		configs[d.Tenant].Destinations[d.ID] = DestinationConfig{Destination: d}
	}
	secrets, err := d.queries.SecretsOfTenants(ctx, tx, names)
	if err != nil {
		return err
	}
	for i := range secrets {
		c, id := configs[hub.TenantID(secrets[i].TenantID)], hub.DestinationID{ID: secrets[i].DestinationID}
		dest := c.Destinations[id]
		dest.Secrets = append(dest.Secrets, sealedSecretOf(&secrets[i]))
		c.Destinations[id] = dest
	}
	credentials, err := d.queries.CredentialsOfTenants(ctx, tx, names)
	if err != nil {
		return err
	}
	for i := range credentials {
		c, id := configs[hub.TenantID(credentials[i].TenantID)], hub.DestinationID{ID: credentials[i].DestinationID}
		dest := c.Destinations[id]
		dest.Credentials = append(dest.Credentials, sealedCredentialOf(&credentials[i]))
		c.Destinations[id] = dest
	}
	return nil
}

func (d *DB) addSubscriptions(ctx context.Context, tx pgx.Tx, names []string, configs map[hub.TenantID]*TenantConfig) error {
	subs, err := d.queries.SubscriptionsOfTenants(ctx, tx, names)
	if err != nil {
		return err
	}
	for i := range subs {
		c := configs[hub.TenantID(subs[i].TenantID)]
		c.Subscriptions = append(c.Subscriptions, subscriptionOf(&subs[i]))
	}
	return nil
}
