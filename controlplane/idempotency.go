package controlplane

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"io"
	"log/slog"
	"time"

	"github.com/streaming-hub/streaming-hub/db"
	"github.com/streaming-hub/streaming-hub/hub"
	"github.com/streaming-hub/streaming-hub/hub/secret"
)

const (
	maxIdempotencyKey = 200 // characters
	// callLease is for how long a call may run before another one with its key
	// takes over; longer than the API lets any mutation take.
	callLease = time.Minute
	// keepTime is how long storing an answer may take, also when the caller has
	// left.
	keepTime = 5 * time.Second
	// firstLook and slowestLook are the pauses between two looks at a call that
	// is under way elsewhere.
	firstLook, slowestLook = 10 * time.Millisecond, 250 * time.Millisecond
)

// KeyStore remembers calls by their idempotency keys.
type KeyStore interface {
	ClaimKey(ctx context.Context, c db.KeyedCall, hash []byte, rules db.KeyRules) (db.KeyState, error)
	KeepAnswer(ctx context.Context, c db.KeyedCall, answer secret.Sealed) error
	ReleaseKey(ctx context.Context, c db.KeyedCall) error
}

// Idempotency lets calls that a caller named by a key be repeated: the call
// runs once, and everybody who repeats it gets its answer.
type Idempotency struct {
	Store  KeyStore
	Keys   *secret.Keyring // an empty ring keeps no answer that shows a secret
	TTL    time.Duration   // for how long an answer is remembered
	Now    func() time.Time
	Random io.Reader // crypto/rand.Reader
	Log    *slog.Logger
}

// Call is a call with an idempotency key.
type Call struct {
	Key       string
	Operation string
	Hash      [32]byte // of all that was asked for, except the key
	Tenant    string   // that a platform actor acts for, if it names one
	// Click says that there is no key: calls alike within a moment are the
	// clicks of one wish, and share an answer.
	Click bool
}

// Answer is what a call came to, in a form that can be kept.
type Answer struct {
	Bytes  []byte
	Secret bool // it shows a secret
}

// Once runs the call, or gives the answer of the one that was named by the
// same key before; earlier is nil when it ran here. refused says why neither
// can be. An error of run is returned as it is and not remembered: unless the
// call had changed something already, it can be repeated.
func (i *Idempotency) Once(ctx context.Context, a Actor, c Call, run func(context.Context) (Answer, error)) (earlier []byte, refused *UserError, err error) {
	asked, kept := i.Now(), i.TTL
	if c.Click {
		c.Key, kept = "click "+hex.EncodeToString(c.Hash[:]), doubleClick
	}
	if checkText("idempotency key", c.Key, maxIdempotencyKey) != nil || c.Key == "" {
		return nil, keyError(Invalid, "an idempotency key has 1 to 200 characters of plain text"), nil
	}
	keyed := db.KeyedCall{Actor: a.Token, Tenant: a.Tenant, Key: c.Key, Operation: c.Operation, ID: hub.NewID(i.Now(), i.Random)}
	if named := hub.TenantID(c.Tenant); a.Platform() && named.Valid() {
		keyed.Tenant = named
	}
	for pause := firstLook; ; pause = min(2*pause, slowestLook) {
		// While it waits for the other call, that one does not grow older.
		rules := db.KeyRules{KeptFor: kept + i.Now().Sub(asked), Lease: callLease}
		st, err := i.Store.ClaimKey(ctx, keyed, c.Hash[:], rules)
		if err != nil {
			return nil, nil, err
		}
		switch verdict, refused := judgeKey(&st, c.Hash); verdict {
		case keyRuns:
			return nil, nil, i.run(ctx, keyed, run)
		case keyRefuses:
			return nil, refused, nil
		case keyAnswers:
			return i.open(&st, keyed.Tenant)
		}
		select {
		case <-ctx.Done():
			return nil, nil, ctx.Err()
		case <-time.After(pause):
		}
	}
}

// keyVerdict is what to do with a call.
type keyVerdict int

