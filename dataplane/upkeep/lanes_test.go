package upkeep

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"maps"
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
	"github.com/streaming-hub/streaming-hub/hub/health"
	"github.com/streaming-hub/streaming-hub/hub/retry"
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

func TestLanes_fix_last_attempts(t *testing.T) {
	const h, day = time.Hour, 24 * time.Hour
	start := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC) // of fake time
	sub := func(n byte) hub.SubscriptionID { return hub.SubscriptionID{ID: hub.ID{n}} }
	known := policies{
		sub(1): {Kind: hub.RetryCurve},
		sub(2): {Kind: hub.RetrySchedule, StepsMillis: []int64{0, (10 * h).Milliseconds(), (10 * h).Milliseconds(), (10 * h).Milliseconds()}},
		sub(3): retry.Workfront(false),
		sub(4): {Kind: hub.RetrySchedule, StepsMillis: []int64{0, 1000}},
	}
	made := func(n byte, age time.Duration, change func(d *hub.Delivery)) hub.Delivery {
		at := start.Add(-age)
		d := hub.Delivery{
			ID: hub.DeliveryID{ID: hub.NewID(at, rand.Reader)}, Tenant: "acme", Subscription: sub(n),
			ReceivedAt: at, DueAt: at.Add(time.Second),
		}
		if change != nil {
			change(&d)
		}
		return d
	}

	t.Run("by_the_policy", func(t *testing.T) {
		rows := []struct {
			rule     string
			delivery hub.Delivery
			want     time.Duration // since the receipt; -1 for not fixed
		}{
			{"curve_24h_after_receipt", made(1, 25*h, nil), 24 * h},
			{"schedule_sum_of_its_steps", made(2, 25*h, nil), 30 * h},
			{"schedule_24h_at_least", made(4, 25*h, nil), 24 * h},
			{"schedule_by_number", made(4, 25*h, func(d *hub.Delivery) { d.RunAttempts = 1 }), time.Second},
			{"exponential_48h_after_the_first_failure", made(3, 25*h, func(d *hub.Delivery) { d.FirstFailedAt = d.ReceivedAt.Add(h) }), 49 * h},
			{"exponential_48h_after_the_skipped_try", made(3, 25*h, func(d *hub.Delivery) { d.DueAt = d.ReceivedAt.Add(2 * h) }), 50 * h},
			{"gone_subscription_is_skipped", made(9, 25*h, nil), -1},
			{"behind_a_gone_one_goes_on", made(1, 25*h-time.Second, nil), 24 * h},
			{"too_young", made(1, 23*h+50*time.Minute, nil), -1},
		}
		fill := func(m *memoryLanes) {
			for _, r := range rows {
				m.waiting = append(m.waiting, r.delivery)
			}
		}
		var fixed map[hub.DeliveryID]time.Time
		lanesBubble(t, known, fill, func(t *testing.T, m *memoryLanes, _ *Lanes, log *bytes.Buffer) {
			pass(time.Minute)
			m.do(func() { fixed = maps.Clone(m.fixed) })
			if log.Len() > 0 {
				t.Errorf("log: %s", log)
			}
		})
		for _, r := range rows {
			t.Run(r.rule, func(t *testing.T) {
				at, there := fixed[r.delivery.ID]
				if there != (r.want >= 0) || there && at.Sub(r.delivery.ReceivedAt) != r.want {
					t.Errorf("fixed %v, %v after the receipt", there, at.Sub(r.delivery.ReceivedAt))
				}
			})
		}
	})
	t.Run("walks_by_age_from_where_it_stood_and_once_an_hour_all", func(t *testing.T) {
		gone := made(9, 30*h, nil) // is never fixed and would be read each time
		late := made(1, 40*h, nil) // older, and held meanwhile
		young := made(1, 24*h-10*time.Minute, nil)
		fill := func(m *memoryLanes) { m.waiting = append(m.waiting, gone, young) }
		lanesBubble(t, known, fill, func(t *testing.T, m *memoryLanes, _ *Lanes, _ *bytes.Buffer) {
			pass(9*time.Minute + time.Second)
			m.do(func() {
				if len(m.after) != 9 || m.after[0] != (hub.DeliveryID{}) || m.after[1] != gone.ID || m.after[8] != gone.ID {
					t.Errorf("walked from %v", m.after)
				}
				if len(m.fixed) != 0 {
					t.Errorf("fixed %v", m.fixed)
				}
				m.waiting = append(m.waiting, late)
			})
			pass(2 * time.Minute)
			m.do(func() {
				if _, fixed := m.fixed[young.ID]; !fixed || len(m.fixed) != 1 {
					t.Errorf("when it became a day old, fixed are %v", m.fixed)
				}
			})
			pass(48 * time.Minute)
			m.do(func() {
				if len(m.fixed) != 1 {
					t.Error("walked all again within an hour")
				}
			})
			pass(time.Minute)
			m.do(func() {
				if _, fixed := m.fixed[late.ID]; !fixed {
					t.Error("not walked again after an hour")
				}
				if m.read[len(m.read)-1] != h || m.forgets != 60 {
					t.Errorf("read at %v, slots forgotten %d times in an hour", m.read, m.forgets)
				}
			})
		})
	})
	t.Run("all_pages_of_one_walk_at_once", func(t *testing.T) {
		fill := func(m *memoryLanes) {
			for n := range 2*lastsBatch + 500 {
				m.waiting = append(m.waiting, made([]byte{1, 9}[n%2], 2*day-time.Duration(n)*time.Millisecond, nil))
			}
		}
		lanesBubble(t, known, fill, func(t *testing.T, m *memoryLanes, _ *Lanes, _ *bytes.Buffer) {
			pass(time.Minute)
			m.do(func() {
				if len(m.fixed) != lastsBatch+250 || len(m.read) != 3 {
					t.Errorf("fixed %d with %d reads", len(m.fixed), len(m.read))
				}
			})
		})
	})
	t.Run("an_error_is_said_once_and_loses_no_place", func(t *testing.T) {
		old := made(1, 30*h, nil)
		fill := func(m *memoryLanes) {
			m.waiting = append(m.waiting, old)
			m.refuseFix = errors.New("read only")
		}
		lanesBubble(t, known, fill, func(t *testing.T, m *memoryLanes, _ *Lanes, log *bytes.Buffer) {
			pass(10 * time.Minute)
			if n := strings.Count(log.String(), "read only"); n != 1 {
				t.Errorf("said %d times:\n%s", n, log)
			}
			m.do(func() {
				if m.forgets != 10 {
					t.Errorf("slots were forgotten %d times meanwhile", m.forgets)
				}
				m.refuseFix = nil
			})
			pass(time.Minute)
			m.do(func() {
				if _, fixed := m.fixed[old.ID]; !fixed {
					t.Error("it was passed over")
				}
			})
		})
	})
}

