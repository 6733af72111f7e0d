package dispatch

import (
	"testing"
	"time"

	"github.com/streaming-hub/streaming-hub/hub"
	"github.com/streaming-hub/streaming-hub/hub/limit"
)

func TestPace(t *testing.T) {
	begun := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	at := func(ms int) time.Time { return begun.Add(time.Duration(ms) * time.Millisecond) }
	rated := func(n int) *pace {
		c := &pace{}
		c.Set(&hub.Destination{RateLimit: 10})
		c.Take(limit.Starts{N: n, In: 0, Every: 100 * time.Millisecond}, 0, begun)
		return c
	}
	slotted := func(slots int32) *pace {
		c := &pace{}
		c.Set(&hub.Destination{MaxInFlight: 5})
		c.Take(limit.Starts{}, slots, begun)
		return c
	}
	t.Run("ready", func(t *testing.T) {
		used := rated(2)
		used.Start()
		for _, row := range []struct {
			name    string
			pace    *pace
			now     time.Time
			running int
			ok      bool
			again   time.Time
		}{
			{"at_its_moment", rated(3), at(0), 0, true, time.Time{}},
			{"the_next_one_waits_for_its_own", used, at(50), 0, false, at(100)},
			{"a_little_late_is_fine", rated(1), at(100), 0, true, time.Time{}},
			{"too_late_is_lost", rated(1), at(101), 0, false, time.Time{}},
			{"lost_ones_do_not_gather", rated(5), at(350), 0, true, time.Time{}},
			{"nothing_granted", rated(0), at(0), 0, false, time.Time{}},
			{"a_slot_is_free", slotted(3), at(0), 2, true, time.Time{}},
			{"all_slots_are_taken", slotted(3), at(0), 3, false, time.Time{}},
			{"slots_are_trusted_for_a_while", slotted(3), begun.Add(slotsTrusted - 1), 0, true, time.Time{}},
			{"slots_that_were_not_renewed", slotted(3), begun.Add(slotsTrusted), 0, false, time.Time{}},
		} {
			t.Run(row.name, func(t *testing.T) {
				ok, again := row.pace.Ready(row.now, row.running)
				if ok != row.ok || !again.Equal(row.again) {
					t.Errorf("%v until %v, want %v until %v", ok, again, row.ok, row.again)
				}
			})
		}
	})
	t.Run("lost_starts_are_gone", func(t *testing.T) {
		c := rated(5)
		c.Ready(at(350), 0) // those at 0, 100 and 200 are lost
		for _, ms := range []int{350, 400} {
			if ok, _ := c.Ready(at(ms), 0); !ok {
				t.Fatal("a start that is left cannot be used")
			}
			c.Start()
		}
		if ok, _ := c.Ready(at(450), 0); ok {
			t.Error("a lost start came back")
		}
	})
	t.Run("another_rate_forgets_what_was_granted", func(t *testing.T) {
		c := rated(5)
		c.Set(&hub.Destination{RateLimit: 1})
		if ok, _ := c.Ready(at(0), 0); ok {
			t.Error("a start of the old rate is used")
		}
	})
	t.Run("spare", func(t *testing.T) {
		for _, row := range []struct {
			name             string
			pace             *pace
			waiting, running int
			want             int
		}{
			{"starts_less_those_that_wait", rated(5), 2, 9, 3},
			{"never_less_than_nothing", rated(1), 3, 0, 0},
			{"slots_less_those_that_wait_and_run", slotted(5), 1, 2, 2},
			{"no_limits", &pace{}, 0, 0, maxHeld},
		} {
			t.Run(row.name, func(t *testing.T) {
				if got := row.pace.Spare(at(0), row.waiting, row.running); got != row.want {
					t.Errorf("%d, want %d", got, row.want)
				}
			})
		}
	})
	t.Run("asks", func(t *testing.T) {
		asked := rated(0)
		asked.asked = at(-20)
		for _, row := range []struct {
			name                     string
			pace                     *pace
			now                      time.Time
			wanted, waiting, running int
			starts                   int
			slots                    int32
			ask                      bool
		}{
			{"for_what_is_not_granted", rated(2), at(0), 5, 1, 0, 4, 0, true},
			{"not_for_what_is", rated(5), at(0), 5, 0, 0, 0, 0, false},
			{"not_twice_at_once", asked, at(0), 5, 0, 0, 0, 0, false},
			{"for_more_slots", slotted(2), at(0), 2, 1, 1, 0, 4, true},
			{"gives_slots_back", slotted(4), at(0), 0, 0, 1, 0, 1, true},
			{"not_beyond_the_limit", slotted(5), at(0), 9, 0, 0, 0, 9, false},
			{"renews_in_time", slotted(2), begun.Add(renewSlots), 0, 0, 2, 0, 2, true},
		} {
			t.Run(row.name, func(t *testing.T) {
				starts, slots, ask := row.pace.Asks(row.now, row.wanted, row.waiting, row.running)
				if ask != row.ask || ask && (starts != row.starts || slots != row.slots) {
					t.Errorf("%d starts, %d slots, %v; want %d, %d, %v", starts, slots, ask, row.starts, row.slots, row.ask)
				}
			})
		}
	})
}
