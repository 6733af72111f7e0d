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
	"github.com/streaming-hub/streaming-hub/hub/breaker"
)

// kept is the present in the precision of Postgres.
func kept() time.Time { return time.Now().UTC().Truncate(time.Microsecond) }

// everything is a breaker without a field of the zero value.
func everything() breaker.State {
	now := kept()
	s := breaker.State{
		Version: 1, Phase: breaker.HalfOpen, Generation: 7, Failures: 5, Cause: breaker.CauseRatio,
		OpenedAt: now.Add(-time.Hour), OpenFor: 90*time.Second + time.Millisecond, NextProbeAt: now.Add(time.Minute),
		Probe:    breaker.Probe{Attempt: hub.AttemptID{ID: newID()}, StartedAt: now.Add(-time.Second)},
		ClosedAt: now.Add(-2 * time.Hour), RampLimit: 3,
	}
	s.Window.Newest = now.Unix() / 10
	for i := range breaker.Buckets {
		s.Window.Attempts[i], s.Window.Failures[i] = int32(100+i), int32(i+1)
	}
	return s
}

// wantNoZero makes a test that lists all fields fail when there is a new one.
func wantNoZero(t *testing.T, name string, v reflect.Value) {
	t.Helper()
	if v.Kind() == reflect.Struct && v.Type() != reflect.TypeFor[time.Time]() {
		for i := range v.NumField() {
			wantNoZero(t, name+"."+v.Type().Field(i).Name, v.Field(i))
		}
	} else if v.IsZero() {
		t.Errorf("the test forgets %s", name)
	}
}

type breakerChange = func(i int, stored breaker.State) (breaker.State, []hub.Notice)

// becomes is the change to a state.
func becomes(s breaker.State) breakerChange {
	return func(int, breaker.State) (breaker.State, []hub.Notice) { return s, nil }
}

func (l *lab) changeBreakers(lanes []db.Lane, change breakerChange) []breaker.State {
	l.Helper()
	states, err := l.db.ChangeBreakers(l.Context(), lanes, newID(), change)
	if err != nil {
		l.Fatal(err)
	}
	return states
}

// storedBreakers are all, in the order of their last change.
func (l *lab) storedBreakers(since time.Time, limit int) []db.StoredBreaker {
	l.Helper()
	list, err := l.db.BreakersChangedSince(l.Context(), since, limit)
	if err != nil {
		l.Fatal(err)
	}
	return list
}

func TestChangeBreakers_every_field_comes_back(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	full := everything()
	wantNoZero(t, "State", reflect.ValueOf(full))
	open := full
	open.Phase, open.Probe, open.ClosedAt, open.RampLimit = breaker.Open, breaker.Probe{}, time.Time{}, 0
	for _, row := range []struct {
		name  string
		state breaker.State
	}{
		{"all_set", full},
		{"open_without_a_probe", open},
		{"closed_with_a_ramp", breaker.State{Phase: breaker.Closed, Generation: 8, ClosedAt: kept(), RampLimit: 1}},
		{"closed_that_has_seen_nothing", breaker.State{Phase: breaker.Closed, Generation: 1}},
	} {
		t.Run(row.name, func(t *testing.T) {
			lane := laneOf("acme")
			row.state.Version = 1
			got := l.changeBreakers([]db.Lane{lane}, becomes(row.state))[0]
			if diff := cmp.Diff(row.state, got); diff != "" {
				t.Errorf("as it is said to be (-want +got):\n%s", diff)
			}
			list := l.storedBreakers(time.Time{}, 100)
			stored := list[len(list)-1]
			if diff := cmp.Diff(row.state, stored.State); diff != "" || stored.Lane != lane {
				t.Errorf("%v as it is stored (-want +got):\n%s", stored.Lane, diff)
			}
			l.changeBreakers([]db.Lane{lane}, func(_ int, s breaker.State) (breaker.State, []hub.Notice) {
				if diff := cmp.Diff(row.state, s); diff != "" {
					t.Errorf("as the next change finds it (-want +got):\n%s", diff)
				}
				return s, nil
			})
		})
	}
}

func TestChangeBreakers_a_new_one_is_closed_and_has_seen_nothing(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.changeBreakers([]db.Lane{laneOf("acme")}, func(_ int, s breaker.State) (breaker.State, []hub.Notice) {
		if diff := cmp.Diff(breaker.State{Phase: breaker.Closed}, s); diff != "" {
			t.Errorf("stored (-want +got):\n%s", diff)
		}
		return s, nil
	})
}

