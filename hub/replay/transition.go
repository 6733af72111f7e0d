package replay

import (
	"fmt"
	"time"

	"github.com/streaming-hub/streaming-hub/hub"
)

// Refusal says in one sentence why a job does not do what it is asked for.
type Refusal string

func (r Refusal) Error() string { return string(r) }

// Bounds of a job's pace.
const (
	MaxRate   = 10_000
	MaxCanary = 10_000
)

// CheckPace refuses a pace that no job may have.
func CheckPace(p hub.ReplayPace) error {
	switch {
	case p.RatePerSecond < 1 || p.RatePerSecond > MaxRate:
		return Refusal(fmt.Sprintf("the rate is %d items per second; it must be 1 to %d", p.RatePerSecond, MaxRate))
	case p.Canary < 0 || p.Canary > MaxCanary:
		return Refusal(fmt.Sprintf("the canary is %d items; it must be 0 to %d", p.Canary, MaxCanary))
	case p.PauseAbovePercent < 0 || p.PauseAbovePercent > 100:
		return Refusal(fmt.Sprintf("the job is to pause above %d %% failures; it must be 0 to 100", p.PauseAbovePercent))
	}
	return nil
}

// What people ask for alters the job, if that says it was changed. Asking again
// for what is so already is no error: the second click of two. A refusal leaves
// the job as it was.

// Start lets a previewed job run at a pace.
func Start(j *hub.ReplayJob, pace hub.ReplayPace, now time.Time) (changed bool, err error) {
	if err := CheckPace(pace); err != nil {
		return false, err
	}
	switch {
	case j.State == hub.JobRunning && j.Pace == pace:
		return false, nil
	case j.State == hub.JobRunning:
		return false, Refusal("the job runs already, at another pace")
	case j.State == hub.JobPaused:
		return false, Refusal("the job was started already and is paused: resume it")
	case j.State == hub.JobPreviewing:
		return false, Refusal("the preview is not complete yet")
	case j.State != hub.JobReady:
		return false, ended(j)
	case offerEnds(j, now):
		return false, Refusal("the preview is older than 24 h: make a new one")
	}
	j.Pace = pace
	j.StartedAt = now
	j.CanaryPassed = pace.Canary == 0
	goOn(j, now)
	return true, nil
}

// Pause stops the job; what was released goes on.
func Pause(j *hub.ReplayJob, reason string) (changed bool, err error) {
	switch {
	case j.State == hub.JobPaused:
		return false, nil
	case j.State.Ended():
		return false, ended(j)
	case j.State != hub.JobRunning:
		return false, Refusal("the job was not started yet")
	}
	j.State, j.PausedBy, j.Reason = hub.JobPaused, hub.DisabledByUser, reason
	return true, nil
}

// Resume lets the job go on. Whoever asks has seen what failed: it is judged no
// more, and a canary that failed counts as passed.
func Resume(j *hub.ReplayJob, now time.Time) (changed bool, err error) {
	switch {
	case j.State == hub.JobRunning:
		return false, nil
	case j.State.Ended():
		return false, ended(j)
	case j.State != hub.JobPaused:
		return false, Refusal("the job was not started yet")
	}
	j.CanaryPassed = j.CanaryPassed || j.PausedBy == hub.DisabledByAuto
	goOn(j, now)
	return true, nil
}

// Cancel gives the job up; what was released goes on.
func Cancel(j *hub.ReplayJob, reason string, now time.Time) (changed bool, err error) {
	switch {
	case j.State == hub.JobCancelled:
		return false, nil
	case j.State.Ended():
		return false, ended(j)
	}
	j.State, j.PausedBy, j.Reason = hub.JobCancelled, "", reason
	j.FinishedAt = now
	return true, nil
}

func goOn(j *hub.ReplayJob, now time.Time) {
	j.State, j.PausedBy, j.Reason = hub.JobRunning, "", ""
	j.PacedTo = ceilMicro(now)
	j.JudgedTried, j.JudgedFailed = j.Tried, j.Failed
}

// ended refuses what a job that has ended cannot do.
func ended(j *hub.ReplayJob) Refusal {
	switch j.State {
	case hub.JobCompleted:
		return "the job is completed"
	case hub.JobCancelled:
		return "the job was cancelled"
	case hub.JobExpired:
		return "the job has expired: make a new preview"
	default:
		return Refusal("the job failed: " + j.Reason)
	}
}
