package replay_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/streaming-hub/streaming-hub/hub"
	"github.com/streaming-hub/streaming-hub/hub/replay"
)

var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// running is a job of 1 000 items that was started at start, with a canary of
// 10; at 100 per second it may take 25 items a quarter of a second later.
func running(change func(*hub.ReplayJob)) *hub.ReplayJob {
	j := &hub.ReplayJob{
		State: hub.JobRunning, Total: 1000, PacedTo: start, StartedAt: start,
		Pace: hub.ReplayPace{RatePerSecond: 100, Canary: 10, PauseAbovePercent: 20},
	}
	change(j)
	return j
}

func TestNext(t *testing.T) {
	quarter := start.Add(250 * time.Millisecond)
	released := func(n, tried, failed, delivered int64) func(*hub.ReplayJob) {
		return func(j *hub.ReplayJob) { j.Released, j.Tried, j.Failed, j.Delivered = n, tried, failed, delivered }
	}
	goes := func(n int, to time.Time, passed bool) replay.Step {
		return replay.Step{Release: n, PacedTo: to, CanaryPassed: passed, State: hub.JobRunning}
	}
	pauses := func(passed bool, reason string) replay.Step {
		return replay.Step{PacedTo: start, CanaryPassed: passed, State: hub.JobPaused, PausedBy: hub.DisabledByAuto, Reason: reason}
	}
	then := func(changes ...func(*hub.ReplayJob)) func(*hub.ReplayJob) {
		return func(j *hub.ReplayJob) {
			for _, change := range changes {
				change(j)
			}
		}
	}
	passed := func(j *hub.ReplayJob) { j.CanaryPassed = true }
	for _, row := range []struct {
		rule string
		job  func(*hub.ReplayJob)
		want replay.Step
	}{
		{"canary_goes_alone", func(*hub.ReplayJob) {}, goes(10, quarter, false)},
		{"canary_lets_nobody_follow_before_each_was_tried", released(10, 9, 0, 9), goes(0, start, false)},
		{"canary_that_failed_once_is_still_tried", released(10, 10, 2, 8), goes(0, quarter, true)},
		{"canary_at_the_limit_passes", released(10, 10, 2, 10), goes(0, quarter, true)},
		{"canary_above_the_limit_pauses", released(10, 10, 3, 7),
			pauses(false, "the canary failed: of the 10 first items that were tried 3 failed at first, which is more than 20 %")},
		{"canary_is_judged_when_complete", released(5, 5, 5, 0), goes(5, quarter, false)},
		{"canary_looks_further_behind_skipped_items", func(j *hub.ReplayJob) { j.Skipped = 10 }, goes(10, quarter, false)},
		{"canary_of_which_some_were_skipped", func(j *hub.ReplayJob) { j.Released, j.Tried, j.Skipped = 7, 7, 3 }, goes(3, quarter, false)},
		{"canary_that_ended_untried_is_waited_for_no_more", func(j *hub.ReplayJob) { j.Released, j.Tried, j.Delivered, j.Dead = 10, 8, 8, 2 },
			goes(0, quarter, true)},
		{"canary_of_a_set_that_is_no_larger_is_not_judged", func(j *hub.ReplayJob) { j.Total, j.Released, j.Tried, j.Failed = 10, 10, 10, 10 },
			goes(0, start, false)},
		{"canary_of_0_is_none", func(j *hub.ReplayJob) { j.Pace.Canary = 0 }, goes(25, quarter, false)},
		{"canary_100_percent_never_pauses", func(j *hub.ReplayJob) {
			j.Pace.PauseAbovePercent, j.Released, j.Tried, j.Failed = 100, 10, 10, 10
		}, goes(0, quarter, true)},
		{"canary_that_passes_paces_nothing_back", then(released(10, 10, 0, 10), func(j *hub.ReplayJob) { j.PacedTo = quarter.Add(time.Millisecond) }),
			goes(0, quarter.Add(time.Millisecond), true)},
		{"canary_forgets_what_was_judged", func(j *hub.ReplayJob) {
			j.Released, j.Tried, j.Failed, j.JudgedTried, j.JudgedFailed = 10, 10, 6, 5, 5
		}, goes(0, quarter, true)},
		{"others_follow_when_it_passed", then(released(10, 10, 0, 10), passed), goes(25, quarter, true)},

		{"failures_of_19_stop_nothing", then(released(40, 19, 19, 0), passed), goes(25, quarter, true)},
		{"failures_of_20_above_the_limit_pause", then(released(40, 20, 5, 15), passed),
			pauses(true, "5 of the 20 items that were tried failed at first, which is more than 20 %")},
		{"failures_of_20_at_the_limit_go_on", then(released(40, 20, 4, 16), passed), goes(25, quarter, true)},
		{"failures_before_the_resumption_are_forgotten", then(released(40, 39, 25, 14), passed, func(j *hub.ReplayJob) {
			j.JudgedTried, j.JudgedFailed = 20, 20
		}), goes(25, quarter, true)},
		{"failures_with_a_limit_of_0", then(released(40, 20, 1, 19), passed, func(j *hub.ReplayJob) { j.Pace.PauseAbovePercent = 0 }),
			pauses(true, "1 of the 20 items that were tried failed at first, which is more than 0 %")},
		{"failures_stop_nothing_when_all_is_released", then(released(1000, 900, 900, 0), passed), goes(0, start, true)},

		{"untried_items_leave_room", then(released(999, 10, 0, 10), passed, func(j *hub.ReplayJob) { j.Total = 5000 }), goes(11, quarter, true)},
		{"untried_items_are_at_most_1000", then(released(1010, 10, 0, 10), passed, func(j *hub.ReplayJob) { j.Total = 5000 }), goes(0, start, true)},
		{"untried_items_are_at_most_10_seconds_of_the_rate", then(released(30_000, 11, 0, 11), passed, func(j *hub.ReplayJob) {
			j.Total, j.Pace.RatePerSecond = 50_000, 3000
		}), goes(11, quarter, true)},
		{"untried_are_not_those_that_fail", then(released(3000, 3000, 10, 0), passed, func(j *hub.ReplayJob) { j.Total = 5000 }), goes(25, quarter, true)},

		{"no_more_than_are_pending", then(released(995, 995, 0, 995), passed), goes(5, start.Add(50*time.Millisecond), true)},
		{"waits_for_the_ends", then(released(998, 998, 0, 997), passed, func(j *hub.ReplayJob) { j.Skipped = 2 }), goes(0, start, true)},
		{"completes_when_each_item_has_its_end", then(released(998, 998, 0, 990), passed, func(j *hub.ReplayJob) { j.Skipped, j.Dead = 2, 8 }),
			replay.Step{PacedTo: start, CanaryPassed: true, State: hub.JobCompleted}},
		{"completes_when_all_was_skipped", func(j *hub.ReplayJob) { j.Skipped = 1000 }, replay.Step{PacedTo: start, State: hub.JobCompleted}},
		{"completes_without_items", func(j *hub.ReplayJob) { j.Total = 0 }, replay.Step{PacedTo: start, State: hub.JobCompleted}},

		{"paused_stays", func(j *hub.ReplayJob) { j.State, j.PausedBy, j.Reason = hub.JobPaused, hub.DisabledByUser, "lunch" },
			replay.Step{PacedTo: start, State: hub.JobPaused, PausedBy: hub.DisabledByUser, Reason: "lunch"}},
		{"cancelled_stays", func(j *hub.ReplayJob) { j.State, j.Reason = hub.JobCancelled, "wrong" },
			replay.Step{PacedTo: start, State: hub.JobCancelled, Reason: "wrong"}},
		{"ready_waits_for_24_hours", func(j *hub.ReplayJob) { j.State, j.PreviewedAt = hub.JobReady, quarter.Add(-24*time.Hour+1) },
			replay.Step{PacedTo: start, State: hub.JobReady}},
		{"ready_expires_after_24_hours", func(j *hub.ReplayJob) { j.State, j.PreviewedAt = hub.JobReady, quarter.Add(-24*time.Hour) },
			replay.Step{PacedTo: start, State: hub.JobExpired, Reason: "it was not started within 24 h of its preview"}},
		{"preview_goes_on_for_24_hours", func(j *hub.ReplayJob) { j.State, j.CreatedAt = hub.JobPreviewing, quarter.Add(-24*time.Hour+1) },
			replay.Step{PacedTo: start, State: hub.JobPreviewing}},
		{"preview_expires_after_24_hours", func(j *hub.ReplayJob) { j.State, j.CreatedAt = hub.JobPreviewing, quarter.Add(-24*time.Hour) },
			replay.Step{PacedTo: start, State: hub.JobExpired, Reason: "the preview took longer than 24 h"}},
	} {
		t.Run(row.rule, func(t *testing.T) {
			j := running(row.job)
			before := *j
			if got := replay.Next(j, quarter); got != row.want {
				t.Errorf("\n got %+v\nwant %+v", got, row.want)
			}
			if diff := cmp.Diff(before, *j); diff != "" {
				t.Errorf("the job was changed: %s", diff)
			}
		})
	}
}
