package db_test

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/streaming-hub/streaming-hub/db"
	"github.com/streaming-hub/streaming-hub/hub"
	"github.com/streaming-hub/streaming-hub/hub/breaker"
	"github.com/streaming-hub/streaming-hub/hub/health"
)

func TestClaimLanes_nothing_is_claimed_twice(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	const lanes, each = 5, 120
	var quotas []db.LaneQuota
	for i := range lanes {
		lane := laneOf(fmt.Sprint("tenant", i%2))
		l.queue(lane, each)
		quotas = append(quotas, db.LaneQuota{Lane: lane, Quota: 7})
	}
	var mu sync.Mutex
	seen := map[hub.DeliveryID]int{}
	tokens := map[int64]bool{}
	var claimers sync.WaitGroup
	for range 4 {
		claimers.Go(func() {
			for empty := 0; empty < 3; { // a neighbour's locks may hide the rest
				claims, err := l.db.ClaimLanes(t.Context(), quotas, time.Minute)
				if err != nil {
					t.Error(err)
					return
				}
				if len(claims) == 0 {
					empty++
				}
				mu.Lock()
				for _, c := range claims {
					seen[c.Delivery.ID]++
					tokens[c.LeaseToken] = true
				}
				mu.Unlock()
			}
		})
	}
	claimers.Wait()
	for id, n := range seen {
		if n > 1 {
			t.Errorf("%s was claimed %d times", id, n)
		}
	}
	if len(seen) != lanes*each || len(tokens) != lanes*each || tokens[0] {
		t.Errorf("%d deliveries and %d tokens, want %d of each and none of 0", len(seen), len(tokens), lanes*each)
	}
}

