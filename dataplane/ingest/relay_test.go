package ingest

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/streaming-hub/streaming-hub/dataplane/snapshot"
	"github.com/streaming-hub/streaming-hub/db"
	"github.com/streaming-hub/streaming-hub/hub"
	"github.com/streaming-hub/streaming-hub/hub/hubtest"
	"github.com/streaming-hub/streaming-hub/hub/secret"
	"github.com/streaming-hub/streaming-hub/hub/wire"
)

// memoryFeed is the notable part of a live feed.
type memoryFeed struct {
	mu    sync.Mutex
	rows  []db.FeedRow
	place db.FeedPlace
	stuck bool // MoveRelay fails: the process dies before it
}

func (f *memoryFeed) tell(items ...db.FeedItem) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rows = append(f.rows, db.FeedRow{
		Place: db.FeedPlace{Xid: uint64(len(f.rows) + 1), Row: hubtest.NewID()}, Lines: db.FeedLines(items),
	})
}

func (f *memoryFeed) RelayPlace(context.Context, string) (db.FeedPlace, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.place, nil
}

func (f *memoryFeed) NotableFeedRows(_ context.Context, after db.FeedPlace, limit int) (rows []db.FeedRow, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, r := range f.rows {
		if r.Place.Xid > after.Xid && len(rows) < limit {
			rows = append(rows, r)
		}
	}
	return rows, nil
}

func (f *memoryFeed) MoveRelay(_ context.Context, _ string, to db.FeedPlace) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.stuck {
		return fmt.Errorf("the database is away")
	}
	f.place = to
	return nil
}

// nobodyWishes is a configuration without subscriptions.
type nobodyWishes struct{ oneWish }

func (nobodyWishes) TenantConfigs(context.Context, []hub.TenantID) (map[hub.TenantID]*db.TenantConfig, error) {
	return map[hub.TenantID]*db.TenantConfig{}, nil
}

func relaying(t *testing.T, inbox *memoryInbox, configs snapshot.Store) *Consumer {
	t.Helper()
	keyring, err := secret.ParseKeyring("k:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=")
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	return NewConsumer(Deps{
		Rules: wire.DefaultRules(), Inbox: inbox, Pool: &countingPool{}, Writers: 1, BatchRecords: 100,
		Tenants: snapshot.New(snapshot.Deps{Store: configs, Keyring: keyring, Now: time.Now, Log: log}),
		Now:     time.Now, Random: rand.Reader, Jitter: func() float64 { return 0 },
		Metrics: NewMetrics(prometheus.NewRegistry()), Log: log,
	})
}

func TestRelay(t *testing.T) {
	disabled := func(tenant hub.TenantID) db.FeedItem {
		return db.FeedItem{Notice: &hub.Notice{
			Kind: hub.NoticeAutoDisabled, At: time.Now(), Tenant: tenant,
			Subscription: hub.SubscriptionID{ID: hub.ID{1}}, Destination: hub.DestinationID{ID: hub.ID{2}},
		}}
	}
	outcome := func(tenant hub.TenantID, state hub.State, test bool) db.FeedItem {
		return db.FeedItem{
			Tenant: tenant, State: state, Test: test, DeadReason: hub.DeadExhausted, Number: 8,
			Delivery: hub.DeliveryID{ID: hub.ID{3}}, StartedMicros: time.Now().UnixMicro(),
		}
	}
	types := func(m *memoryInbox) (list []string) {
		m.mu.Lock()
		defer m.mu.Unlock()
		for _, e := range m.events {
			if e.Tenant != hub.HubTenant {
				t.Errorf("an event of tenant %s", e.Tenant)
			}
			list = append(list, e.Key())
		}
		return list
	}
	t.Run("tells_what_happened_and_nothing_of_itself", func(t *testing.T) {
		inbox, feed := newInbox(), &memoryFeed{}
		feed.tell(disabled("acme"), outcome("acme", hub.Delivered, false), outcome("acme", hub.Dead, false), outcome("acme", hub.Dead, true))
		feed.tell(disabled(hub.HubTenant), outcome(hub.HubTenant, hub.Dead, false))
		c := relaying(t, inbox, oneWish{})
		if err := c.relayAll(t.Context(), feed); err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(types(inbox)); got != "[event_subscription.auto_disabled delivery.dead_lettered]" {
			t.Errorf("events = %s", got)
		}
		if feed.place != feed.rows[1].Place {
			t.Errorf("the relay stands at %+v", feed.place)
		}
	})
	t.Run("tells_it_once_whoever_relays_and_dies", func(t *testing.T) {
		inbox, feed := newInbox(), &memoryFeed{stuck: true}
		feed.tell(disabled("acme"))
		one, two := relaying(t, inbox, oneWish{}), relaying(t, inbox, oneWish{})
		if err := one.relayAll(t.Context(), feed); err == nil {
			t.Fatal("the place was noted")
		}
		feed.stuck = false
		if err := two.relayAll(t.Context(), feed); err != nil {
			t.Fatal(err)
		}
		if got := types(inbox); len(got) != 1 {
			t.Errorf("events = %v", got)
		}
	})
	t.Run("dead_letters_make_events_only_for_somebody", func(t *testing.T) {
		inbox, feed := newInbox(), &memoryFeed{}
		feed.tell(outcome("acme", hub.Dead, false), disabled("acme"))
		if err := relaying(t, inbox, nobodyWishes{}).relayAll(t.Context(), feed); err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(types(inbox)); got != "[event_subscription.auto_disabled]" {
			t.Errorf("events = %s", got)
		}
	})
}
