package db

import (
	"context"
	"fmt"

	"github.com/streaming-hub/streaming-hub/db/internal/dbsqlc"
	"github.com/streaming-hub/streaming-hub/hub"
	"github.com/streaming-hub/streaming-hub/hub/secret"
)

// KeyUse is what one key-encryption key wraps.
type KeyUse struct {
	KeyID          string
	SigningSecrets int64
	Credentials    int64
}

// KeyUse counts what each key-encryption key wraps, by key id.
func (d *DB) KeyUse(ctx context.Context) ([]KeyUse, error) {
	rows, err := d.queries.KeyUse(ctx, d.pool)
	if err != nil {
		return nil, fmt.Errorf("count what each key-encryption key wraps: %w", err)
	}
	list := make([]KeyUse, len(rows))
	for i, r := range rows {
		list[i] = KeyUse(r)
	}
	return list, nil
}

// SecretKind says in which table a sealed secret rests.
type SecretKind string

const (
	SigningSecret    SecretKind = "signing secret"
	CredentialSecret SecretKind = "credential"
)

// Wrapped is a sealed secret that another key than the first one wraps.
type Wrapped struct {
	Sealed  secret.Sealed
	Binding secret.Binding
}

// SecretsToRewrap reads up to limit secrets with greater ids than after that
// other keys than keyID wrap, by id.
func (d *DB) SecretsToRewrap(ctx context.Context, kind SecretKind, keyID string, after hub.ID, limit int) ([]Wrapped, error) {
	var rows []dbsqlc.SecretsToRewrapRow
	var err error
	if kind == CredentialSecret {
		var found []dbsqlc.CredentialsToRewrapRow
		found, err = d.queries.CredentialsToRewrap(ctx, d.pool, dbsqlc.CredentialsToRewrapParams{After: after, KeyID: keyID, Batch: int32(limit)})
		for _, r := range found {
			rows = append(rows, dbsqlc.SecretsToRewrapRow(r))
		}
	} else {
		rows, err = d.queries.SecretsToRewrap(ctx, d.pool, dbsqlc.SecretsToRewrapParams{After: after, KeyID: keyID, Batch: int32(limit)})
	}
	if err != nil {
		return nil, fmt.Errorf("read what other keys than %s wrap: %w", keyID, err)
	}
	list := make([]Wrapped, len(rows))
	for i, r := range rows {
		list[i] = Wrapped{
			Sealed:  secret.Sealed{KeyID: r.KeyID, WrappedKey: r.WrappedKey, Ciphertext: r.Ciphertext},
			Binding: secret.Binding{Tenant: hub.TenantID(r.TenantID), Row: r.ID, Version: r.Version},
		}
	}
	return list, nil
}

// Rewrap is a secret as it was read and the envelope that it is to get.
type Rewrap struct {
	Was  Wrapped
	Next secret.Sealed
}

// RewrapSecrets gives secrets their new envelopes, as far as they still are
// what was read, and returns how many that were. The secrets themselves stay,
// so nothing that holds one open has to be told.
func (d *DB) RewrapSecrets(ctx context.Context, kind SecretKind, list []Rewrap) (int, error) {
	var p dbsqlc.RewrapSecretsParams
	for i := range list {
		r := &list[i]
		p.Ids = append(p.Ids, r.Was.Binding.Row)
		p.OldKeyIds, p.OldWrappedKeys = append(p.OldKeyIds, r.Was.Sealed.KeyID), append(p.OldWrappedKeys, r.Was.Sealed.WrappedKey)
		p.KeyIds, p.WrappedKeys = append(p.KeyIds, r.Next.KeyID), append(p.WrappedKeys, r.Next.WrappedKey)
	}
	var n int64
	var err error
	if kind == CredentialSecret {
		n, err = d.queries.RewrapCredentials(ctx, d.pool, dbsqlc.RewrapCredentialsParams(p))
	} else {
		n, err = d.queries.RewrapSecrets(ctx, d.pool, p)
	}
	if err != nil {
		return 0, fmt.Errorf("re-wrap %d secrets: %w", len(list), err)
	}
	return int(n), nil
}
