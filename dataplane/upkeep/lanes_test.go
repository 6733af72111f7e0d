package upkeep

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/streaming-hub/streaming-hub/dataplane/snapshot"
	"github.com/streaming-hub/streaming-hub/db"
	"github.com/streaming-hub/streaming-hub/hub"
)

// memoryLanes is a queue in which some deliveries have no last attempt, and a
// list of chores.
type memoryLanes struct {
	mu        sync.Mutex
	began     time.Time
	chores    int
	chored    []time.Duration // when it was asked for chores
	ended     db.Dead         // what became of the delivery of a chore
	refuse    error           // chores
	refuseFix error
	waiting   []hub.Delivery // without a last attempt, by id
	fixed     map[hub.DeliveryID]time.Time
	read      []time.Duration // when the first page of a walk was read
	after     []hub.DeliveryID
	forgets   int
	frozen    []db.StoredRate
	lane      int // deliveries in the lanes of frozen destinations
	held      int // of the subscription that EndHeld was asked about last
	heldOf    hub.SubscriptionID
	heldSince time.Time
	expired   int // waiting past the retention
	expiredAt time.Time
	ends      []db.Dead
}

func (m *memoryLanes) RatesNotActive(context.Context, int) ([]db.StoredRate, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.frozen, nil
}

func (m *memoryLanes) HoldLane(_ context.Context, _ db.Lane, limit int) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := min(limit, m.lane)
	m.lane -= n
	return n, nil
}

func (m *memoryLanes) EndHeld(_ context.Context, sub hub.SubscriptionID, since time.Time, limit int, _ hub.ID, ending func(hub.Delivery) db.Dead) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := min(limit, m.held)
	m.held -= n
	m.heldOf, m.heldSince = sub, since
	m.ends = append(m.ends, ending(hub.Delivery{Subscription: sub}))
	return n, nil
}

func (m *memoryLanes) ExpireWaiting(_ context.Context, made time.Time, limit int, _ hub.ID, ending func(hub.Delivery) db.Dead) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := min(limit, m.expired)
	m.expired -= n
	m.expiredAt = made
	m.ends = append(m.ends, ending(hub.Delivery{}))
	return n, nil
}

func (m *memoryLanes) ForgetIdempotencyKeys(context.Context, time.Time) (int, error) { return 0, nil }

func (m *memoryLanes) DoChore(_ context.Context, batch int, feedID hub.ID, ending func(hub.Delivery) db.Dead) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.chored = append(m.chored, time.Since(m.began))
	if m.refuse != nil {
		return false, m.refuse
	}
	if m.chores == 0 {
		return false, nil
	}
	m.chores--
	m.ended = ending(hub.Delivery{ID: hub.DeliveryID{ID: feedID}, Attempts: int32(batch)})
	return true, nil
}

func (m *memoryLanes) StaleLasts(_ context.Context, after hub.DeliveryID, made time.Time, limit int) ([]hub.Delivery, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.read, m.after = append(m.read, time.Since(m.began)), append(m.after, after)
	var list []hub.Delivery
	for _, d := range m.waiting {
		_, fixed := m.fixed[d.ID]
		if !fixed && bytes.Compare(d.ID.ID[:], after.ID[:]) > 0 && d.ID.Time().Before(made) {
			list = append(list, d)
		}
	}
	slices.SortFunc(list, func(a, b hub.Delivery) int { return bytes.Compare(a.ID.ID[:], b.ID.ID[:]) })
	return list[:min(limit, len(list))], nil
}

func (m *memoryLanes) FixLasts(_ context.Context, ids []hub.DeliveryID, from []time.Time) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.refuseFix != nil {
		return m.refuseFix
	}
	for i, id := range ids {
		m.fixed[id] = from[i]
	}
	return nil
}

func (m *memoryLanes) ForgetSlots(context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.forgets++
	return nil
}

// do changes or reads the queue.
func (m *memoryLanes) do(change func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	change()
}

// policies is a tenant whose subscriptions have these policies.
type policies map[hub.SubscriptionID]hub.RetryPolicy

