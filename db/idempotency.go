package db

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/streaming-hub/streaming-hub/db/internal/dbsqlc"
	"github.com/streaming-hub/streaming-hub/hub"
	"github.com/streaming-hub/streaming-hub/hub/secret"
)

// KeyedCall is a call that its caller named by an idempotency key. The key is
// the actor's own within the tenant.
type KeyedCall struct {
	Actor  hub.TokenID
	Tenant hub.TenantID // "" for the platform
	Key    string
	// Operation is the name of the mutation, for people who look.
	Operation string
	ID        hub.ID // new for each try to run it
}

// KeyState is what is known of a call.
type KeyState struct {
	// Ours says that the caller of ClaimKey is to run the call. The rest is then
	// zero.
	Ours bool
	// Hash is that of the request that used the key.
	Hash []byte
	// Ran says that the call changed something; Over that its process had all
	// the time there is for it.
	Ran, Over bool
	// Answer is nil while there is none. ID is that of the call that gave it. The
	// key id is "" for an answer that is not sealed.
	Answer *secret.Sealed
	ID     hub.ID
}

// KeyRules are the times that keys obey.
type KeyRules struct {
	KeptFor time.Duration // for which an answer is remembered
	Lease   time.Duration // for which a call may run
}

// ErrKeyLost is returned when another process took the call over.
var ErrKeyLost = errors.New("db: the call with this idempotency key was taken over")

// ClaimKey lets a call run, or tells what became of the one that has its key.
func (d *DB) ClaimKey(ctx context.Context, c KeyedCall, hash []byte, rules KeyRules) (KeyState, error) {
	for {
		claimed, err := d.queries.ClaimKey(ctx, d.pool, dbsqlc.ClaimKeyParams{
			ActorID: c.Actor.ID, TenantID: string(c.Tenant), Key: c.Key, Operation: c.Operation, RequestHash: hash, ID: c.ID,
			KeptFor: interval(rules.KeptFor), Lease: interval(rules.Lease),
		})
		if err != nil {
			return KeyState{}, fmt.Errorf("claim an idempotency key: %w", err)
		}
		if len(claimed) > 0 {
			return KeyState{Ours: true}, nil
		}
		rows, err := d.queries.KeyedCall(ctx, d.pool, dbsqlc.KeyedCallParams{
			ActorID: c.Actor.ID, TenantID: string(c.Tenant), Key: c.Key, Lease: interval(rules.Lease),
		})
		if err != nil {
			return KeyState{}, fmt.Errorf("read an idempotency key: %w", err)
		}
		if len(rows) > 0 { // else it was released just now
			return keyStateOf(&rows[0]), nil
		}
	}
}

func keyStateOf(r *dbsqlc.KeyedCallRow) KeyState {
	st := KeyState{Hash: r.RequestHash, Ran: r.Ran, Over: r.Over, ID: r.ID}
	if r.Answer != nil {
		st.Answer = &secret.Sealed{KeyID: orZero(r.KeyID), WrappedKey: r.WrappedKey, Ciphertext: r.Answer}
	}
	return st
}

// KeepAnswer remembers what a claimed call came to.
func (d *DB) KeepAnswer(ctx context.Context, c KeyedCall, answer secret.Sealed) error {
	n, err := d.queries.KeepAnswer(ctx, d.pool, dbsqlc.KeepAnswerParams{
		ActorID: c.Actor.ID, TenantID: string(c.Tenant), Key: c.Key, ID: c.ID,
		KeyID: textOrNull(answer.KeyID), WrappedKey: answer.WrappedKey, Answer: answer.Ciphertext,
	})
	if err == nil && n == 0 {
		err = ErrKeyLost
	}
	if err != nil {
		return fmt.Errorf("keep the answer of an idempotency key: %w", err)
	}
	return nil
}

// ReleaseKey forgets a claimed call, unless it changed something.
func (d *DB) ReleaseKey(ctx context.Context, c KeyedCall) error {
	err := d.queries.ReleaseKey(ctx, d.pool, dbsqlc.ReleaseKeyParams{ActorID: c.Actor.ID, TenantID: string(c.Tenant), Key: c.Key, ID: c.ID})
	if err != nil {
		return fmt.Errorf("release an idempotency key: %w", err)
	}
	return nil
}

// forgetBatch is how many keys one statement deletes.
const forgetBatch = 1000

// ForgetIdempotencyKeys deletes the keys that were used before a time, in
// batches, and returns how many. It stops between batches when the context
// ends.
func (d *DB) ForgetIdempotencyKeys(ctx context.Context, before time.Time) (forgotten int, err error) {
	for {
		n, err := d.queries.ForgetKeys(ctx, d.pool, dbsqlc.ForgetKeysParams{Before: before, Batch: forgetBatch})
		if err != nil {
			return forgotten, fmt.Errorf("forget idempotency keys: %w", err)
		}
		if forgotten += int(n); n < forgetBatch {
			return forgotten, nil
		}
	}
}

type keyedCallKey struct{}

// UnderKey says that changes with this context are made by a claimed call: the
// transaction of each, at its audit entry, notes that the call ran. One whose
// call was taken over meanwhile fails with ErrKeyLost.
func UnderKey(ctx context.Context, c KeyedCall) context.Context {
	return context.WithValue(ctx, keyedCallKey{}, c)
}

func (d *DB) markRan(ctx context.Context, tx dbsqlc.DBTX) error {
	c, ok := ctx.Value(keyedCallKey{}).(KeyedCall)
	if !ok {
		return nil
	}
	n, err := d.queries.MarkRan(ctx, tx, dbsqlc.MarkRanParams{ActorID: c.Actor.ID, TenantID: string(c.Tenant), Key: c.Key, ID: c.ID})
	if err == nil && n == 0 {
		err = ErrKeyLost
	}
	return err
}
