package breaker_test

import (
	"slices"
	"time"

	"github.com/streaming-hub/streaming-hub/hub"
	"github.com/streaming-hub/streaming-hub/hub/breaker"
)

// seenOutcome is an outcome as a process saw it.
type seenOutcome struct {
	breaker.Outcome
	at time.Time
}

// reference is the breaker as its rules are told, over lists instead of sums:
// slow, and with nothing of the code it is compared with.
type reference struct {
	phase      breaker.Phase
	cause      breaker.Cause
	generation int64
	row        int
	log        []seenOutcome // counted ones of this generation, while closed
	wait       time.Duration
	nextProbe  time.Time
	probe      hub.AttemptID
	probeSince time.Time
	ramp       int // 0 for no limit
}

func (r *reference) open(cause breaker.Cause, now time.Time) {
	r.phase, r.cause, r.generation = breaker.Open, cause, r.generation+1
	r.wait, r.nextProbe, r.ramp = 30*time.Second, now.Add(30*time.Second), 1
}

func (r *reference) close() {
	*r = reference{phase: breaker.Closed, generation: r.generation + 1, ramp: 1}
}

// admit returns what a delivery may do: "run", "probe" or "wait".
func (r *reference) admit(now time.Time, last bool) string {
	probe := r.phase == breaker.Open && now.Sub(r.nextProbe) >= 0 ||
		r.phase == breaker.HalfOpen && now.Sub(r.probeSince) >= time.Minute
	switch {
	case r.phase == breaker.Closed:
		return "run"
	case probe:
		return "probe"
	case last:
		return "run"
	default:
		return "wait"
	}
}

func (r *reference) takeProbe(id hub.AttemptID, now time.Time) {
	r.phase, r.probe, r.probeSince = breaker.HalfOpen, id, now
}

func (r *reference) probeEnded(o breaker.Outcome, now time.Time) {
	r.probe = hub.AttemptID{}
	switch o.Kind {
	case breaker.Succeeded:
		r.close()
	case breaker.Failed:
		r.phase, r.row = breaker.Open, r.row+1
		if r.wait *= 2; r.wait > 10*time.Minute {
			r.wait = 10 * time.Minute
		}
		r.nextProbe = now.Add(r.wait)
		if asked := min(o.RetryAfter, 10*time.Minute); asked > r.wait {
			r.nextProbe = now.Add(asked)
		}
	default:
		r.phase, r.nextProbe = breaker.Open, now.Add(time.Second)
	}
}

// write takes the list of what one process saw since its last write.
func (r *reference) write(list []seenOutcome, now time.Time) {
	list = slices.DeleteFunc(slices.Clone(list), func(o seenOutcome) bool { return o.Kind == breaker.Neutral })
	isSuccess := func(o seenOutcome) bool { return o.Kind == breaker.Succeeded }
	succeeded := slices.ContainsFunc(list, isSuccess)
	current := slices.DeleteFunc(slices.Clone(list), func(o seenOutcome) bool { return o.Generation != r.generation })
	tail := 0 // failures of this generation since the list's last success
	latest := int64(0)
	for _, o := range list {
		latest = max(latest, o.Generation)
	}
	tailLatest := 0 // the same of the newest generation that the list knows
	for i := len(list) - 1; i >= 0 && !isSuccess(list[i]); i-- {
		if list[i].Generation == r.generation {
			tail++
		}
		if list[i].Generation == latest {
			tailLatest++
		}
	}
	if r.phase != breaker.Closed {
		switch {
		case slices.ContainsFunc(current, isSuccess), r.cause == breaker.CauseRow && succeeded && tailLatest == 0:
			r.close()
		default:
			r.row += tail
		}
		return
	}
	if succeeded {
		r.row = 0
	}
	r.row += tail
	r.log = append(r.log, current...)
	if len(current) == 0 {
		return
	}
	failed := slices.ContainsFunc(current, func(o seenOutcome) bool { return !isSuccess(o) })
	if failed && r.ramp > 0 {
		r.ramp = 1
	}
	for i := len(current) - 1; i >= 0 && isSuccess(current[i]) && r.ramp > 0; i-- {
		if r.ramp++; r.ramp >= 64 {
			r.ramp = 0
		}
	}
	attempts, failures := r.counts(now)
	switch {
	case !failed:
	case attempts >= 10 && 2*failures >= attempts:
		r.open(breaker.CauseRatio, now)
	case r.row >= 5:
		r.open(breaker.CauseRow, now)
	}
}

// counts are attempts and failures of the last twelve calendar ten seconds.
func (r *reference) counts(now time.Time) (attempts, failures int64) {
	for _, o := range r.log {
		if now.Unix()/10-o.at.Unix()/10 < 12 {
			attempts++
			if o.Kind == breaker.Failed {
				failures++
			}
		}
	}
	return attempts, failures
}
