package db

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/streaming-hub/streaming-hub/db/internal/dbsqlc"
	"github.com/streaming-hub/streaming-hub/hub"
	"github.com/streaming-hub/streaming-hub/hub/secret"
)

// DestinationsByID reads destinations; those that do not exist are missing.
func (d *DB) DestinationsByID(ctx context.Context, ids []hub.DestinationID) ([]hub.Destination, error) {
	keys := make([]hub.ID, len(ids))
	for i, id := range ids {
		keys[i] = id.ID
	}
	rows, err := d.queries.DestinationsByID(ctx, d.pool, keys)
	if err != nil {
		return nil, fmt.Errorf("read %d destinations: %w", len(ids), err)
	}
	list := make([]hub.Destination, len(rows))
	for i := range rows {
		list[i] = destinationOf(rows[i])
	}
	return list, nil
}

// SecretsOfDestination reads the sealed secrets that sign now, newest first.
func (d *DB) SecretsOfDestination(ctx context.Context, id hub.DestinationID) ([]SealedSecret, error) {
	rows, err := d.queries.SecretsOfDestination(ctx, d.pool, id.ID)
	if err != nil {
		return nil, fmt.Errorf("read the secrets of destination %s: %w", id, err)
	}
	list := make([]SealedSecret, len(rows))
	for i, r := range rows {
		list[i] = SealedSecret{
			Sealed:  secret.Sealed{KeyID: r.KeyID, WrappedKey: r.WrappedKey, Ciphertext: r.Ciphertext},
			Binding: secret.Binding{Tenant: hub.TenantID(r.TenantID), Row: r.ID, Version: r.Version},
		}
		if r.NotAfter != nil {
			list[i].NotAfter = *r.NotAfter
		}
	}
	return list, nil
}

func destinationOf(r dbsqlc.Destination) hub.Destination {
	d := hub.Destination{
		ID: hub.DestinationID{ID: r.ID}, Tenant: hub.TenantID(r.TenantID), Kind: hub.SinkKind(r.Kind),
		URL: r.Url, CreatedAt: r.CreatedAt, Version: r.Version,
	}
	if r.RateLimit != nil {
		d.RateLimit = *r.RateLimit
	}
	if r.MaxInFlight != nil {
		d.MaxInFlight = *r.MaxInFlight
	}
	if json.Unmarshal(r.FailurePolicy, &d.FailurePolicy) != nil {
		d.FailurePolicy = hub.FailurePolicy{} // as dispatch takes it: FAILURE_SPAN
	}
	return d
}