const (
	keyRuns    keyVerdict = iota // here
	keyWaits                     // until it has ended elsewhere
	keyAnswers                   // with what is remembered
	keyRefuses
)

const answerLost = "the call with this idempotency key was carried out, but its answer is not to be had any more; read what has become of it"

// judgeKey decides by what is known of the key.
func judgeKey(st *db.KeyState, hash [32]byte) (keyVerdict, *UserError) {
	switch {
	case st.Ours:
		return keyRuns, nil
	case !bytes.Equal(st.Hash, hash[:]):
		return keyRefuses, keyError(Conflict, "this idempotency key was used for another call; use a new one")
	case st.Answer != nil && len(st.Answer.Ciphertext) > 0:
		return keyAnswers, nil
	case st.Answer != nil, st.Ran && st.Over:
		return keyRefuses, keyError(Conflict, answerLost)
	}
	return keyWaits, nil
}

func keyError(code UserErrorCode, message string) *UserError {
	e := userError(code, []string{"input", "idempotencyKey"}, "%s", message)
	return &e
}

// run runs a claimed call and remembers what it came to.
func (i *Idempotency) run(ctx context.Context, c db.KeyedCall, run func(context.Context) (Answer, error)) error {
	kept := false
	defer func() {
		if !kept { // it failed, or panics right now
			i.forget(ctx, c)
		}
	}()
	answer, err := run(db.UnderKey(ctx, c))
	if err != nil {
		return err
	}
	if err := i.keep(ctx, c, answer); err != nil {
		// The caller has its answer; only who repeats the call will not.
		i.Log.Warn("the answer to a call with an idempotency key is not remembered", "operation", c.Operation, "error", err)
		return nil
	}
	kept = true
	return nil
}

func (i *Idempotency) keep(ctx context.Context, c db.KeyedCall, a Answer) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), keepTime)
	defer cancel()
	sealed, err := i.seal(a, c)
	if err != nil {
		return err
	}
	return i.Store.KeepAnswer(ctx, c, sealed)
}

// forget frees the key of a call that has changed nothing. One that has stays,
// without an answer.
func (i *Idempotency) forget(ctx context.Context, c db.KeyedCall) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), keepTime)
	defer cancel()
	err := i.Store.ReleaseKey(ctx, c)
	if err == nil {
		err = i.Store.KeepAnswer(ctx, c, noAnswer)
	}
	if err != nil && !errors.Is(err, db.ErrKeyLost) { // the lease ends it
		i.Log.Warn("an idempotency key was not released", "operation", c.Operation, "error", err)
	}
}

// noAnswer is kept for a call whose answer is not to be had.
var noAnswer = secret.Sealed{Ciphertext: []byte{}}

// seal is the answer as it is kept. Without a key-encryption key, one that
// shows a secret is not.
func (i *Idempotency) seal(a Answer, c db.KeyedCall) (secret.Sealed, error) {
	switch {
	case !i.Keys.Empty():
		return i.Keys.Seal(i.Random, secret.New(a.Bytes), binding(c.Tenant, c.ID))
	case a.Secret:
		return noAnswer, nil
	}
	return secret.Sealed{Ciphertext: a.Bytes}, nil
}

// open is the answer that is remembered, or that its key is gone.
func (i *Idempotency) open(st *db.KeyState, tenant hub.TenantID) ([]byte, *UserError, error) {
	if st.Answer.KeyID == "" {
		return st.Answer.Ciphertext, nil, nil
	}
	plain, err := i.Keys.Open(*st.Answer, binding(tenant, st.ID))
	var unknown *secret.UnknownKeyError
	switch {
	case errors.Is(err, secret.ErrNoKey), errors.As(err, &unknown):
		return nil, keyError(Conflict, answerLost), nil
	case err != nil:
		return nil, nil, err
	}
	return plain.Reveal(), nil, nil
}

func binding(t hub.TenantID, call hub.ID) secret.Binding {
	return secret.Binding{Tenant: t, Row: call, Version: 1}
}
