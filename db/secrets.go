package db

import (
	"context"
	"fmt"
	"time"

	"github.com/streaming-hub/streaming-hub/db/internal/dbsqlc"
	"github.com/streaming-hub/streaming-hub/hub"
	"github.com/streaming-hub/streaming-hub/hub/secret"
)

// SealedSecret is a signing secret as it rests in the database.
type SealedSecret struct {
	Sealed    secret.Sealed
	Binding   secret.Binding
	CreatedAt time.Time
	NotAfter  time.Time // zero for the current one
}

// Key is what may be told of it.
func (s *SealedSecret) Key() hub.SigningKey {
	return hub.SigningKey{Version: s.Binding.Version, CreatedAt: s.CreatedAt, EndsAt: s.NotAfter}
}

// SealedCredential is a credential as it rests in the database. The version of
// its binding is that of the credential.
type SealedCredential struct {
	Credential hub.Credential
	Sealed     secret.Sealed
	Binding    secret.Binding
}

// DestinationByID reads a destination with everything that belongs to it; nil
// when there is none.
func (d *DB) DestinationByID(ctx context.Context, id hub.DestinationID) (*DestinationState, error) {
	rows, err := d.queries.DestinationsByID(ctx, d.pool, []hub.ID{id.ID})
	if err == nil && len(rows) == 0 {
		return nil, nil
	}
	var s *DestinationState
	if err == nil {
		s, err = d.completed(ctx, d.pool, destinationOf(rows[0]))
	}
	if err != nil {
		return nil, fmt.Errorf("read destination %s: %w", id, err)
	}
	return s, nil
}

// SigningKeys reads what may be told of the secrets that sign now for each
// destination, newest first.
func (d *DB) SigningKeys(ctx context.Context, ids []hub.DestinationID) (map[hub.DestinationID][]hub.SigningKey, error) {
	rows, err := d.queries.SigningKeys(ctx, d.pool, destinationKeys(ids))
	if err != nil {
		return nil, fmt.Errorf("read the signing keys of %d destinations: %w", len(ids), err)
	}
	keys := make(map[hub.DestinationID][]hub.SigningKey, len(ids))
	for _, r := range rows {
		k := hub.SigningKey{Version: r.Version, CreatedAt: r.CreatedAt}
		if r.NotAfter != nil {
			k.EndsAt = *r.NotAfter
		}
		id := hub.DestinationID{ID: r.DestinationID}
		keys[id] = append(keys[id], k)
	}
	return keys, nil
}

// Credentials reads what may be told of the credentials of destinations.
func (d *DB) Credentials(ctx context.Context, ids []hub.DestinationID) (map[hub.DestinationID][]hub.Credential, error) {
	rows, err := d.queries.CredentialsOfDestinations(ctx, d.pool, destinationKeys(ids))
	if err != nil {
		return nil, fmt.Errorf("read the credentials of %d destinations: %w", len(ids), err)
	}
	list := make(map[hub.DestinationID][]hub.Credential, len(ids))
	for i := range rows {
		id := hub.DestinationID{ID: rows[i].DestinationID}
		list[id] = append(list[id], sealedCredentialOf(&rows[i]).Credential)
	}
	return list, nil
}

func sealedSecretOf(r *dbsqlc.DestinationSecret) SealedSecret {
	s := SealedSecret{
		Sealed:    secret.Sealed{KeyID: r.KeyID, WrappedKey: r.WrappedKey, Ciphertext: r.Ciphertext},
		Binding:   secret.Binding{Tenant: hub.TenantID(r.TenantID), Row: r.ID, Version: r.Version},
		CreatedAt: r.CreatedAt,
	}
	if r.NotAfter != nil {
		s.NotAfter = *r.NotAfter
	}
	return s
}

func sealedCredentialOf(r *dbsqlc.DestinationCredential) SealedCredential {
	return SealedCredential{
		Credential: hub.Credential{
			Kind: hub.CredentialKind(r.Kind), Name: r.Name, Certificate: r.Certificate, Version: r.Version, CreatedAt: r.CreatedAt,
		},
		Sealed:  secret.Sealed{KeyID: r.KeyID, WrappedKey: r.WrappedKey, Ciphertext: r.Ciphertext},
		Binding: secret.Binding{Tenant: hub.TenantID(r.TenantID), Row: r.ID, Version: r.Version},
	}
}
