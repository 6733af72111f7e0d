package dispatch

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/streaming-hub/streaming-hub/db"
	"github.com/streaming-hub/streaming-hub/hub"
)

func laneNo(tenant, n int) db.Lane {
	return db.Lane{Tenant: hub.TenantID(fmt.Sprint("tenant", tenant)), Destination: hub.DestinationID{ID: hub.ID{byte(n >> 8), byte(n)}}}
}

func TestRoom(t *testing.T) {
	for _, row := range []struct {
		name      string
		workers   int
		perSecond float64
		want      int
	}{
		{"slow_workers_hold_four_each", 8, 0, 32},
		{"pace_raises_it", 8, 5000, 500},
		{"never_below_the_workers", 100, 1000, 400},
		{"bounded", 8, 1e9, maxHeld},
		{"one_worker", 1, 0, 4},
	} {
		t.Run(row.name, func(t *testing.T) {
			if got := Room(row.workers, row.perSecond); got != row.want {
				t.Errorf("Room(%d, %g) = %d, want %d", row.workers, row.perSecond, got, row.want)
			}
		})
	}
}

func TestDestinationCap_is_half_and_at_least_one(t *testing.T) {
	for workers, want := range map[int]int{1: 1, 2: 1, 3: 1, 8: 4, 9: 4} {
		if got := DestinationCap(workers); got != want {
			t.Errorf("DestinationCap(%d) = %d, want %d", workers, got, want)
		}
	}
	for room, want := range map[int]int{1: 1, 2: 1, 32: 16} {
		if got := LaneShare(room); got != want {
			t.Errorf("LaneShare(%d) = %d, want %d", room, got, want)
		}
	}
}

func TestQuotas(t *testing.T) {
	a, b, c := laneNo(0, 1), laneNo(0, 2), laneNo(1, 3)
	for _, row := range []struct {
		name       string
		lanes      []db.Lane
		held       map[db.Lane]int
		free, room int
		want       []int // by lane, 0 for none
	}{
		{name: "split_equally", lanes: []db.Lane{a, b, c}, free: 30, room: 100, want: []int{10, 10, 10}},
		{name: "rest_goes_on", lanes: []db.Lane{a, b, c}, free: 31, room: 100, want: []int{10, 10, 11}},
		{name: "at_least_one_each_while_there_is_room", lanes: []db.Lane{a, b, c}, free: 2, room: 100, want: []int{1, 1, 0}},
		{name: "one_lane_gets_its_share_only", lanes: []db.Lane{a}, free: 100, room: 100, want: []int{50}},
		{name: "what_it_holds_counts", lanes: []db.Lane{a, b}, held: map[db.Lane]int{a: 49, b: 50}, free: 20, room: 100, want: []int{1, 0}},
		{name: "what_one_leaves_the_next_gets", lanes: []db.Lane{a, b}, held: map[db.Lane]int{a: 50}, free: 20, room: 100, want: []int{0, 20}},
		{name: "no_room", lanes: []db.Lane{a}, free: 0, room: 100, want: []int{0}},
		{name: "overfull", lanes: []db.Lane{a}, free: -3, room: 100, want: []int{0}},
	} {
		t.Run(row.name, func(t *testing.T) {
			got := map[db.Lane]int{}
			for _, q := range Quotas(row.lanes, func(l db.Lane) int { return row.held[l] }, row.free, row.room) {
				got[q.Lane] = q.Quota
			}
			want := map[db.Lane]int{}
			for i, n := range row.want {
				if n > 0 {
					want[row.lanes[i]] = n
				}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("quotas (-want +got):\n%s", diff)
			}
		})
	}
	t.Run("never_more_than_is_free_nor_than_a_share", func(t *testing.T) {
		rapid.Check(t, func(t *rapid.T) {
			room := rapid.IntRange(1, 300).Draw(t, "room")
			free := rapid.IntRange(-5, room).Draw(t, "free")
			held := rapid.SliceOfN(rapid.IntRange(0, room), 0, 40).Draw(t, "held")
			lanes := make([]db.Lane, len(held))
			byLane := map[db.Lane]int{}
			for i, n := range held {
				lanes[i] = laneNo(0, i)
				byLane[lanes[i]] = n
			}
			sum := 0
			for _, q := range Quotas(lanes, func(l db.Lane) int { return byLane[l] }, free, room) {
				sum += q.Quota
				if q.Quota < 1 || byLane[q.Lane]+q.Quota > LaneShare(room) {
					t.Fatalf("lane holds %d and gets %d in a room of %d", byLane[q.Lane], q.Quota, room)
				}
			}
			if sum > max(0, free) {
				t.Fatalf("%d given of %d free", sum, free)
			}
		})
	})
}

func TestRotation(t *testing.T) {
	t.Run("empty_has_nobody", func(t *testing.T) {
		r := newRotation()
		if _, ok := r.next(); ok || r.len() != 0 {
			t.Error("an empty rotation has a turn")
		}
		r.remove(laneNo(0, 0))
	})
	t.Run("equal_turns_for_tenants_and_for_lanes_within_one", func(t *testing.T) {
		rapid.Check(t, func(t *rapid.T) {
			sizes := rapid.SliceOfN(rapid.IntRange(1, 30), 1, 8).Draw(t, "lanes of each tenant")
			r := newRotation()
			for tenant, n := range sizes {
				for i := range n {
					r.add(laneNo(tenant, i))
					r.add(laneNo(tenant, i)) // twice is once
				}
			}
			rounds := rapid.IntRange(1, 70).Draw(t, "rounds")
			turns, byLane := map[hub.TenantID]int{}, map[db.Lane]int{}
			for range rounds * len(sizes) {
				l, _ := r.next()
				turns[l.Tenant]++
				byLane[l]++
			}
			for tenant, n := range sizes {
				if got := turns[laneNo(tenant, 0).Tenant]; got != rounds {
					t.Fatalf("tenant with %d lanes has %d turns of %d rounds", n, got, rounds)
				}
				for i := range n {
					if got := byLane[laneNo(tenant, i)]; got != rounds/n && got != rounds/n+1 {
						t.Fatalf("a lane of %d has %d turns of %d", n, got, rounds)
					}
				}
			}
		})
	})
	t.Run("is_a_set", func(t *testing.T) {
		rapid.Check(t, func(t *rapid.T) {
			r, model := newRotation(), map[db.Lane]bool{}
			for range rapid.IntRange(0, 80).Draw(t, "steps") {
				l := laneNo(rapid.IntRange(0, 3).Draw(t, "tenant"), rapid.IntRange(0, 3).Draw(t, "lane"))
				switch rapid.IntRange(0, 2).Draw(t, "step") {
				case 0:
					r.add(l)
					model[l] = true
				case 1:
					r.remove(l)
					delete(model, l)
				case 2:
					if got, ok := r.next(); ok != (len(model) > 0) || ok && !model[got] {
						t.Fatalf("next = %v, %t with %d in", got, ok, len(model))
					}
				}
				if r.len() != len(model) || r.has(l) != model[l] || r.tenants.Len() != len(r.byID) {
					t.Fatalf("%d in, want %d", r.len(), len(model))
				}
			}
		})
	})
}
