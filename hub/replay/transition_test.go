package replay_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/streaming-hub/streaming-hub/hub"
	"github.com/streaming-hub/streaming-hub/hub/replay"
)

var pace = hub.ReplayPace{RatePerSecond: 50, Canary: 10, PauseAbovePercent: 20}

// Each row is a job in some state, what is asked of it, and either what it
// then is or why not.
func TestTransitions(t *testing.T) {
	now := start.Add(time.Hour)
	begin := func(p hub.ReplayPace) func(*hub.ReplayJob) (bool, error) {
		return func(j *hub.ReplayJob) (bool, error) { return replay.Start(j, p, now) }
	}
	pause := func(j *hub.ReplayJob) (bool, error) { return replay.Pause(j, "lunch") }
	resume := func(j *hub.ReplayJob) (bool, error) { return replay.Resume(j, now) }
	cancel := func(j *hub.ReplayJob) (bool, error) { return replay.Cancel(j, "wrong filter", now) }
	in := func(s hub.JobState) func(*hub.ReplayJob) {
		return func(j *hub.ReplayJob) {
			j.State = s
			if s == hub.JobPaused {
				j.PausedBy, j.Reason = hub.DisabledByUser, "lunch"
			}
		}
	}
	byHub := func(j *hub.ReplayJob) { j.State, j.PausedBy, j.Reason = hub.JobPaused, hub.DisabledByAuto, "failed" }
	nothing := func(*hub.ReplayJob) {}
	cancelled := func(j *hub.ReplayJob) {
		j.State, j.PausedBy, j.Reason, j.FinishedAt = hub.JobCancelled, "", "wrong filter", now
	}
	resumed := func(j *hub.ReplayJob) {
		j.State, j.PausedBy, j.Reason, j.PacedTo, j.JudgedTried, j.JudgedFailed = hub.JobRunning, "", "", now, 30, 12
	}
	slow := pace
	slow.RatePerSecond = 1
	alone := pace
	alone.Canary = 0
	for _, row := range []struct {
		rule    string
		job     func(*hub.ReplayJob)
		do      func(*hub.ReplayJob) (bool, error)
		want    func(*hub.ReplayJob) // from the job as it was
		refused string
	}{
		{"start_ready", in(hub.JobReady), begin(slow), func(j *hub.ReplayJob) {
			resumed(j)
			j.Pace, j.StartedAt = slow, now
		}, ""},
		{"start_without_a_canary", in(hub.JobReady), begin(alone), func(j *hub.ReplayJob) {
			resumed(j)
			j.Pace, j.StartedAt, j.CanaryPassed = alone, now, true
		}, ""},
		{"start_twice_is_once", in(hub.JobRunning), begin(pace), nothing, ""},
		{"start_at_another_pace", in(hub.JobRunning), begin(slow), nil, "the job runs already, at another pace"},
		{"start_paused", in(hub.JobPaused), begin(pace), nil, "the job was started already and is paused: resume it"},
		{"start_before_the_preview", in(hub.JobPreviewing), begin(pace), nil, "the preview is not complete yet"},
		{"start_after_24_hours", func(j *hub.ReplayJob) { j.State, j.PreviewedAt = hub.JobReady, now.Add(-24*time.Hour) }, begin(pace), nil,
			"the preview is older than 24 h: make a new one"},
		{"start_completed", in(hub.JobCompleted), begin(pace), nil, "the job is completed"},
		{"start_cancelled", in(hub.JobCancelled), begin(pace), nil, "the job was cancelled"},
		{"start_expired", in(hub.JobExpired), begin(pace), nil, "the job has expired: make a new preview"},
		{"start_failed", func(j *hub.ReplayJob) { j.State, j.Reason = hub.JobFailed, "too large" }, begin(pace), nil, "the job failed: too large"},
		{"start_at_rate_0", in(hub.JobReady), begin(hub.ReplayPace{}), nil, "the rate is 0 items per second; it must be 1 to 10000"},

		{"pause_running", in(hub.JobRunning), pause, func(j *hub.ReplayJob) {
			j.State, j.PausedBy, j.Reason = hub.JobPaused, hub.DisabledByUser, "lunch"
		}, ""},
		{"pause_twice_is_once", in(hub.JobPaused), pause, nothing, ""},
		{"pause_what_the_hub_paused", byHub, pause, nothing, ""},
		{"pause_ready", in(hub.JobReady), pause, nil, "the job was not started yet"},
		{"pause_previewing", in(hub.JobPreviewing), pause, nil, "the job was not started yet"},
		{"pause_completed", in(hub.JobCompleted), pause, nil, "the job is completed"},

		{"resume_forgets_what_failed", in(hub.JobPaused), resume, resumed, ""},
		{"resume_a_canary_that_failed", byHub, resume, func(j *hub.ReplayJob) { resumed(j); j.CanaryPassed = true }, ""},
		{"resume_behind_the_canary", func(j *hub.ReplayJob) { in(hub.JobPaused)(j); j.CanaryPassed = true }, resume, resumed, ""},
		{"resume_twice_is_once", in(hub.JobRunning), resume, nothing, ""},
		{"resume_ready", in(hub.JobReady), resume, nil, "the job was not started yet"},
		{"resume_cancelled", in(hub.JobCancelled), resume, nil, "the job was cancelled"},

		{"cancel_previewing", in(hub.JobPreviewing), cancel, cancelled, ""},
		{"cancel_ready", in(hub.JobReady), cancel, cancelled, ""},
		{"cancel_running", in(hub.JobRunning), cancel, cancelled, ""},
		{"cancel_paused", byHub, cancel, cancelled, ""},
		{"cancel_twice_is_once", in(hub.JobCancelled), cancel, nothing, ""},
		{"cancel_completed", in(hub.JobCompleted), cancel, nil, "the job is completed"},
	} {
		t.Run(row.rule, func(t *testing.T) {
			j := &hub.ReplayJob{
				Version: 7, Pace: pace, Total: 100, Released: 40, Tried: 30, Failed: 12, PacedTo: start, StartedAt: start, PreviewedAt: start,
			}
			row.job(j)
			before := *j
			changed, err := row.do(j)
			want := before
			if row.refused != "" {
				var refusal replay.Refusal
				if !errors.As(err, &refusal) || err.Error() != row.refused {
					t.Errorf("error %v, want %s", err, row.refused)
				}
			} else if row.want(&want); err != nil {
				t.Error(err)
			}
			if diff := cmp.Diff(want, *j); diff != "" {
				t.Error(diff)
			}
			if changed == cmp.Equal(before, want) {
				t.Errorf("says that changed is %v", changed)
			}
		})
	}
}

func TestCheckPace(t *testing.T) {
	for _, row := range []struct {
		rule string
		pace hub.ReplayPace
		ok   bool
	}{
		{"least", hub.ReplayPace{RatePerSecond: 1}, true},
		{"most", hub.ReplayPace{RatePerSecond: 10_000, Canary: 10_000, PauseAbovePercent: 100}, true},
		{"no_rate", hub.ReplayPace{}, false},
		{"rate_above", hub.ReplayPace{RatePerSecond: 10_001}, false},
		{"canary_below", hub.ReplayPace{RatePerSecond: 1, Canary: -1}, false},
		{"canary_above", hub.ReplayPace{RatePerSecond: 1, Canary: 10_001}, false},
		{"percent_below", hub.ReplayPace{RatePerSecond: 1, PauseAbovePercent: -1}, false},
		{"percent_above", hub.ReplayPace{RatePerSecond: 1, PauseAbovePercent: 101}, false},
	} {
		t.Run(row.rule, func(t *testing.T) {
			if err := replay.CheckPace(row.pace); (err == nil) != row.ok {
				t.Errorf("error %v", err)
			}
		})
	}
}
