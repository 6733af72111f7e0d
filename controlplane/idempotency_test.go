package controlplane

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/streaming-hub/streaming-hub/db"
	"github.com/streaming-hub/streaming-hub/hub"
	"github.com/streaming-hub/streaming-hub/hub/secret"
)

func TestJudgeKey(t *testing.T) {
	hash, other := [32]byte{1}, [32]byte{2}
	answer := &secret.Sealed{Ciphertext: []byte("x")}
	for _, c := range []struct {
		name string
		st   db.KeyState
		want keyVerdict
		says string
	}{
		{"claimed", db.KeyState{Ours: true}, keyRuns, ""},
		{"answered", db.KeyState{Hash: hash[:], Ran: true, Answer: answer}, keyAnswers, ""},
		{"answered_without_a_change", db.KeyState{Hash: hash[:], Answer: answer}, keyAnswers, ""},
		{"under_way", db.KeyState{Hash: hash[:]}, keyWaits, ""},
		{"under_way_and_has_changed_something", db.KeyState{Hash: hash[:], Ran: true}, keyWaits, ""},
		{"over_without_a_change", db.KeyState{Hash: hash[:], Over: true}, keyWaits, ""}, // until it is claimed
		{"over_with_a_change", db.KeyState{Hash: hash[:], Ran: true, Over: true}, keyRefuses, "was carried out"},
		{"answer_not_kept", db.KeyState{Hash: hash[:], Ran: true, Answer: &secret.Sealed{Ciphertext: []byte{}}}, keyRefuses, "was carried out"},
		{"another_body", db.KeyState{Hash: other[:], Ran: true, Answer: answer}, keyRefuses, "used for another call"},
		{"another_body_under_way", db.KeyState{Hash: other[:]}, keyRefuses, "used for another call"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, refused := judgeKey(&c.st, hash)
			if got != c.want || (refused != nil) != (c.says != "") || refused != nil && (!strings.Contains(refused.Message, c.says) || refused.Code != Conflict) {
				t.Errorf("%d, %v", got, refused)
			}
		})
	}
}

// keyShelf is a KeyStore in memory, by the clock of the test.
type keyShelf struct {
	mu   sync.Mutex
	rows map[string]*keyRow
	fail error // of KeepAnswer
}

type keyRow struct {
	db.KeyState
	since time.Time
}

func shelfKey(c db.KeyedCall) string { return c.Actor.String() + "|" + string(c.Tenant) + "|" + c.Key }

func (s *keyShelf) ClaimKey(_ context.Context, c db.KeyedCall, hash []byte, rules db.KeyRules) (db.KeyState, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	row, now := s.rows[shelfKey(c)], time.Now()
	if row == nil || now.Sub(row.since) > rules.KeptFor || row.Answer == nil && !row.Ran && now.Sub(row.since) > rules.Lease {
		s.rows[shelfKey(c)] = &keyRow{db.KeyState{Hash: hash, ID: c.ID}, now}
		return db.KeyState{Ours: true}, nil
	}
	st := row.KeyState
	st.Over = now.Sub(row.since) > rules.Lease
	return st, nil
}

func (s *keyShelf) KeepAnswer(_ context.Context, c db.KeyedCall, answer secret.Sealed) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fail != nil {
		return s.fail
	}
	row := s.rows[shelfKey(c)]
	if row == nil || row.ID != c.ID {
		return db.ErrKeyLost
	}
	row.Answer = &answer
	return nil
}

func (s *keyShelf) ReleaseKey(_ context.Context, c db.KeyedCall) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if row := s.rows[shelfKey(c)]; row != nil && row.ID == c.ID && !row.Ran && row.Answer == nil {
		delete(s.rows, shelfKey(c))
	}
	return nil
}

// ran marks all rows as if their calls had changed something.
func (s *keyShelf) ran() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, row := range s.rows {
		row.Ran = true
	}
}

func newIdempotency(t *testing.T, keys string) (*Idempotency, *keyShelf) {
	t.Helper()
	ring, err := secret.ParseKeyring(keys)
	if err != nil {
		t.Fatal(err)
	}
	shelf := &keyShelf{rows: map[string]*keyRow{}}
	return &Idempotency{Store: shelf, Keys: ring, TTL: 24 * time.Hour, Now: time.Now, Random: rand.Reader, Log: slog.New(slog.DiscardHandler)}, shelf
}

const oneKey = "one:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="

func answers(text string) func(context.Context) (Answer, error) {
	return func(context.Context) (Answer, error) { return Answer{Bytes: []byte(text), Secret: true}, nil }
}

func never(t *testing.T) func(context.Context) (Answer, error) {
	return func(context.Context) (Answer, error) {
		t.Error("it ran again")
		return Answer{}, nil
	}
}

