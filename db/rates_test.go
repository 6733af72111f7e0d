package db_test

import (
	"math/rand/v2"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/streaming-hub/streaming-hub/db"
	"github.com/streaming-hub/streaming-hub/hub"
	"github.com/streaming-hub/streaming-hub/hub/health"
)

type rateChange = func(i int, stored health.Rate) (health.Rate, []hub.Notice)

func (l *lab) changeRates(change rateChange, lanes ...db.Lane) []health.Rate {
	l.Helper()
	rates, err := l.db.ChangeRates(l.Context(), lanes, newID(), change)
	if err != nil {
		l.Fatal(err)
	}
	return rates
}

// judged is the change to a state.
func judged(s health.RateState, at time.Time) rateChange {
	return func(_ int, r health.Rate) (health.Rate, []hub.Notice) {
		r.Judged, r.JudgedAt = s, at
		return r, nil
	}
}

// destination stores the destination of a lane.
func (l *lab) destination(lane db.Lane, created time.Time) {
	l.Helper()
	l.exec("INSERT INTO tenant_counters (tenant_id) VALUES ($1) ON CONFLICT DO NOTHING", string(lane.Tenant))
	l.exec("INSERT INTO destinations (id, tenant_id, kind, url, created_at) VALUES ($1, $2, 'WEBHOOK', $1::uuid::text, $3)",
		text(lane.Destination), string(lane.Tenant), created)
}

// rated stores the destination of a lane under FAILURE_RATE.
func (l *lab) rated(lane db.Lane, created time.Time) {
	l.Helper()
	l.destination(lane, created)
	l.exec(`UPDATE destinations SET failure_policy = '{"kind":"FAILURE_RATE"}' WHERE id = $1`, text(lane.Destination))
}

// subscription stores an event subscription to the destination of a lane.
func (l *lab) subscription(lane db.Lane) hub.SubscriptionID {
	l.Helper()
	id := hub.SubscriptionID{ID: newID()}
	l.exec(`INSERT INTO event_subscriptions (id, tenant_id, name, event_types, destination_id, kind, verification_state, created_at, updated_at)
		VALUES ($1, $2, 'test', '{*}', $3, 'WEBHOOK', 'ACTIVE', now(), now())`, text(id), string(lane.Tenant), text(lane.Destination))
	return id
}

