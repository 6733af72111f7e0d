package db_test

import (
	"errors"
	"testing"
	"time"

	"github.com/streaming-hub/streaming-hub/db"
	"github.com/streaming-hub/streaming-hub/hub"
	"github.com/streaming-hub/streaming-hub/hub/secret"
)

var keyRules = db.KeyRules{KeptFor: 24 * time.Hour, Lease: time.Minute}

func keyed(actor hub.TokenID, key string) db.KeyedCall {
	return db.KeyedCall{Actor: actor, Tenant: "acme", Key: key, Operation: "redeliver", ID: newID()}
}

func (l *lab) claimKey(c db.KeyedCall) db.KeyState {
	l.Helper()
	st, err := l.db.ClaimKey(l.Context(), c, make([]byte, 32), keyRules)
	if err != nil {
		l.Fatal(err)
	}
	return st
}

func TestClaimKey(t *testing.T) {
	l := newLab(t)
	actor := hub.TokenID{ID: newID()}
	first := keyed(actor, "k")
	if st := l.claimKey(first); !st.Ours {
		t.Fatalf("%+v", st)
	}
	t.Run("a_second_call_waits", func(t *testing.T) {
		if st := l.claimKey(keyed(actor, "k")); st.Ours || st.Answer != nil || st.Ran || st.Over {
			t.Errorf("%+v", st)
		}
	})
	t.Run("keys_of_others_are_others", func(t *testing.T) {
		other := keyed(actor, "k")
		other.Tenant = "beta"
		if a, b, c := l.claimKey(keyed(hub.TokenID{ID: newID()}, "k")), l.claimKey(other), l.claimKey(keyed(actor, "K")); !a.Ours || !b.Ours || !c.Ours {
			t.Errorf("%+v %+v %+v", a, b, c)
		}
	})
	t.Run("an_answer_is_found", func(t *testing.T) {
		if err := l.db.KeepAnswer(t.Context(), first, secret.Sealed{KeyID: "one", WrappedKey: []byte{1}, Ciphertext: []byte{2}}); err != nil {
			t.Fatal(err)
		}
		st := l.claimKey(keyed(actor, "k"))
		if st.Ours || st.Answer == nil || st.Answer.KeyID != "one" || st.ID != first.ID || len(st.Hash) != 32 {
			t.Errorf("%+v", st)
		}
	})
	t.Run("it_is_forgotten_after_its_time", func(t *testing.T) {
		l.exec(`UPDATE idempotency_keys SET created_at = now() - interval '23:59:00' WHERE key = 'k'`)
		if st := l.claimKey(keyed(actor, "k")); st.Ours {
			t.Error("a minute too early")
		}
		l.exec(`UPDATE idempotency_keys SET created_at = now() - interval '24:00:01' WHERE key = 'k'`)
		if st := l.claimKey(keyed(actor, "k")); !st.Ours {
			t.Error("not forgotten")
		}
		if err := l.db.KeepAnswer(t.Context(), first, secret.Sealed{Ciphertext: []byte{1}}); !errors.Is(err, db.ErrKeyLost) {
			t.Errorf("an answer of the call before: %v", err)
		}
	})
	t.Run("a_released_key_is_free", func(t *testing.T) {
		c := keyed(actor, "r")
		l.claimKey(c)
		if err := l.db.ReleaseKey(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		if st := l.claimKey(keyed(actor, "r")); !st.Ours {
			t.Errorf("%+v", st)
		}
	})
}

// revokeUnder changes something, with its audit entry, in a claimed call.
func (l *lab) revokeUnder(c db.KeyedCall) error {
	l.Helper()
	token := hub.APIToken{ID: hub.TokenID{ID: newID()}, Tenant: "acme", Name: "x", Role: hub.Viewer, CreatedAt: time.Now()}
	return l.db.CreateTokenBy(db.UnderKey(l.Context(), c), token, db.AuditEntry{ID: newID(), Tenant: "acme", Action: "create_api_token"})
}

func TestClaimKey_of_a_process_that_is_gone(t *testing.T) {
	l := newLab(t)
	actor := hub.TokenID{ID: newID()}
	idle, changed := keyed(actor, "idle"), keyed(actor, "changed")
	l.claimKey(idle)
	l.claimKey(changed)
	if err := l.revokeUnder(changed); err != nil {
		t.Fatal(err)
	}
	l.exec(`UPDATE idempotency_keys SET created_at = now() - interval '61 seconds'`)
	t.Run("what_changed_nothing_runs_again", func(t *testing.T) {
		if st := l.claimKey(keyed(actor, "idle")); !st.Ours {
			t.Errorf("%+v", st)
		}
	})
	t.Run("what_changed_something_never_does", func(t *testing.T) {
		if st := l.claimKey(keyed(actor, "changed")); st.Ours || !st.Ran || !st.Over {
			t.Errorf("%+v", st)
		}
		if err := l.db.ReleaseKey(t.Context(), changed); err != nil {
			t.Fatal(err)
		}
		if st := l.claimKey(keyed(actor, "changed")); st.Ours {
			t.Error("it was released")
		}
	})
	t.Run("a_late_one_changes_nothing", func(t *testing.T) {
		before := l.count(`SELECT count(*) FROM api_tokens`)
		if err := l.revokeUnder(idle); !errors.Is(err, db.ErrKeyLost) {
			t.Errorf("%v", err)
		}
		l.wantCount("tokens", before, `SELECT count(*) FROM api_tokens`)
	})
}

func TestForgetIdempotencyKeys(t *testing.T) {
	l := newLab(t)
	l.exec(`INSERT INTO idempotency_keys (actor_id, tenant_id, key, operation, request_hash, id, created_at)
		SELECT gen_random_uuid(), 'acme', n::text, 'x', decode(repeat('00', 32), 'hex'), gen_random_uuid(), now() - n * interval '1 minute' FROM generate_series(0, 2500) n`)
	n, err := l.db.ForgetIdempotencyKeys(t.Context(), time.Now().Add(-100*time.Minute+time.Second))
	if err != nil || n != 2401 {
		t.Errorf("%d, %v", n, err)
	}
	l.wantCount("kept", 100, `SELECT count(*) FROM idempotency_keys`)
}