func TestChangeBreakers_gives_each_lane_its_own(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	var lanes []db.Lane
	for i := range 8 {
		lanes = append(lanes, laneOf(string(rune('a'+i))))
	}
	number := func(i int, s breaker.State) (breaker.State, []hub.Notice) {
		s.Generation += int64(i)
		return s, nil
	}
	l.changeBreakers(lanes, number)
	back := slices.Clone(lanes)
	slices.Reverse(back)
	for i, s := range l.changeBreakers(back, number) {
		if s.Generation != 7 { // i + 7−i
			t.Errorf("lane %d got the changes of another: %d", i, s.Generation)
		}
	}
	for _, s := range l.storedBreakers(time.Time{}, 100) {
		if s.State.Generation != 7 || !slices.Contains(lanes, s.Lane) {
			t.Errorf("stored %v with %d", s.Lane, s.State.Generation)
		}
	}
}

func TestChangeBreakers_one_of_two_takes_the_probe(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	for round := range 50 {
		lane, now := laneOf("acme"), kept()
		l.changeBreakers([]db.Lane{lane}, becomes(breaker.Restart(breaker.State{}, now)))
		attempts := [2]hub.AttemptID{{ID: newID()}, {ID: newID()}}
		var took [2]bool
		ready := make(chan struct{})
		var replicas sync.WaitGroup
		for i := range took {
			replicas.Go(func() {
				<-ready
				_, err := l.db.ChangeBreakers(t.Context(), []db.Lane{lane}, newID(), func(_ int, s breaker.State) (breaker.State, []hub.Notice) {
					s, took[i] = breaker.TakeProbe(s, attempts[i], now)
					return s, nil
				})
				if err != nil {
					t.Error(err)
				}
			})
		}
		close(ready)
		replicas.Wait()
		stored := l.changeBreakers([]db.Lane{lane}, func(_ int, s breaker.State) (breaker.State, []hub.Notice) { return s, nil })[0]
		for i := range took {
			if took[i] == took[1-i] || took[i] != (stored.Probe.Attempt == attempts[i]) {
				t.Fatalf("round %d: took the probe %v, stored is that of %d", round, took, slices.Index(attempts[:], stored.Probe.Attempt))
			}
		}
	}
}

