package replay_test

import (
	"testing"
	"time"

	"github.com/streaming-hub/streaming-hub/hub"
	"github.com/streaming-hub/streaming-hub/hub/replay"
)

func TestExplain(t *testing.T) {
	for _, row := range []struct {
		rule string
		job  func(*hub.ReplayJob)
		want string
	}{
		{"previewing", func(j *hub.ReplayJob) { j.State, j.Total = hub.JobPreviewing, 1500 }, "The set is being frozen: 1500 items so far."},
		{"ready", func(j *hub.ReplayJob) { j.State, j.PreviewedAt = hub.JobReady, start }, "1000 items can be started until 2026-03-02T12:00:00Z."},
		{"ready_too_old", func(j *hub.ReplayJob) { j.State, j.PreviewedAt = hub.JobReady, start.Add(-24*time.Hour) },
			"The preview is older than 24 h: the job expires."},
		{"canary_is_going_out", func(j *hub.ReplayJob) { j.Released = 4 },
			"The canary goes first: 4 of 10 items are released; the other 990 follow when each of them was tried, if at most 20 % fail."},
		{"canary_is_out", func(j *hub.ReplayJob) { j.Released, j.Tried = 10, 7 },
			"The canary is out: 3 of its 10 items have not been tried yet; the other 990 follow if at most 20 % fail."},
		{"releasing", func(j *hub.ReplayJob) { j.Released, j.Tried, j.Skipped, j.CanaryPassed = 300, 250, 100, true },
			"300 of 1000 items are released; the other 600 follow at 100 per second, in 6s or longer."},
		{"waiting_for_tries", func(j *hub.ReplayJob) { j.Total, j.Released, j.CanaryPassed = 5000, 1000, true },
			"1000 items wait for their first try; the other 4000 follow when fewer than 1000 wait."},
		{"waiting_for_ends", func(j *hub.ReplayJob) { j.Released, j.Tried, j.Delivered, j.CanaryPassed = 1000, 1000, 990, true },
			"No item is pending any more; 10 of 1000 items have no end yet."},
		{"about_to_complete", func(j *hub.ReplayJob) { j.Skipped = 1000 }, "Each item has its end: the job completes."},
		{"paused_by_the_hub", func(j *hub.ReplayJob) {
			j.State, j.PausedBy, j.Reason, j.Released = hub.JobPaused, hub.DisabledByAuto, "too many failed", 999
		},
			"Paused by the hub: too many failed; 1 item waits until it is resumed."},
		{"paused_by_a_user", func(j *hub.ReplayJob) { j.State, j.PausedBy = hub.JobPaused, hub.DisabledByUser },
			"Paused by a user; 1000 items wait until it is resumed."},
		{"completed", func(j *hub.ReplayJob) {
			j.State, j.Released, j.Delivered, j.Dead, j.Skipped = hub.JobCompleted, 990, 980, 10, 10
		},
			"1000 items are done: 980 delivered, 10 dead, 10 skipped."},
		{"cancelled", func(j *hub.ReplayJob) {
			j.State, j.Reason, j.Released, j.Delivered = hub.JobCancelled, "wrong filter", 300, 290
		},
			"Cancelled: wrong filter; 300 of 1000 items were released, 10 of them have no end yet."},
		{"cancelled_and_quiet", func(j *hub.ReplayJob) { j.State = hub.JobCancelled }, "Cancelled; 0 of 1000 items were released."},
		{"expired", func(j *hub.ReplayJob) {
			j.State, j.Reason = hub.JobExpired, "it was not started within 24 h of its preview"
		},
			"Expired: it was not started within 24 h of its preview."},
		{"failed", func(j *hub.ReplayJob) { j.State, j.Reason = hub.JobFailed, "the set is larger than 1000000 items" },
			"Failed: the set is larger than 1000000 items."},
	} {
		t.Run(row.rule, func(t *testing.T) {
			if got := replay.Explain(running(row.job), start); got != row.want {
				t.Errorf("\n got %s\nwant %s", got, row.want)
			}
		})
	}
}
