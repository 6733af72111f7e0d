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
}

func TestLaneShare(t *testing.T) {
	for _, row := range []struct {
		name            string
		room            int
		suspect         bool
		allowance, want int
	}{
		{"half_of_the_room", 32, false, 4, 16},
		{"at_least_one", 1, false, 1, 1},
		{"suspect_gets_twice_what_may_run", 2048, true, 3, 6},
		{"suspect_at_first", 2048, true, 1, 2},
	} {
		t.Run(row.name, func(t *testing.T) {
			if got := LaneShare(row.room, row.suspect, row.allowance); got != row.want {
				t.Errorf("%d, want %d", got, row.want)
			}
		})
	}
}

func TestQuotas(t *testing.T) {
	most := func(n int) Ask { return Ask{Most: n} }
	suspect := func(n int) Ask { return Ask{Most: n, Suspect: true} }
	for _, row := range []struct {
		name              string
		asks              []Ask
		free, suspectFree int
		want              []int // by lane, 0 for none
	}{
		{name: "split_equally", asks: []Ask{most(50), most(50), most(50)}, free: 30, want: []int{10, 10, 10}},
		{name: "rest_goes_on", asks: []Ask{most(50), most(50), most(50)}, free: 31, want: []int{10, 10, 11}},
		{name: "at_least_one_each_while_there_is_room", asks: []Ask{most(50), most(50), most(50)}, free: 2, want: []int{1, 1, 0}},
		{name: "no_more_than_it_may_have", asks: []Ask{most(50)}, free: 100, want: []int{50}},
		{name: "what_one_leaves_the_next_gets", asks: []Ask{most(0), most(50)}, free: 20, want: []int{0, 20}},
		{name: "no_room", asks: []Ask{most(50)}, free: 0, want: []int{0}},
		{name: "overfull", asks: []Ask{most(50), suspect(2)}, free: -3, suspectFree: -1, want: []int{0, 0}},
		{name: "suspects_take_from_their_own_room", asks: []Ask{suspect(9), most(50), suspect(9)}, free: 30, suspectFree: 8, want: []int{4, 30, 4}},
		{name: "suspects_do_not_take_from_the_others", asks: []Ask{suspect(9), most(50)}, free: 30, suspectFree: 0, want: []int{0, 30}},
	} {
		t.Run(row.name, func(t *testing.T) {
			for i := range row.asks {
				row.asks[i].Lane = laneNo(0, i)
			}
			got := make([]int, len(row.asks))
			for _, q := range Quotas(row.asks, row.free, row.suspectFree) {
				for i, a := range row.asks {
					if a.Lane == q.Lane {
						got[i] = q.Quota
					}
				}
			}
			if diff := cmp.Diff(row.want, got); diff != "" {
				t.Errorf("quotas (-want +got):\n%s", diff)
			}
		})
	}
	t.Run("never_more_than_is_free_nor_than_asked", func(t *testing.T) {
		rapid.Check(t, func(t *rapid.T) {
			free := map[bool]int{false: rapid.IntRange(-5, 300).Draw(t, "free"), true: rapid.IntRange(-5, 30).Draw(t, "suspects")}
			asks := make([]Ask, rapid.IntRange(0, 40).Draw(t, "lanes"))
			may := map[db.Lane]Ask{}
			for i := range asks {
				asks[i] = Ask{laneNo(0, i), rapid.IntRange(-2, 60).Draw(t, "most"), rapid.Bool().Draw(t, "suspect")}
				may[asks[i].Lane] = asks[i]
			}
			sum := map[bool]int{}
			for _, q := range Quotas(asks, free[false], free[true]) {
				a := may[q.Lane]
				sum[a.Suspect] += q.Quota
				if q.Quota < 1 || q.Quota > a.Most {
					t.Fatalf("%+v gets %d", a, q.Quota)
				}
			}
			for s, n := range sum {
				if n > max(0, free[s]) {
					t.Fatalf("%d given of %d free (suspects: %v)", n, free[s], s)
				}
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
