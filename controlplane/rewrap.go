package controlplane

import (
	"context"
	"io"

	"github.com/streaming-hub/streaming-hub/db"
	"github.com/streaming-hub/streaming-hub/hub"
	"github.com/streaming-hub/streaming-hub/hub/secret"
)

// Rewrapping moves every secret at rest to the first key-encryption key, beside
// planes that run: the secrets themselves stay, and those that change
// meanwhile are left alone, since a change seals with the first key anyway. It
// can be stopped at any moment and run again.
type Rewrapping struct {
	DB     *db.DB
	Keys   *secret.Keyring
	Random io.Reader // crypto/rand.Reader
	// Batch is how many secrets are moved by one statement; 0 means 200.
	Batch int
	// Progress, if any, is told after each batch.
	Progress func(Rewrapped)
}

// Rewrapped counts what became of secrets.
type Rewrapped struct {
	Moved   int
	Changed int // by somebody else meanwhile
	// Unopened are those that no configured key opens; they stay as they are.
	Unopened int
}

// Run walks both tables by id, to their ends.
func (r *Rewrapping) Run(ctx context.Context) (done Rewrapped, err error) {
	if r.Keys.Empty() {
		return done, secret.ErrNoKey
	}
	for _, kind := range []db.SecretKind{db.SigningSecret, db.CredentialSecret} {
		for after := (hub.ID{}); ; {
			next, more, err := r.batch(ctx, kind, after, &done)
			if err != nil {
				return done, err
			}
			if !more {
				break
			}
			after = next
			if r.Progress != nil {
				r.Progress(done)
			}
		}
	}
	return done, nil
}

func (r *Rewrapping) batch(ctx context.Context, kind db.SecretKind, after hub.ID, done *Rewrapped) (next hub.ID, more bool, err error) {
	size := r.Batch
	if size <= 0 {
		size = 200
	}
	found, err := r.DB.SecretsToRewrap(ctx, kind, r.Keys.KeyIDs()[0], after, size)
	if err != nil || len(found) == 0 {
		return after, false, err
	}
	var list []db.Rewrap
	for _, w := range found {
		moved, _, err := r.Keys.Rewrap(r.Random, w.Sealed, w.Binding)
		if err != nil {
			done.Unopened++
			continue
		}
		list = append(list, db.Rewrap{Was: w, Next: moved})
	}
	n, err := r.DB.RewrapSecrets(ctx, kind, list)
	if err != nil {
		return after, false, err
	}
	done.Moved += n
	done.Changed += len(list) - n
	return found[len(found)-1].Binding.Row, true, nil
}
