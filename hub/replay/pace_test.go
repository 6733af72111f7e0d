package replay_test

import (
	"testing"
	"time"

	"github.com/streaming-hub/streaming-hub/hub"
	"github.com/streaming-hub/streaming-hub/hub/replay"
)

func TestNext_rate(t *testing.T) {
	const ms, us = time.Millisecond, time.Microsecond
	for _, row := range []struct {
		rule    string
		rate    int32
		pacedTo time.Duration // from now
		release int
		after   time.Duration // PacedTo, from now
	}{
		{"nothing_before_the_first_place", 50, -19 * ms, 0, -19 * ms},
		{"one_at_its_place", 50, -20 * ms, 1, 0},
		{"what_is_left_counts_next_time", 50, -250 * ms, 12, -10 * ms},
		{"once_a_second", 1, -1100 * ms, 1, -100 * ms},
		{"a_late_step_makes_up_for_a_second", 50, -1 * time.Second, 50, 0},
		{"not_for_more", 50, -1370 * ms, 50, -10 * ms},
		{"not_for_hours", 50, -3 * time.Hour, 50, 0},
		{"places_are_rounded_up_to_microseconds", 3, -334 * ms, 1, -334*ms + 333_334*us},
		{"a_step_is_bounded", 10_000, -250 * ms, 500, -200 * ms},
		{"a_step_is_bounded_and_late", 10_000, -1500 * ms, 500, -950 * ms},
		{"a_little_ahead_waits", 50, 900 * ms, 0, 900 * ms},
		{"a_clock_that_was_ahead_stops_nothing", 50, time.Hour, 0, 0},
	} {
		t.Run(row.rule, func(t *testing.T) {
			j := running(func(j *hub.ReplayJob) {
				j.Total, j.CanaryPassed, j.Pace.RatePerSecond = 1_000_000, true, row.rate
				j.PacedTo = start.Add(row.pacedTo)
			})
			got := replay.Next(j, start)
			if got.Release != row.release || got.PacedTo.Sub(start) != row.after {
				t.Errorf("releases %d and is paced to %v, want %d and %v", got.Release, got.PacedTo.Sub(start), row.release, row.after)
			}
		})
	}
	t.Run("begins_with_nothing", func(t *testing.T) {
		j := running(func(j *hub.ReplayJob) { j.PacedTo = time.Time{} })
		if got := replay.Next(j, start); got.Release != 0 || !got.PacedTo.Equal(start) {
			t.Errorf("%+v", got)
		}
	})
}