func (p policies) TenantConfigs(_ context.Context, ids []hub.TenantID) (map[hub.TenantID]*db.TenantConfig, error) {
	found := map[hub.TenantID]*db.TenantConfig{}
	for _, id := range ids {
		c := &db.TenantConfig{Tenant: id}
		for sub, policy := range p {
			dest := hub.DestinationID{ID: sub.ID} // each has its own
			c.Subscriptions = append(c.Subscriptions, hub.EventSubscription{ID: sub, Tenant: id, Destination: dest, RetryPolicy: policy})
			if c.Destinations == nil {
				c.Destinations = map[hub.DestinationID]db.DestinationConfig{}
			}
			c.Destinations[dest] = db.DestinationConfig{Destination: hub.Destination{ID: dest, Tenant: id}}
		}
		found[id] = c
	}
	return found, nil
}

func (p policies) ConfigVersions(context.Context, []hub.TenantID) (map[hub.TenantID]int64, error) {
	return nil, nil
}

// lanesBubble runs Lanes over a queue in fake time.
func lanesBubble(t *testing.T, known policies, fill func(m *memoryLanes), test func(t *testing.T, m *memoryLanes, l *Lanes, log *bytes.Buffer)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		quiet := slog.New(slog.DiscardHandler)
		m, log := &memoryLanes{began: time.Now(), fixed: map[hub.DeliveryID]time.Time{}}, &bytes.Buffer{}
		if fill != nil {
			fill(m)
		}
		l := &Lanes{
			Store: m, Tenants: snapshot.New(snapshot.Deps{Store: known, Now: time.Now, Log: quiet}),
			Now: time.Now, Random: rand.Reader, Log: slog.New(slog.NewTextHandler(log, nil)),
		}
		l.Register(prometheus.NewRegistry())
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- l.Run(ctx) }()
		test(t, m, l, log)
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run = %v", err)
		}
	})
}

// pass lets time go by, and all that is due then happen.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func TestLanes_chores(t *testing.T) {
	const ms = time.Millisecond
	t.Run("are_done_until_none_is_left_and_then_asked_for_twice_a_second", func(t *testing.T) {
		lanesBubble(t, nil, nil, func(t *testing.T, m *memoryLanes, l *Lanes, log *bytes.Buffer) {
			m.do(func() { m.chores = 5 })
			pass(1600 * ms)
			m.do(func() {
				want := []time.Duration{500 * ms, 500 * ms, 500 * ms, 500 * ms, 500 * ms, 500 * ms, 1000 * ms, 1500 * ms}
				if diff := cmp.Diff(want, m.chored); diff != "" || m.chores != 0 {
					t.Errorf("%d chores are left; asked at %s", m.chores, diff)
				}
				if m.ended.Reason != hub.DeadSubscriptionDeleted || m.ended.Text == "" || len(m.ended.Fingerprint) != 16 ||
					m.ended.ID.IsZero() || m.ended.Delivery.Attempts != choreBatch {
					t.Errorf("the delivery of a deleted subscription ends as %+v", m.ended)
				}
			})
			if n := testutil.ToFloat64(l.moved); n != 5 {
				t.Errorf("%v steps are counted", n)
			}
		})
	})
	t.Run("an_error_is_said_once_and_tried_again", func(t *testing.T) {
		lanesBubble(t, nil, nil, func(t *testing.T, m *memoryLanes, l *Lanes, log *bytes.Buffer) {
			m.do(func() { m.chores, m.refuse = 3, errors.New("disk is full") })
			pass(10*time.Minute + 100*ms) // the other work goes on and does not make it news again
			m.do(func() {
				if len(m.chored) != 1200 {
					t.Errorf("tried %d times in ten minutes", len(m.chored))
				}
				m.refuse = nil
			})
			pass(time.Second)
			m.do(func() {
				if m.chores != 0 {
					t.Errorf("%d chores are left", m.chores)
				}
				m.refuse = errors.New("disk is full")
			})
			pass(time.Minute)
			if n := strings.Count(log.String(), "disk is full"); n != 2 {
				t.Errorf("said %d times for two failures:\n%s", n, log)
			}
		})
	})
}
