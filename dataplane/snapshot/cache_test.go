package snapshot

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/streaming-hub/streaming-hub/db"
	"github.com/streaming-hub/streaming-hub/hub"
	"github.com/streaming-hub/streaming-hub/hub/hubtest"
	"github.com/streaming-hub/streaming-hub/hub/secret"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// memoryStore holds configurations and counts how often they are read.
type memoryStore struct {
	mu      sync.Mutex
	configs map[hub.TenantID]*db.TenantConfig
	err     error
	loads   int
	asks    int
	// held, if any, delays the answer of a load that has been made up.
	held chan struct{}
}

func (s *memoryStore) TenantConfigs(_ context.Context, ids []hub.TenantID) (map[hub.TenantID]*db.TenantConfig, error) {
	s.mu.Lock()
	s.loads++
	found, err, held := map[hub.TenantID]*db.TenantConfig{}, s.err, s.held
	for _, id := range ids {
		if c := s.configs[id]; c != nil {
			config := *c
			found[id] = &config
		}
	}
	s.mu.Unlock()
	if held != nil {
		<-held
	}
	return found, err
}

func (s *memoryStore) ConfigVersions(_ context.Context, ids []hub.TenantID) (map[hub.TenantID]int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asks++
	versions := map[hub.TenantID]int64{}
	for _, id := range ids {
		if c := s.configs[id]; c != nil {
			versions[id] = c.Version
		}
	}
	return versions, s.err
}

func (s *memoryStore) reads() (loads, asks int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.loads, s.asks
}

// scene is a cache over a store with one tenant, one subscription and one
// destination.
type scene struct {
	*Cache
	store   *memoryStore
	keyring *secret.Keyring
	sub     hub.SubscriptionID
	dest    hub.DestinationID
	log     *bytes.Buffer
}

func newScene(t *testing.T, change func(d *Deps)) *scene {
	t.Helper()
	keyring, err := secret.ParseKeyring("k:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=")
	if err != nil {
		t.Fatal(err)
	}
	id := hubtest.NewID
	s := &scene{keyring: keyring, sub: hub.SubscriptionID{ID: id()}, dest: hub.DestinationID{ID: id()}, log: &bytes.Buffer{}}
	s.store = &memoryStore{configs: map[hub.TenantID]*db.TenantConfig{"acme": {
		Tenant: "acme", Version: 3,
		Subscriptions: []hub.EventSubscription{{
			ID: s.sub, Tenant: "acme", Destination: s.dest, Kind: hub.SinkWebhook, Enabled: true,
			VerificationState: hub.VerificationActive, EventTypes: []string{"loan.*"},
		}},
		Destinations: map[hub.DestinationID]db.DestinationConfig{s.dest: {
			Destination: hub.Destination{ID: s.dest, Tenant: "acme", Kind: hub.SinkWebhook, URL: "https://example.com/"},
		}},
	}}}
	d := Deps{Store: s.store, Keyring: keyring, Now: time.Now, Log: slog.New(slog.NewTextHandler(s.log, nil))}
	if change != nil {
		change(&d)
	}
	s.Cache = New(d)
	return s
}

// keys gives the destination these secrets, the newest first; a zero time is
// the current one.
func (s *scene) keys(t *testing.T, ends ...time.Time) {
	t.Helper()
	dest := s.store.configs["acme"].Destinations[s.dest]
	dest.Secrets = nil
	for i, end := range ends {
		binding := secret.Binding{Tenant: "acme", Row: hubtest.NewID(), Version: int32(len(ends) - i)}
		_, key := secret.NewSigning(rand.Reader)
		sealed, err := s.keyring.Seal(rand.Reader, key, binding)
		if err != nil {
			t.Fatal(err)
		}
		dest.Secrets = append(dest.Secrets, db.SealedSecret{Sealed: sealed, Binding: binding, NotAfter: end})
	}
	s.store.configs["acme"].Destinations = map[hub.DestinationID]db.DestinationConfig{s.dest: dest}
}

func (s *scene) get(t *testing.T) *Tenant {
	t.Helper()
	tenants, err := s.Get(t.Context(), []hub.TenantID{"acme"})
	if err != nil {
		t.Fatal(err)
	}
	return tenants["acme"]
}

func (s *scene) at(t *testing.T, version int64) *Tenant {
	t.Helper()
	tenants, err := s.AtVersion(t.Context(), map[hub.TenantID]int64{"acme": version})
	if err != nil {
		t.Fatal(err)
	}
	return tenants["acme"]
}

