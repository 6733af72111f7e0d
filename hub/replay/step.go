// Package replay says how a replay job goes on: what it releases next, when it
// stops by itself, what people may do with it, and how long it may take.
//
//	step.go        Next: what is done now
//	pace.go        the rate
//	transition.go  Start, Pause, Resume, Cancel
//	estimate.go    how long the set takes
//	explain.go     one sentence on where a job stands
package replay

import (
	"fmt"
	"time"

	"github.com/streaming-hub/streaming-hub/hub"
)

const (
	// MaxWait is how long a preview may take, and then how long it is offered:
	// what it counted grows old.
	MaxWait = 24 * time.Hour
	// MaxRelease is how many items one step releases, so that its transaction
	// stays short. A step that releases as many is followed by another at once.
	MaxRelease = 500
	// MinJudged is how many items must have been tried before their failures
	// stop a job whose canary has passed: fewer say little.
	MinJudged = 20
	// MinUntried and UntriedSeconds bound the released items that nobody has
	// tried yet, by number or by seconds of the job's rate, whichever is more:
	// they are what a pause comes too late for.
	MinUntried     = 1000
	UntriedSeconds = 10
)

// Step is what is to be done with a job, in one transaction. A step that
// changes nothing repeats what the job says.
type Step struct {
	Release      int       // items, by ordinal, at most as many as are pending
	PacedTo      time.Time // whole microseconds, as Postgres keeps them
	CanaryPassed bool
	State        hub.JobState
	PausedBy     hub.DisabledBy
	Reason       string
}

// Next says how a job goes on at a moment of the clock by which it is paced.
func Next(j *hub.ReplayJob, now time.Time) Step {
	s := Step{PacedTo: j.PacedTo, CanaryPassed: j.CanaryPassed, State: j.State, PausedBy: j.PausedBy, Reason: j.Reason}
	switch {
	case j.State == hub.JobPreviewing && now.Sub(j.CreatedAt) >= MaxWait:
		s.State, s.Reason = hub.JobExpired, "the preview took longer than 24 h"
	case j.State == hub.JobReady && offerEnds(j, now):
		s.State, s.Reason = hub.JobExpired, "it was not started within 24 h of its preview"
	case j.State == hub.JobRunning:
		s.run(j, now)
	}
	return s
}

func offerEnds(j *hub.ReplayJob, now time.Time) bool { return now.Sub(j.PreviewedAt) >= MaxWait }

// run is the step of a running job.
func (s *Step) run(j *hub.ReplayJob, now time.Time) {
	if j.Pending() <= 0 {
		if j.Open() <= 0 {
			s.State = hub.JobCompleted
		}
		return
	}
	room := max(MinUntried, UntriedSeconds*int64(j.Pace.RatePerSecond)) - untried(j)
	if first := canaryLeft(j); first > 0 {
		room = min(room, first)
	} else if onCanary(j) {
		s.judgeCanary(j, now)
		return
	} else if tried := j.Tried - j.JudgedTried; tried >= MinJudged && spoiled(j) {
		s.pause(fmt.Sprintf("%d of the %d items that were tried failed at first, which is more than %d %%",
			j.Failed-j.JudgedFailed, tried, j.Pace.PauseAbovePercent))
		return
	}
	s.release(j, room, now)
}

// judgeCanary lets the others follow when each of the first items was tried.
func (s *Step) judgeCanary(j *hub.ReplayJob, now time.Time) {
	switch {
	case untried(j) > 0:
	case spoiled(j):
		s.pause(fmt.Sprintf("the canary failed: of the %d first items that were tried %d failed at first, which is more than %d %%",
			j.Tried-j.JudgedTried, j.Failed-j.JudgedFailed, j.Pace.PauseAbovePercent))
	default:
		s.CanaryPassed = true
		if s.PacedTo.Before(now) {
			s.PacedTo = ceilMicro(now) // the wait is not made up for
		}
	}
}

func (s *Step) pause(reason string) {
	s.State, s.PausedBy, s.Reason = hub.JobPaused, hub.DisabledByAuto, reason
}

// onCanary reports whether the first items still go alone.
func onCanary(j *hub.ReplayJob) bool { return !j.CanaryPassed && j.Pace.Canary > 0 }

// canaryLeft is how many items the canary lacks. Skipped items are none of
// it: others take their place, as long as there are any.
func canaryLeft(j *hub.ReplayJob) int64 {
	if !onCanary(j) {
		return 0
	}
	return min(max(int64(j.Pace.Canary)-j.Released, 0), j.Pending())
}

// untried is how many released items had no outcome yet. What has its end
// waits for none, even if it ended without an attempt.
func untried(j *hub.ReplayJob) int64 { return max(min(j.Released-j.Tried, j.Open()), 0) }

// spoiled reports whether too many of the items failed that were tried since
// the job was last started or resumed.
func spoiled(j *hub.ReplayJob) bool {
	return (j.Failed-j.JudgedFailed)*100 > (j.Tried-j.JudgedTried)*int64(j.Pace.PauseAbovePercent)
}