func TestClaimLanes(t *testing.T) {
	t.Parallel()
	t.Run("quota_holds_per_lane_and_the_oldest_go_first", func(t *testing.T) {
		t.Parallel()
		l := newLab(t)
		one, two := laneOf("acme"), laneOf("acme")
		list := l.queue(one, 5)
		l.queue(two, 5)
		for i, d := range list { // the last stored is the oldest due
			l.exec("UPDATE delivery_queue SET due_at = now() - $2 * interval '1 s' WHERE id = $1", text(d.Delivery.ID), i)
		}
		claims, err := l.db.ClaimLanes(t.Context(), []db.LaneQuota{{Lane: one, Quota: 2}, {Lane: two, Quota: 3}}, time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		got := map[db.Lane]int{}
		for _, c := range claims {
			got[db.Lane{Tenant: c.Delivery.Tenant, Destination: c.Delivery.Destination}]++
			if i := slices.IndexFunc(list, func(d db.NewDelivery) bool { return d.Delivery.ID == c.Delivery.ID }); i >= 0 && i < 3 {
				t.Errorf("delivery %d of 5 was claimed before an older one", i)
			}
		}
		if got[one] != 2 || got[two] != 3 {
			t.Errorf("claimed %d and %d, want 2 and 3", got[one], got[two])
		}
	})
	t.Run("claim_tells_all_of_the_delivery", func(t *testing.T) {
		t.Parallel()
		l := newLab(t)
		lane := laneOf("acme")
		want := l.queue(lane, 1)[0].Delivery
		l.exec("UPDATE delivery_queue SET run = 2, attempts = 9, run_attempts = 3, first_failed_at = now() - interval '1 h'")
		c := l.claim(lane, 1, time.Minute)[0]
		got := c.Delivery
		if age := time.Since(got.FirstFailedAt); age < 59*time.Minute || age > 61*time.Minute {
			t.Errorf("first failed %s ago, want an hour", age)
		}
		if got.ID != want.ID || got.Event != want.Event || got.Subscription != want.Subscription || got.Tenant != "acme" ||
			got.Destination != want.Destination || got.Run != 2 || got.Attempts != 9 || got.RunAttempts != 3 || got.BodyBytes != 7 ||
			got.ReceivedAt.IsZero() || got.DueAt.IsZero() || c.Reclaims != 0 {
			t.Errorf("claim = %+v", c)
		}
	})
	t.Run("ended_lease_is_claimed_again", func(t *testing.T) {
		t.Parallel()
		l := newLab(t)
		lane := laneOf("acme")
		l.queue(lane, 1)
		first := l.claim(lane, 1, time.Minute)
		if again := l.claim(lane, 1, time.Minute); len(again) != 0 {
			t.Fatal("a delivery under a lease was claimed")
		}
		l.leaseEnds()
		again := l.claim(lane, 1, time.Minute)
		if len(again) != 1 || again[0].LeaseToken == first[0].LeaseToken {
			t.Fatalf("claimed again %+v", again)
		}
	})
	t.Run("held_and_later_ones_stay", func(t *testing.T) {
		t.Parallel()
		l := newLab(t)
		lane := laneOf("acme")
		list := l.queue(lane, 3)
		l.exec("UPDATE delivery_queue SET due_at = 'infinity' WHERE id = $1", text(list[0].Delivery.ID))
		l.exec("UPDATE delivery_queue SET due_at = now() + interval '2 s' WHERE id = $1", text(list[1].Delivery.ID))
		if claims := l.claim(lane, 9, time.Minute); len(claims) != 1 || claims[0].Delivery.ID != list[2].Delivery.ID {
			t.Errorf("claimed %d, want only the one that is due", len(claims))
		}
	})
	t.Run("lane_of_another_tenant_is_another_lane", func(t *testing.T) {
		t.Parallel()
		l := newLab(t)
		lane := laneOf("acme")
		l.queue(lane, 1)
		if claims := l.claim(db.Lane{Tenant: "acmE", Destination: lane.Destination}, 9, time.Minute); len(claims) != 0 {
			t.Error("a tenant's deliveries were claimed for another")
		}
	})
	t.Run("no_lanes_no_claims", func(t *testing.T) {
		t.Parallel()
		l := newLab(t)
		if claims, err := l.db.ClaimLanes(t.Context(), nil, time.Minute); err != nil || len(claims) != 0 {
			t.Errorf("ClaimLanes(nil) = %v, %v", claims, err)
		}
	})
}

func TestLanes(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	var want []db.Lane
	for _, tenant := range []string{"a", "B", "a", "Z", "a-", "a"} {
		lane := laneOf(tenant)
		l.queue(lane, 3)
		want = append(want, lane)
	}
	slices.SortFunc(want, func(x, y db.Lane) int { // byte order, like COLLATE "C"
		return cmp.Or(cmp.Compare(x.Tenant, y.Tenant), slices.Compare(x.Destination.ID[:], y.Destination.ID[:]))
	})
	held, later := want[1], want[2]
	l.exec("UPDATE delivery_queue SET due_at = 'infinity' WHERE destination_id = $1", text(held.Destination))
	l.exec("UPDATE delivery_queue SET due_at = now() + interval '1 h' WHERE destination_id = $1", text(later.Destination))
	l.exec("UPDATE delivery_queue SET due_at = now() - interval '1 h' WHERE id IN (SELECT id FROM delivery_queue WHERE destination_id = $1 LIMIT 1)",
		text(want[3].Destination))

	var got []db.Lane
	after := db.Lane{}
	for range len(want) {
		heads, err := l.db.Lanes(t.Context(), after, 2)
		if err != nil {
			t.Fatal(err)
		}
		if len(heads) > 2 {
			t.Fatalf("%d lanes, want at most 2", len(heads))
		}
		if len(heads) == 0 {
			break
		}
		for _, h := range heads {
			got = append(got, h.Lane)
			ok := h.DueIn <= 0 && h.DueIn > -time.Minute
			switch h.Lane {
			case held:
				ok = h.DueIn == math.MaxInt64
			case later:
				ok = h.DueIn > 59*time.Minute && h.DueIn <= time.Hour
			case want[3]:
				ok = h.DueIn < -59*time.Minute && h.DueIn > -61*time.Minute
			}
			if !ok {
				t.Errorf("lane %v is due in %s", h.Lane, h.DueIn)
			}
		}
		after = heads[len(heads)-1].Lane
	}
	if !slices.Equal(got, want) {
		t.Errorf("walk = %v\nwant %v", got, want)
	}
	oldest, err := l.db.OldestDue(t.Context(), 100)
	if err != nil || oldest < 59*time.Minute || oldest > 61*time.Minute {
		t.Errorf("OldestDue = %s, %v, want an hour", oldest, err)
	}
}

func TestOldestDue_of_nothing_that_waits_is_zero(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	lane := laneOf("acme")
	l.queue(lane, 1)
	l.claim(lane, 1, time.Minute) // leased: somebody works on it
	l.queue(laneOf("later"), 1)
	l.exec("UPDATE delivery_queue SET due_at = now() + interval '1 h' WHERE tenant_id = 'later'")
	if oldest, err := l.db.OldestDue(t.Context(), 100); err != nil || oldest != 0 {
		t.Errorf("OldestDue = %s, %v, want 0", oldest, err)
	}
}

func TestOldestDue_lanes_that_wait_for_a_reason_do_not_count(t *testing.T) {
	t.Parallel()
	breakerIn := func(phase breaker.Phase, ramp int32) func(*lab, db.Lane) {
		return func(l *lab, lane db.Lane) {
			l.changeBreakers([]db.Lane{lane}, func(_ int, s breaker.State) (breaker.State, []hub.Notice) {
				if s.Phase, s.RampLimit = phase, ramp; phase != breaker.Closed {
					s.OpenedAt = kept()
				}
				return s, nil
			})
		}
	}
	rateIn := func(state health.RateState) func(*lab, db.Lane) {
		return func(l *lab, lane db.Lane) { l.changeRates(judged(state, kept()), lane) }
	}
	sql := func(sql string) func(*lab, db.Lane) {
		return func(l *lab, lane db.Lane) { l.exec(sql, text(lane.Destination)) }
	}
	for _, row := range []struct {
		rule   string
		cause  func(*lab, db.Lane)
		counts bool
	}{
		{"no_reason_counts", func(*lab, db.Lane) {}, true},
		{"closed_circuit_counts", breakerIn(breaker.Closed, 0), true},
		{"open_circuit", breakerIn(breaker.Open, 0), false},
		{"half_open_circuit", breakerIn(breaker.HalfOpen, 0), false},
		{"ramp", breakerIn(breaker.Closed, 4), false},
		{"rate_limit", sql("UPDATE destinations SET rate_limit = 1 WHERE id = $1"), false},
		{"max_in_flight", sql("UPDATE destinations SET max_in_flight = 1 WHERE id = $1"), false},
		{"active_by_rate_counts", rateIn(health.Active), true},
		{"disabled_by_rate", rateIn(health.Disabled), false},
		{"frozen_by_rate", rateIn(health.Frozen), false},
		{"held", sql("UPDATE delivery_queue SET due_at = 'infinity' WHERE destination_id = $1"), false},
		{"not_due_yet", sql("UPDATE delivery_queue SET due_at = now() + interval '1 s' WHERE destination_id = $1"), false},
		{"leased", sql("UPDATE delivery_queue SET leased_until = now() + interval '1 min', lease_token = 5 WHERE destination_id = $1"), false},
		{"ended_lease_counts", sql("UPDATE delivery_queue SET leased_until = now() - interval '1 s', lease_token = 5 WHERE destination_id = $1"), true},
	} {
		t.Run(row.rule, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			stuck, younger := laneOf("acme"), laneOf("acme")
			l.rated(stuck, kept())
			l.destination(younger, kept())
			l.queue(stuck, 1)
			l.queue(younger, 1)
			l.exec("UPDATE delivery_queue SET due_at = now() - interval '2 h' WHERE destination_id = $1", text(stuck.Destination))
			l.exec("UPDATE delivery_queue SET due_at = now() - interval '1 h' WHERE destination_id = $1", text(younger.Destination))
			row.cause(l, stuck)
			want := time.Hour
			if row.counts {
				want = 2 * time.Hour
			}
			if got, err := l.db.OldestDue(t.Context(), 100); err != nil || got < want || got > want+time.Minute {
				t.Errorf("OldestDue = %s, %v, want %s", got, err, want)
			}
		})
	}
}