func TestCache_versions(t *testing.T) {
	t.Run("what_is_here_is_not_read_again", func(t *testing.T) {
		s := newScene(t, nil)
		for range 3 {
			if got := s.get(t); got.Version != 3 || got.ID != "acme" {
				t.Errorf("tenant = %+v", got)
			}
			s.at(t, 3)
			s.at(t, 2) // older than what is here: newer is right
		}
		if s.store.loads != 1 {
			t.Errorf("%d loads, want 1", s.store.loads)
		}
	})
	t.Run("a_newer_version_is_read_before_it_is_used", func(t *testing.T) {
		s := newScene(t, nil)
		old := s.get(t)
		s.store.configs["acme"].Version, s.store.configs["acme"].Subscriptions = 4, nil
		if got := s.get(t); got != old {
			t.Error("Get went to the database for a tenant that is here")
		}
		if got := s.at(t, 4); got.Version != 4 || got.Route(s.sub) != nil {
			t.Errorf("version %d with route %v", got.Version, got.Route(s.sub))
		}
		if got := s.get(t); got.Version != 4 {
			t.Errorf("Get gives version %d afterwards", got.Version)
		}
		if old.Route(s.sub) == nil {
			t.Error("the old version changed in somebody's hands")
		}
	})
	t.Run("unknown_tenant_wants_nothing", func(t *testing.T) {
		s := newScene(t, nil)
		tenants, err := s.Get(t.Context(), []hub.TenantID{"nobody", "acme"})
		if err != nil {
			t.Fatal(err)
		}
		ev := hub.Event{Tenant: "nobody", ResourceType: "loan", EventType: "approved"}
		if got := tenants["nobody"]; got == nil || got.Version != 0 || got.Route(s.sub) != nil || len(got.Index.Match(&ev, nil)) != 0 {
			t.Errorf("nobody = %+v", got)
		}
		ev.Tenant = "acme"
		if got := tenants["acme"].Index.Match(&ev, nil); len(got) != 1 || got[0].ID != s.sub {
			t.Errorf("acme matches %v", got)
		}
	})
	t.Run("a_slow_load_does_not_bring_an_old_version_back", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := newScene(t, nil)
			held := make(chan struct{})
			s.store.held = held
			slow := make(chan *Tenant)
			go func() { slow <- s.get(t) }() // has read version 3, and stands still
			synctest.Wait()
			s.store.mu.Lock()
			s.store.held = nil
			s.store.configs["acme"].Version = 4
			s.store.mu.Unlock()
			s.at(t, 4)
			close(held)
			if got := <-slow; got.Version != 4 {
				t.Errorf("the slow load gives version %d", got.Version)
			}
			if got := s.get(t); got.Version != 4 {
				t.Errorf("the cache went back to version %d", got.Version)
			}
		})
	})
	t.Run("database_away_is_said", func(t *testing.T) {
		s := newScene(t, nil)
		s.store.err = errors.New("away")
		if _, err := s.Get(t.Context(), []hub.TenantID{"acme"}); !errors.Is(err, s.store.err) {
			t.Errorf("Get = %v", err)
		}
		s.store.err = nil
		s.get(t)
		s.store.err = errors.New("away")
		s.get(t) // known: dispatch goes on
		if _, err := s.AtVersion(t.Context(), map[hub.TenantID]int64{"acme": 4}); err == nil {
			t.Error("ingest matched by an old version")
		}
	})
}

func TestCache_Run(t *testing.T) {
	// run is a cache that refreshes itself in fake time.
	run := func(t *testing.T, test func(t *testing.T, s *scene)) {
		synctest.Test(t, func(t *testing.T) {
			s := newScene(t, nil)
			ctx, stop := context.WithCancel(t.Context())
			done := make(chan error)
			go func() { done <- s.Run(ctx) }()
			defer func() {
				stop()
				if err := <-done; err != nil {
					t.Errorf("Run = %v", err)
				}
			}()
			test(t, s)
		})
	}
	after := func(d time.Duration) {
		time.Sleep(d)
		synctest.Wait()
	}
	t.Run("a_change_is_here_within_a_second", func(t *testing.T) {
		run(t, func(t *testing.T, s *scene) {
			s.get(t)
			s.store.mu.Lock()
			s.store.configs["acme"].Version = 4
			s.store.mu.Unlock()
			after(refreshEvery)
			if got := s.get(t); got.Version != 4 {
				t.Errorf("version %d", got.Version)
			}
			loads, _ := s.store.reads()
			after(10 * time.Second)
			if again, _ := s.store.reads(); again != loads {
				t.Error("an unchanged tenant was read again")
			}
		})
	})
	t.Run("old_keys_leave_when_their_overlap_ends", func(t *testing.T) {
		run(t, func(t *testing.T, s *scene) {
			s.keys(t, time.Time{}, time.Now().Add(5*time.Second), time.Now().Add(time.Hour))
			if got := s.get(t).Route(s.sub).Signer.Keys(); got != 3 {
				t.Errorf("%d keys sign, want 3", got)
			}
			after(4 * time.Second)
			if got := s.get(t).Route(s.sub).Signer.Keys(); got != 3 {
				t.Errorf("%d keys sign before the end, want 3", got)
			}
			after(2 * time.Second)
			if got := s.get(t).Route(s.sub).Signer.Keys(); got != 2 {
				t.Errorf("%d keys sign after the end, want 2", got)
			}
			loads, _ := s.store.reads()
			after(time.Minute)
			if again, _ := s.store.reads(); again != loads {
				t.Errorf("%d loads in a minute in which no key ended", again-loads)
			}
			for range 60 { // in use, so not forgotten
				after(time.Minute)
				s.get(t)
			}
			if got := s.get(t).Route(s.sub).Signer.Keys(); got != 1 {
				t.Errorf("%d keys sign after an hour, want the current one", got)
			}
		})
	})
	t.Run("database_away_goes_on_with_what_is_known", func(t *testing.T) {
		run(t, func(t *testing.T, s *scene) {
			known := s.get(t)
			s.store.mu.Lock()
			s.store.err = errors.New("away")
			s.store.mu.Unlock()
			after(5 * time.Second)
			if s.get(t) != known {
				t.Error("what was known is gone")
			}
		})
	})
	t.Run("who_is_not_asked_for_is_forgotten", func(t *testing.T) {
		run(t, func(t *testing.T, s *scene) {
			s.get(t)
			after(forgetAfter + 2*refreshEvery)
			_, asks := s.store.reads()
			after(time.Minute)
			if _, again := s.store.reads(); again != asks {
				t.Errorf("asked for %d times when nobody wants it", again-asks)
			}
		})
	})
}
