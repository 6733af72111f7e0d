package limit_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/streaming-hub/streaming-hub/hub/limit"
)

func TestRate(t *testing.T) {
	const ms = time.Millisecond
	for _, row := range []struct {
		name   string
		rate   int32
		freeIn time.Duration
		want   int
		starts limit.Starts
		after  time.Duration
	}{
		{"idle_begins_now", 10, -time.Hour, 3, limit.Starts{N: 3, In: 0, Every: 100 * ms}, 300 * ms},
		{"no_further_than_ahead", 10, 0, 100, limit.Starts{N: 5, In: 0, Every: 100 * ms}, 500 * ms},
		{"behind_what_others_took", 10, 300 * ms, 100, limit.Starts{N: 2, In: 300 * ms, Every: 100 * ms}, 500 * ms},
		{"others_took_all", 10, 500 * ms, 100, limit.Starts{}, 500 * ms},
		{"slow_rate_gives_one", 1, -5 * ms, 100, limit.Starts{N: 1, In: 0, Every: time.Second}, time.Second},
		{"slow_rate_waits", 1, 700 * ms, 100, limit.Starts{}, 700 * ms},
		{"nothing_wanted", 10, -5 * ms, 0, limit.Starts{}, -5 * ms},
		{"fast_rate", 10_000, 0, 10_000, limit.Starts{N: 5000, In: 0, Every: 100 * time.Microsecond}, 500 * ms},
	} {
		t.Run(row.name, func(t *testing.T) {
			starts, after := limit.Rate(row.rate, row.freeIn, row.want)
			if starts != row.starts || after != row.after {
				t.Errorf("%+v then %v, want %+v then %v", starts, after, row.starts, row.after)
			}
		})
	}
}

// Whatever processes ask and when, no window of a second holds more starts
// than the rate.
func TestRate_holds_in_every_second(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rate := int32(rapid.IntRange(1, 50).Draw(t, "rate"))
		var at, free time.Duration
		var starts []time.Duration
		for range rapid.IntRange(1, 40).Draw(t, "asks") {
			at += time.Duration(rapid.IntRange(0, 400).Draw(t, "ms")) * time.Millisecond
			s, after := limit.Rate(rate, free-at, rapid.IntRange(0, 60).Draw(t, "want"))
			free = at + after
			for i := range s.N {
				starts = append(starts, at+s.In+time.Duration(i)*s.Every)
			}
		}
		for i := range starts {
			if i > 0 && starts[i] < starts[i-1] {
				t.Fatalf("start %d at %v comes before the one at %v", i, starts[i], starts[i-1])
			}
			if i >= int(rate) {
				if d := starts[i] - starts[i-int(rate)]; d < time.Second-time.Duration(rate) {
					t.Fatalf("%d starts within %v at a rate of %d", rate+1, d, rate)
				}
			}
		}
	})
}

func TestSlots(t *testing.T) {
	type shares = []limit.Share
	for _, row := range []struct {
		name                    string
		most                    int32
		others                  shares
		wanted, running, expect int32
	}{
		{"alone_up_to_the_limit", 5, nil, 9, 0, 5},
		{"no_more_than_wanted", 5, nil, 2, 0, 2},
		{"what_is_left", 5, shares{{3, 3}}, 4, 0, 2},
		{"nothing_left", 5, shares{{5, 5}}, 4, 0, 0},
		{"gives_back_down_to_a_fair_part", 6, shares{{0, 6}}, 6, 0, 3},
		{"but_not_what_runs", 6, shares{{0, 6}}, 6, 5, 5},
		{"takes_what_others_do_not_want", 6, shares{{0, 1}}, 6, 0, 5},
		{"one_slot_for_two", 1, shares{{0, 3}}, 3, 0, 1},
		{"one_slot_that_is_taken", 1, shares{{1, 3}}, 3, 0, 0},
		{"three_share_ten", 10, shares{{3, 10}, {3, 10}}, 10, 0, 4},
		{"wants_nothing_any_more", 5, shares{{2, 2}}, 0, 0, 0},
	} {
		t.Run(row.name, func(t *testing.T) {
			if got := limit.Slots(row.most, row.others, row.wanted, row.running); got != row.expect {
				t.Errorf("%d slots, want %d", got, row.expect)
			}
		})
	}
}

// Processes that ask in any order never hold more than the limit together,
// and each that keeps asking gets something when the limit has room for all.
func TestSlots_hold_in_the_cluster(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		most := int32(rapid.IntRange(1, 12).Draw(t, "most"))
		n := rapid.IntRange(1, 4).Draw(t, "processes")
		held, running := make([]limit.Share, n), make([]int32, n)
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			p := rapid.IntRange(0, n-1).Draw(t, "process")
			running[p] = int32(rapid.IntRange(0, int(held[p].Slots)).Draw(t, "running"))
			var others []limit.Share
			for i := range held {
				if i != p {
					others = append(others, held[i])
				}
			}
			wanted := int32(rapid.IntRange(0, 15).Draw(t, "wanted"))
			wanted = max(wanted, running[p])
			held[p] = limit.Share{Slots: limit.Slots(most, others, wanted, running[p]), Wanted: wanted}
			var sum int32
			for _, h := range held {
				sum += h.Slots
			}
			if sum > most {
				t.Fatalf("%d slots held of %d: %+v", sum, most, held)
			}
		}
		for range 2 * n { // all want all, and what runs ends
			for p := range held {
				var others []limit.Share
				for i := range held {
					if i != p {
						others = append(others, held[i])
					}
				}
				held[p] = limit.Share{Slots: limit.Slots(most, others, most, 0), Wanted: most}
			}
		}
		for p := range held {
			if int(most) >= n && held[p].Slots == 0 {
				t.Fatalf("process %d starves: %+v of %d", p, held, most)
			}
		}
	})
}