var (
	caller   = Actor{Token: hub.TokenID{ID: hub.ID{1}}, Tenant: "acme", Role: hub.Admin}
	someCall = Call{Key: "k", Operation: "createApiToken", Hash: [32]byte{1}}
)

// Without a key, calls alike within half a second are clicks of one wish.
func TestOnce_clicks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i, _ := newIdempotency(t, oneKey)
		click := Call{Operation: "make", Hash: [32]byte{1}, Click: true}
		ran := 0
		run := func(context.Context) (Answer, error) {
			ran++
			time.Sleep(2 * time.Second) // longer than a double click takes
			return Answer{Bytes: []byte{byte(ran)}}, nil
		}
		ask := func(c Call, want int) {
			t.Helper()
			earlier, refused, err := i.Once(t.Context(), caller, c, run)
			if refused != nil || err != nil || ran != want {
				t.Errorf("%d ran, want %d; %v %v %v", ran, want, earlier, refused, err)
			}
		}
		first := make(chan struct{})
		go func() { defer close(first); ask(click, 1) }()
		synctest.Wait()
		time.Sleep(doubleClick)
		ask(click, 1) // waits for the first one, and is its second click still
		<-first
		ask(click, 2)
		other := click
		other.Hash[0] = 2
		ask(other, 3)
	})
}

func TestOnce(t *testing.T) {
	i, shelf := newIdempotency(t, oneKey)
	earlier, refused, err := i.Once(t.Context(), caller, someCall, answers("shub_secret"))
	if earlier != nil || refused != nil || err != nil {
		t.Fatalf("%s %v %v", earlier, refused, err)
	}
	t.Run("a_repeated_call_has_the_same_answer", func(t *testing.T) {
		earlier, refused, err := i.Once(t.Context(), caller, someCall, never(t))
		if string(earlier) != "shub_secret" || refused != nil || err != nil {
			t.Errorf("%s %v %v", earlier, refused, err)
		}
	})
	t.Run("which_rests_sealed", func(t *testing.T) {
		for _, row := range shelf.rows {
			if row.Answer.KeyID != "one" || bytes.Contains(row.Answer.Ciphertext, []byte("secret")) {
				t.Errorf("%+v", row.Answer)
			}
		}
	})
	t.Run("another_body_is_refused", func(t *testing.T) {
		other := someCall
		other.Hash = [32]byte{2}
		if _, refused, err := i.Once(t.Context(), caller, other, never(t)); refused == nil || refused.Code != Conflict || err != nil {
			t.Errorf("%v %v", refused, err)
		}
	})
	t.Run("keys_belong_to_actor_and_tenant", func(t *testing.T) {
		platform := Actor{Token: caller.Token, Role: hub.Admin}
		named := someCall
		named.Tenant = "beta"
		foreign := someCall
		foreign.Tenant = "beta" // means nothing from a tenant's actor
		ran := 0
		count := func(context.Context) (Answer, error) { ran++; return Answer{Bytes: []byte("x")}, nil }
		for _, c := range []struct {
			a Actor
			c Call
		}{{Actor{Token: hub.TokenID{ID: hub.ID{2}}, Tenant: "acme"}, someCall}, {platform, someCall}, {platform, named}, {platform, named}} {
			if _, refused, err := i.Once(t.Context(), c.a, c.c, count); refused != nil || err != nil {
				t.Errorf("%v %v", refused, err)
			}
		}
		if _, _, err := i.Once(t.Context(), caller, foreign, never(t)); err != nil || ran != 3 {
			t.Errorf("%d ran, %v", ran, err)
		}
	})
	t.Run("a_failed_call_can_be_repeated", func(t *testing.T) {
		failing := someCall
		failing.Key = "f"
		broken := errors.New("broken")
		if _, _, err := i.Once(t.Context(), caller, failing, func(context.Context) (Answer, error) { return Answer{}, broken }); !errors.Is(err, broken) {
			t.Errorf("%v", err)
		}
		if earlier, _, err := i.Once(t.Context(), caller, failing, answers("now")); earlier != nil || err != nil {
			t.Errorf("%s %v", earlier, err)
		}
		if earlier, _, _ := i.Once(t.Context(), caller, failing, never(t)); string(earlier) != "now" {
			t.Errorf("%s", earlier)
		}
	})
	t.Run("unless_it_had_changed_something", func(t *testing.T) {
		late := someCall
		late.Key = "l"
		_, _, err := i.Once(t.Context(), caller, late, func(context.Context) (Answer, error) { shelf.ran(); return Answer{}, errors.New("broken") })
		if err == nil {
			t.Fatal("no error")
		}
		if _, refused, err := i.Once(t.Context(), caller, late, never(t)); refused == nil || !strings.Contains(refused.Message, "was carried out") || err != nil {
			t.Errorf("%v %v", refused, err)
		}
	})
	t.Run("a_panic_releases_it", func(t *testing.T) {
		wild := someCall
		wild.Key = "p"
		func() {
			defer func() { _ = recover() }()
			_, _, _ = i.Once(t.Context(), caller, wild, func(context.Context) (Answer, error) { panic("wild") })
		}()
		if earlier, _, err := i.Once(t.Context(), caller, wild, answers("tame")); earlier != nil || err != nil {
			t.Errorf("%s %v", earlier, err)
		}
	})
	t.Run("1_to_200_characters_of_text", func(t *testing.T) {
		for key, good := range map[string]bool{"": false, strings.Repeat("é", 200): true, strings.Repeat("k", 201): false, "a\x00b": false, "\xff": false} {
			c := someCall
			c.Key = key
			if _, refused, err := i.Once(t.Context(), caller, c, answers("x")); (refused == nil) != good || err != nil {
				t.Errorf("%q: %v %v", key, refused, err)
			}
		}
	})
	t.Run("an_answer_that_cannot_be_kept_is_still_given", func(t *testing.T) {
		c := someCall
		c.Key = "away"
		shelf.fail = errors.New("away")
		defer func() { shelf.fail = nil }()
		if _, refused, err := i.Once(t.Context(), caller, c, answers("x")); refused != nil || err != nil {
			t.Errorf("%v %v", refused, err)
		}
	})
}

