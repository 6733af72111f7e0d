package breaker

import (
	"math"
	"time"

	"github.com/streaming-hub/streaming-hub/hub"
)

// After is the state after one attempt that ended at now. It is the only way
// for the outcome of a probe; those of other attempts may be summed in a Delta
// and applied together.
func After(s State, o Outcome, now time.Time) State {
	if s.Phase != HalfOpen || o.Probe == (hub.AttemptID{}) || o.Probe != s.Probe.Attempt {
		return Apply(s, Delta{}.Add(o, now), now) // also a probe that another one replaced
	}
	switch o.Kind {
	case Succeeded:
		return s.closed(now)
	case Failed:
		s.Phase, s.Probe = Open, Probe{}
		s.Failures = more(s.Failures, 1)
		s.OpenFor = min(max(2*s.OpenFor, FirstOpen), MaxOpen)
		s.NextProbeAt = now.Add(max(s.OpenFor, min(o.RetryAfter, MaxOpen)))
	default:
		s.Phase, s.Probe = Open, Probe{}
		s.NextProbeAt = now.Add(ProbePause)
	}
	return s
}

// Delta sums the outcomes that one process has seen since it last wrote. The
// zero value is empty.
type Delta struct {
	// Generation is the newest that an outcome was admitted in. Failures and
	// the window are of it alone.
	Generation int64
	Failures   int32 // in a row at the end
	Failed     bool  // there was a failure at all
	Succeeded  bool  // there was a success, of any generation
	Fresh      bool  // there was one of Generation
	Gained     int32 // successes after the last failure, for the ramp
	Window     Window
}

// Empty reports whether there is nothing to apply.
func (d Delta) Empty() bool { return !d.Failed && !d.Succeeded }

// Add is the sum with one more attempt that ended at now. Neutral outcomes and
// failures of an older generation change nothing.
func (d Delta) Add(o Outcome, now time.Time) Delta {
	if o.Kind == Neutral || o.Generation < d.Generation && o.Kind == Failed {
		return d
	}
	if o.Generation > d.Generation {
		d = Delta{Generation: o.Generation, Succeeded: d.Succeeded}
	}
	if o.Kind == Succeeded {
		d.Succeeded, d.Failures = true, 0
		if o.Generation < d.Generation {
			return d
		}
		d.Fresh = true
		d.Gained++
	} else {
		d.Failed, d.Gained = true, 0
		d.Failures = more(d.Failures, 1)
	}
	d.Window.add(o.Kind == Failed, now)
	return d
}

// Then is the sum of d and, after it, next: for a sum that could not be stored
// while the next one grew.
func (d Delta) Then(next Delta, now time.Time) Delta {
	switch {
	case next.Empty():
		return d
	case d.Empty():
		return next
	case next.Generation > d.Generation:
		next.Succeeded = next.Succeeded || d.Succeeded
		return next
	case next.Generation < d.Generation:
		// Admitted before, ended after: of an older generation only a success
		// counts, and it ends the row.
		if next.Succeeded {
			d.Succeeded, d.Failures = true, 0
		}
		return d
	}
	if next.Succeeded {
		d.Failures = 0
	}
	d.Failures = more(d.Failures, next.Failures)
	if next.Failed {
		d.Gained = 0
	}
	d.Gained += next.Gained
	d.Failed, d.Succeeded, d.Fresh = d.Failed || next.Failed, d.Succeeded || next.Succeeded, d.Fresh || next.Fresh
	d.Window.merge(next.Window, now)
	return d
}

// Settled reports whether a state has nothing that a success would change: a
// process that only sees successes need not write them then.
func (s State) Settled(now time.Time) bool {
	_, failures := s.Window.Totals(now)
	return !s.isOpen() && s.Failures == 0 && s.RampLimit == 0 && failures == 0
}

// IsOpen reports whether the circuit is open or half open.
func (s State) IsOpen() bool { return s.isOpen() }

// Apply adds a process's sum to the stored state. The same arguments give the
// same result on every replica.
//
// Closed, a success of any replica ends the row of failures, and a sum is
// judged by where it ends: five failures before a success open nothing. Open,
// a success closes the circuit if its attempt began after the opening. One
// that began before does so only if the cause was a row of failures, which it
// breaks unless this process saw a failure after it; it proves nothing against
// a ratio.
func Apply(s State, d Delta, now time.Time) State {
	current := d.Generation == s.Generation
	if s.isOpen() {
		broken := d.Succeeded && d.Failures == 0 && s.Cause == CauseRow
		if d.Fresh && current || broken {
			return s.closed(now)
		}
		if current {
			s.Failures = more(s.Failures, d.Failures)
		}
		return s
	}
	if d.Succeeded {
		s.Failures = 0
	}
	if !current {
		return s
	}
	s.Failures = more(s.Failures, d.Failures)
	s.Window.merge(d.Window, now)
	if s.RampLimit > 0 {
		s.RampLimit = ramped(s.RampLimit, d)
	}
	if !d.Failed {
		return s // a success opens nothing, not even as the tenth attempt
	}
	attempts, failures := s.Window.Totals(now)
	switch {
	case attempts >= MinAttempts && 2*failures >= attempts:
		return s.opened(CauseRatio, now)
	case s.Failures >= OpenRow:
		return s.opened(CauseRow, now)
	}
	return s
}

// more is a sum of counts, which ends at the largest number: a circuit may stay
// open, and last attempts go on failing, for years.
func more(a, b int32) int32 {
	if a > math.MaxInt32-b {
		return math.MaxInt32
	}
	return a + b
}