func TestChangeRates(t *testing.T) {
	t.Parallel()
	now := kept()
	// one is a lab with one destination, made a day ago.
	one := func(t *testing.T) (*lab, db.Lane) {
		t.Parallel()
		l, lane := newLab(t), laneOf("acme")
		l.rated(lane, now.Add(-24*time.Hour))
		return l, lane
	}
	t.Run("last_success_of_a_new_one_is_its_creation", func(t *testing.T) {
		l, lane := one(t)
		l.changeRates(func(_ int, r health.Rate) (health.Rate, []hub.Notice) {
			want := health.NewRate(now.Add(-24 * time.Hour))
			want.Judged = health.Active
			if diff := cmp.Diff(want, r); diff != "" {
				t.Errorf("stored (-want +got):\n%s", diff)
			}
			return r, nil
		}, lane)
	})
	t.Run("every_field_comes_back", func(t *testing.T) {
		l, lane := one(t)
		full := health.Rate{
			Attempts: 1 << 40, Failures: 1 << 39, Row: 3, LastSuccessAt: now.Add(-time.Hour),
			Judged: health.Disabled, JudgedAt: now.Add(-time.Minute), NextTryAt: now.Add(time.Minute),
		}
		wantNoZero(t, "Rate", reflect.ValueOf(full))
		put := func(int, health.Rate) (health.Rate, []hub.Notice) { return full, nil }
		if diff := cmp.Diff([]health.Rate{full}, l.changeRates(put, lane)); diff != "" {
			t.Errorf("as it is said to be (-want +got):\n%s", diff)
		}
		list, err := l.db.RatesOf(t.Context(), []hub.DestinationID{lane.Destination})
		if diff := cmp.Diff([]db.StoredRate{{Lane: lane, Rate: full}}, list); err != nil || diff != "" {
			t.Errorf("as it is stored (-want +got):\n%s %v", diff, err)
		}
	})
	t.Run("result_is_in_the_order_of_lanes", func(t *testing.T) {
		l, lane := one(t)
		lanes := []db.Lane{lane}
		for range 5 {
			lanes = append(lanes, laneOf("acme"))
			l.rated(lanes[len(lanes)-1], now)
		}
		count := func(i int, r health.Rate) (health.Rate, []hub.Notice) {
			r.Attempts += int64(i)
			return r, nil
		}
		l.changeRates(count, lanes...)
		slices.Reverse(lanes)
		for i, r := range l.changeRates(count, lanes...) {
			if r.Attempts != 5 { // i + 5−i
				t.Errorf("lane %d got the changes of another: %d", i, r.Attempts)
			}
		}
	})
	t.Run("one_of_two_takes_the_try", func(t *testing.T) {
		l, lane := one(t)
		for round := range 20 {
			l.changeRates(func(_ int, r health.Rate) (health.Rate, []hub.Notice) {
				r.Judged, r.JudgedAt, r.NextTryAt = health.Disabled, now, now
				return r, nil
			}, lane)
			var took atomic.Int32
			ready := make(chan struct{})
			var replicas sync.WaitGroup
			for range 2 {
				replicas.Go(func() {
					<-ready
					var mine bool
					_, err := l.db.ChangeRates(t.Context(), []db.Lane{lane}, newID(), func(_ int, r health.Rate) (health.Rate, []hub.Notice) {
						r, mine = r.TakeTry(now, health.Workfront())
						return r, nil
					})
					if err != nil {
						t.Error(err)
					}
					if mine {
						took.Add(1)
					}
				})
			}
			close(ready)
			replicas.Wait()
			if n := took.Load(); n != 1 {
				t.Fatalf("round %d: %d of 2 took the try", round, n)
			}
		}
	})
	t.Run("in_any_order_never_deadlock", func(t *testing.T) {
		l, lane := one(t)
		lanes := []db.Lane{lane}
		for range 9 {
			lanes = append(lanes, laneOf("acme"))
			l.rated(lanes[len(lanes)-1], now)
		}
		var replicas sync.WaitGroup
		for seed := range uint64(4) {
			replicas.Go(func() {
				random, mine := rand.New(rand.NewPCG(seed, 3)), slices.Clone(lanes)
				for range 50 {
					random.Shuffle(len(mine), func(i, j int) { mine[i], mine[j] = mine[j], mine[i] })
					if _, err := l.db.ChangeRates(t.Context(), mine, newID(), func(_ int, r health.Rate) (health.Rate, []hub.Notice) {
						r.Attempts++
						return r, nil
					}); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		replicas.Wait()
		l.wantCount("attempts", 4*50*len(lanes), "SELECT sum(attempts)::int FROM failure_rates")
	})
	t.Run("destination_that_is_gone_is_passed_over", func(t *testing.T) {
		l, lane := one(t)
		gone := laneOf("acme")
		rates := l.changeRates(func(i int, r health.Rate) (health.Rate, []hub.Notice) {
			if i != 1 {
				t.Errorf("change of lane %d, which is gone", i)
			}
			r.Attempts++
			return r, nil
		}, gone, lane)
		if rates[0] != (health.Rate{}) || rates[1].Attempts != 1 {
			t.Errorf("rates = %+v", rates)
		}
	})
	t.Run("notices_stand_and_fall_with_the_change", func(t *testing.T) {
		l, lane := one(t)
		told := []hub.Notice{{Kind: hub.NoticeFrozen, At: now, Tenant: "acme", Destination: lane.Destination}}
		freezes := func(_ int, r health.Rate) (health.Rate, []hub.Notice) {
			r.Attempts++
			r.Judged = health.Frozen
			return r, told
		}
		l.changeRates(freezes, lane)
		if items := l.feed(); len(items) != 1 || items[0].Notice == nil || items[0].Notice.Kind != hub.NoticeFrozen {
			t.Errorf("feed = %+v", items)
		}
		l.failCommits("failure_rates")
		if _, err := l.db.ChangeRates(t.Context(), []db.Lane{lane}, newID(), freezes); err == nil {
			t.Error("a commit that failed is no error")
		}
		l.wantCount("rows of the feed", 1, "SELECT count(*) FROM outcome_feed")
	})
}

func TestChangeRates_chores(t *testing.T) {
	t.Parallel()
	now := kept()
	l := newLab(t)
	lane, other := laneOf("acme"), laneOf("acme")
	l.rated(lane, now)
	l.rated(other, now)
	subs := []hub.SubscriptionID{l.subscription(lane), l.subscription(lane), l.subscription(lane)}
	l.subscription(other)
	l.exec("UPDATE event_subscriptions SET deleted_at = now() WHERE id = $1", text(subs[2]))
	for _, step := range []struct {
		rule string
		to   health.RateState
		want int
	}{
		{"DISABLED_asks_for_none", health.Disabled, 0},
		{"FROZEN_asks_for_all_subscriptions_of_the_destination", health.Frozen, 2},
		{"FROZEN_still_asks_for_none", health.Frozen, 0},
		{"enabled_again_asks_for_all", health.Active, 2},
		{"ACTIVE_still_asks_for_none", health.Active, 0},
	} {
		t.Run(step.rule, func(t *testing.T) {
			l.exec("DELETE FROM lane_chores")
			now = now.Add(time.Second)
			l.changeRates(judged(step.to, now), lane, other)
			l.exec("DELETE FROM lane_chores WHERE destination_id = $1", text(other.Destination))
			l.wantCount("chores of the destination", step.want, "SELECT count(*) FROM lane_chores")
			l.wantCount("chores of its subscriptions", step.want, `SELECT count(DISTINCT subscription_id) FROM lane_chores
				WHERE tenant_id = 'acme' AND destination_id = $1 AND subscription_id IN ($2, $3)`, text(lane.Destination), text(subs[0]), text(subs[1]))
		})
	}
}

func TestRatesNotActive(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	now := kept()
	var want []db.Lane
	for _, s := range []health.RateState{health.Active, health.Disabled, health.Frozen, health.Active, health.Frozen} {
		lane := laneOf("acme")
		l.rated(lane, now)
		l.changeRates(judged(s, now), lane)
		if s != health.Active {
			want = append(want, lane)
		}
	}
	slices.SortFunc(want, db.Lane.Compare)
	list, err := l.db.RatesNotActive(t.Context(), 10)
	if err != nil {
		t.Fatal(err)
	}
	var got []db.Lane
	for _, r := range list {
		if got = append(got, r.Lane); r.Rate.Judged == health.Active || !r.Rate.JudgedAt.Equal(now) {
			t.Errorf("%+v", r)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("destinations that are off = %v\nwant %v", got, want)
	}
	if list, err := l.db.RatesNotActive(t.Context(), 2); err != nil || len(list) != 2 {
		t.Errorf("%d of at most 2, %v", len(list), err)
	}
}