func TestLanes_frozen_destinations(t *testing.T) {
	const curved, doubling = 1, 2
	id := func(n byte) hub.ID { return hub.ID{n} }
	known := policies{{ID: id(curved)}: {Kind: hub.RetryCurve}, {ID: id(doubling)}: retry.Workfront(false)}
	for _, row := range []struct {
		rule   string
		sub    byte
		state  health.RateState
		inLane int
		held   int
	}{
		{"are_emptied_and_past_48_hours_dropped", doubling, health.Frozen, 0, 0},
		{"of_another_policy_keep_what_is_held", curved, health.Frozen, 0, 1200},
		{"that_are_only_disabled_keep_all", doubling, health.Disabled, 1100, 1200},
	} {
		t.Run(row.rule, func(t *testing.T) {
			fill := func(m *memoryLanes) {
				lane := db.Lane{Tenant: "acme", Destination: hub.DestinationID{ID: id(row.sub)}}
				m.frozen = []db.StoredRate{{Lane: lane, Rate: health.Rate{Judged: row.state}}}
				m.lane, m.held = 1100, 1200
			}
			lanesBubble(t, known, fill, func(t *testing.T, m *memoryLanes, _ *Lanes, _ *bytes.Buffer) {
				pass(time.Minute)
				m.do(func() {
					if m.lane != row.inLane || m.held != row.held {
						t.Errorf("%d wait in the lane and %d are held", m.lane, m.held)
					}
					for _, end := range m.ends {
						if end.Reason != hub.DeadDroppedFrozen || m.heldOf.ID != id(doubling) || time.Since(m.heldSince) != 48*time.Hour {
							t.Errorf("ended as %+v", end)
						}
					}
				})
			})
		})
	}
}

func TestLanes_expire_with_their_events(t *testing.T) {
	lanesBubble(t, nil, func(m *memoryLanes) { m.expired = 1700 }, func(t *testing.T, m *memoryLanes, l *Lanes, _ *bytes.Buffer) {
		pass(time.Minute)
		m.do(func() {
			if m.expired != 1700 {
				t.Error("deliveries ended though events are kept for ever")
			}
			l.EventRetention = 30 * 24 * time.Hour
		})
		pass(time.Minute)
		m.do(func() {
			if m.expired != 0 || time.Since(m.expiredAt) != 30*24*time.Hour || m.ends[0].Reason != hub.DeadExpired {
				t.Errorf("%d wait past %v; ended as %+v", m.expired, m.expiredAt, m.ends)
			}
		})
	})
}
