package breaker

import (
	"fmt"
	"time"

	"github.com/streaming-hub/streaming-hub/hub"
)

// Admission is what the breaker says to a delivery that is due.
type Admission struct {
	Allow bool
	// Probe says that the attempt would be the probe. It may run only after
	// TakeProbe's state was stored; who loses that asks Admit again.
	Probe bool
	// PutOff is when to ask again, at the latest: the circuit may close before.
	// Zero when allowed. Putting off uses up no attempt.
	PutOff time.Time
	// Generation belongs into the Outcome.
	Generation int64
	// Reason says in one sentence why, "" while the circuit is closed.
	Reason string
}

// Admit decides about one delivery. last marks its last attempt, by number or
// by age: that runs whatever the phase, because putting it off would end the
// delivery unsent. Ramp limits how many of the allowed ones run at a time.
func Admit(s State, now time.Time, last bool) Admission {
	a := Admission{Allow: true, Generation: s.Generation}
	if !s.isOpen() {
		return a
	}
	since := "the circuit is open since " + clock(s.OpenedAt) + s.because()
	due, until := s.probeDue(now)
	switch {
	case due:
		a.Probe = true
		a.Reason = since + "; this attempt is the probe"
	case last:
		a.Reason = since + "; the last attempt of a delivery still runs"
	case s.Phase == HalfOpen:
		a.Allow, a.PutOff = false, until
		a.Reason = since + "; a probe is under way since " + clock(s.Probe.StartedAt)
	default:
		a.Allow, a.PutOff = false, until
		a.Reason = since + "; the next probe is due at " + clock(until)
	}
	return a
}

// TakeProbe makes an attempt the probe. It is false, and s is unchanged, when
// none is due. The attempt starts once the state is stored, and not later than
// ProbeLease − hub.MaxTimeout after now.
func TakeProbe(s State, attempt hub.AttemptID, now time.Time) (State, bool) {
	if !s.isOpen() {
		return s, false
	}
	if due, _ := s.probeDue(now); !due {
		return s, false
	}
	s.Phase = HalfOpen
	s.Probe = Probe{Attempt: attempt, StartedAt: now}
	return s, true
}

// probeDue reports whether an open circuit takes a probe at now, and if not,
// from when on. A moment further away than any wait can be was written by a
// wrong clock and counts as over.
func (s State) probeDue(now time.Time) (bool, time.Time) {
	until, longest := s.NextProbeAt, MaxOpen
	if s.Phase == HalfOpen {
		if s.Probe.Attempt == (hub.AttemptID{}) {
			return true, now
		}
		until, longest = s.Probe.StartedAt.Add(ProbeLease), 2*ProbeLease
	}
	wait := until.Sub(now)
	return wait <= 0 || wait > longest, until
}

// because is the cause as the end of a sentence.
func (s State) because() string {
	switch s.Cause {
	case CauseRow:
		return fmt.Sprintf(", after %d failures in a row", max(s.Failures, OpenRow))
	case CauseRatio:
		return ", when at least half of the attempts within 2 minutes had failed"
	case CauseEnabled:
		return ", when the destination was enabled again"
	default:
		return ""
	}
}

func clock(t time.Time) string { return t.UTC().Format("15:04:05 UTC") }