// Four replicas at a time change the same twenty lanes, each in an order of its
// own: the first to come make the rows.
func TestChangeBreakers_in_any_order_never_deadlock(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	const callers, sets, rounds = 4, 25, 4
	var changes atomic.Int64
	for set := range uint64(sets) {
		var lanes []db.Lane
		for range 20 {
			lanes = append(lanes, laneOf("acme"))
		}
		ready := make(chan struct{})
		var replicas sync.WaitGroup
		for seed := range uint64(callers) {
			replicas.Go(func() {
				random, mine := rand.New(rand.NewPCG(seed, set)), slices.Clone(lanes)
				<-ready
				for range rounds {
					random.Shuffle(len(mine), func(i, j int) { mine[i], mine[j] = mine[j], mine[i] })
					_, err := l.db.ChangeBreakers(t.Context(), mine[:5+random.IntN(16)], newID(), func(_ int, s breaker.State) (breaker.State, []hub.Notice) {
						changes.Add(1)
						s.Failures++
						return s, nil
					})
					if err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		close(ready)
		replicas.Wait()
	}
	l.wantCount("failures kept", int(changes.Load()), "SELECT sum(failures)::int FROM circuit_breakers")
	l.wantCount("writes", int(changes.Load()), "SELECT sum(version)::int FROM circuit_breakers")
}

func TestChangeBreakers_notices_stand_and_fall_with_the_change(t *testing.T) {
	t.Parallel()
	opened := func(lane db.Lane) []hub.Notice {
		return []hub.Notice{{Kind: hub.NoticeCircuitOpened, At: kept(), Tenant: lane.Tenant, Destination: lane.Destination}}
	}
	t.Run("stored_and_told", func(t *testing.T) {
		t.Parallel()
		l := newLab(t)
		lanes := []db.Lane{laneOf("acme"), laneOf("bolt")}
		l.changeBreakers(lanes, func(i int, s breaker.State) (breaker.State, []hub.Notice) {
			return everything(), opened(lanes[i])
		})
		told := map[db.Lane]bool{}
		for _, item := range l.feed() {
			if item.Notice == nil || item.Notice.Kind != hub.NoticeCircuitOpened {
				t.Fatalf("feed has %+v", item)
			}
			told[db.Lane{Tenant: item.Tenant, Destination: item.Destination}] = true
		}
		if len(told) != 2 || !told[lanes[0]] || !told[lanes[1]] {
			t.Errorf("told of %v, want %v", told, lanes)
		}
		l.wantCount("rows of the feed", 1, "SELECT count(*) FROM outcome_feed")
	})
	t.Run("told_although_nothing_is_to_be_stored", func(t *testing.T) {
		t.Parallel()
		l := newLab(t)
		lane := laneOf("acme")
		l.changeBreakers([]db.Lane{lane}, func(_ int, s breaker.State) (breaker.State, []hub.Notice) { return s, opened(lane) })
		l.wantCount("rows of the feed", 1, "SELECT count(*) FROM outcome_feed")
	})
	t.Run("one_that_cannot_be_stored_undoes_all", func(t *testing.T) {
		t.Parallel()
		l := newLab(t)
		lanes := []db.Lane{laneOf("acme"), laneOf("acme"), laneOf("acme")}
		_, err := l.db.ChangeBreakers(t.Context(), lanes, newID(), func(i int, s breaker.State) (breaker.State, []hub.Notice) {
			s = everything()
			if i == 1 {
				s.OpenedAt = time.Time{} // half open since never: the schema forbids it
			}
			return s, opened(lanes[i])
		})
		if err == nil {
			t.Error("an impossible breaker was stored")
		}
		l.wantCount("rows of the feed", 0, "SELECT count(*) FROM outcome_feed")
		l.wantCount("breakers", 0, "SELECT count(*) FROM circuit_breakers")
	})
	t.Run("what_cannot_be_told_is_not_stored", func(t *testing.T) {
		t.Parallel()
		l := newLab(t)
		lane := laneOf("acme")
		noPartition := hub.ID{}
		_, err := l.db.ChangeBreakers(t.Context(), []db.Lane{lane}, noPartition, func(int, breaker.State) (breaker.State, []hub.Notice) {
			return everything(), opened(lane)
		})
		if err == nil {
			t.Error("a feed row without a partition was stored")
		}
		l.wantCount("breakers", 0, "SELECT count(*) FROM circuit_breakers")
	})
}

func TestBreakersChangedSince_pages_in_the_order_of_changes(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	began := kept().Add(-time.Hour)
	var lanes []db.Lane
	for i := range 7 {
		lane := laneOf("acme")
		lanes = append(lanes, lane)
		l.changeBreakers([]db.Lane{lane}, becomes(everything()))
		// Against the order of their keys.
		l.exec("UPDATE circuit_breakers SET changed_at = $2 WHERE destination_id = $1", text(lane.Destination), began.Add(time.Duration(10-i)*time.Second))
	}
	slices.Reverse(lanes)
	walk := func() (seen []db.Lane) {
		since := began
		for {
			page := l.storedBreakers(since, 3)
			if len(page) > 3 {
				t.Fatalf("%d in a page of 3", len(page))
			}
			if len(page) == 0 {
				return seen
			}
			for _, s := range page {
				if !s.ChangedAt.After(since) {
					t.Fatalf("%v changed at %s, before %s", s.Lane, s.ChangedAt, since)
				}
				since = s.ChangedAt
				seen = append(seen, s.Lane)
			}
		}
	}
	if seen := walk(); !slices.Equal(seen, lanes) {
		t.Errorf("walk = %v\nwant %v", seen, lanes)
	}

	before := l.count("SELECT extract(epoch FROM clock_timestamp())::bigint")
	l.changeBreakers(lanes[2:3], becomes(breaker.State{Phase: breaker.Closed}))
	l.changeBreakers(lanes[4:5], func(_ int, s breaker.State) (breaker.State, []hub.Notice) { return s, nil }) // no change
	want := append(slices.Delete(slices.Clone(lanes), 2, 3), lanes[2])
	if seen := walk(); !slices.Equal(seen, want) {
		t.Errorf("walk after a change = %v\nwant %v", seen, want)
	}
	list := l.storedBreakers(began, 100)
	if last := list[len(list)-1]; last.ChangedAt.Unix() < int64(before-1) || last.State.Version != 2 {
		t.Errorf("the last change was version %d at %s, want 2 now", last.State.Version, last.ChangedAt)
	}
}