func TestOnce_calls_at_once_run_once(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i, _ := newIdempotency(t, oneKey)
		ran := 0
		slow := func(context.Context) (Answer, error) {
			ran++
			time.Sleep(30 * time.Second)
			return Answer{Bytes: []byte("one")}, nil
		}
		var wg sync.WaitGroup
		same := make(chan string, 5)
		for range cap(same) {
			wg.Go(func() {
				earlier, refused, err := i.Once(t.Context(), caller, someCall, slow)
				if refused != nil || err != nil {
					t.Errorf("%v %v", refused, err)
				}
				same <- string(earlier)
			})
		}
		wg.Wait()
		close(same)
		got := map[string]int{}
		for text := range same {
			got[text]++
		}
		if ran != 1 || got[""] != 1 || got["one"] != 4 {
			t.Errorf("%d ran, answers %v", ran, got)
		}
	})
}

func TestOnce_of_a_process_that_is_gone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i, shelf := newIdempotency(t, oneKey)
		shelf.rows[shelfKey(db.KeyedCall{Actor: caller.Token, Tenant: "acme", Key: "k"})] = &keyRow{db.KeyState{Hash: someCall.Hash[:]}, time.Now()}
		begun := time.Now()
		if earlier, refused, err := i.Once(t.Context(), caller, someCall, answers("mine")); earlier != nil || refused != nil || err != nil {
			t.Errorf("%s %v %v", earlier, refused, err)
		}
		if waited := time.Since(begun); waited < callLease || waited > callLease+slowestLook {
			t.Errorf("took it over after %s", waited)
		}
	})
	t.Run("a_caller_that_leaves_stops_waiting", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			i, shelf := newIdempotency(t, oneKey)
			shelf.rows[shelfKey(db.KeyedCall{Actor: caller.Token, Tenant: "acme", Key: "k"})] = &keyRow{db.KeyState{Hash: someCall.Hash[:]}, time.Now()}
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if _, _, err := i.Once(ctx, caller, someCall, never(t)); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%v", err)
			}
		})
	})
}

func TestOnce_without_a_key_encryption_key(t *testing.T) {
	i, _ := newIdempotency(t, "")
	open := func(context.Context) (Answer, error) { return Answer{Bytes: []byte("open")}, nil }
	if _, _, err := i.Once(t.Context(), caller, someCall, open); err != nil {
		t.Fatal(err)
	}
	if earlier, _, err := i.Once(t.Context(), caller, someCall, never(t)); string(earlier) != "open" || err != nil {
		t.Errorf("%s %v", earlier, err)
	}
	t.Run("an_answer_that_shows_a_secret_is_not_kept", func(t *testing.T) {
		c := someCall
		c.Key = "s"
		if _, _, err := i.Once(t.Context(), caller, c, answers("whsec_")); err != nil {
			t.Fatal(err)
		}
		if _, refused, err := i.Once(t.Context(), caller, c, never(t)); refused == nil || !strings.Contains(refused.Message, "was carried out") || err != nil {
			t.Errorf("%v %v", refused, err)
		}
	})
	t.Run("nor_readable_when_the_key_is_gone", func(t *testing.T) {
		sealed, shelf := newIdempotency(t, oneKey)
		if _, _, err := sealed.Once(t.Context(), caller, someCall, answers("x")); err != nil {
			t.Fatal(err)
		}
		i.Store = shelf
		if _, refused, err := i.Once(t.Context(), caller, someCall, never(t)); refused == nil || err != nil {
			t.Errorf("%v %v", refused, err)
		}
	})
}
