package circuit_test

import (
	"time"

	"github.com/streaming-hub/streaming-hub/hub"
	"github.com/streaming-hub/streaming-hub/hub/breaker"
)

// reference is one breaker for the whole cluster as its rules are told: it is
// asked about one outcome after the other, and shares nothing with the code it
// is compared with.
type reference struct {
	open       bool
	probe      hub.AttemptID // zero unless half open
	probeSince time.Time
	byRow      bool
	generation int64
	row        int
	log        []counted // of this generation, while closed
	wait       time.Duration
	next       time.Time
	ramp       int // 0 for no limit
	// fresh says that a success came after the last failure. A replica may
	// write it after the next failure, which it then hides.
	fresh bool
}

type counted struct {
	at     time.Time
	failed bool
}

func (r *reference) phase() breaker.Phase {
	switch {
	case !r.open:
		return breaker.Closed
	case r.probe.IsZero():
		return breaker.Open
	default:
		return breaker.HalfOpen
	}
}

// admit is what a delivery may do: "run", "probe" or "wait".
func (r *reference) admit(now time.Time, last bool) string {
	due := r.open && r.probe.IsZero() && !now.Before(r.next) || !r.probe.IsZero() && now.Sub(r.probeSince) >= time.Minute
	switch {
	case due:
		return "probe"
	case !r.open || last:
		return "run"
	default:
		return "wait"
	}
}

func (r *reference) take(id hub.AttemptID, now time.Time) { r.probe, r.probeSince = id, now }

func (r *reference) close() {
	*r = reference{generation: r.generation + 1, ramp: 1, fresh: true}
}

// ended takes an outcome of now. It is judged then and, when that moves
// nothing, again when it is written.
func (r *reference) ended(o breaker.Outcome, now, written time.Time) {
	current := o.Generation == r.generation
	switch {
	case !o.Probe.IsZero() && o.Probe == r.probe:
		r.probeEnded(o, now)
	case o.Kind == breaker.Neutral:
	case o.Kind == breaker.Succeeded && r.open:
		if current || r.byRow {
			r.close()
		}
	case o.Kind == breaker.Succeeded:
		r.row, r.fresh = 0, true
		if current {
			r.log = append(r.log, counted{now, false})
			if r.ramp > 0 {
				if r.ramp++; r.ramp >= 64 {
					r.ramp = 0
				}
			}
		}
	case !current: // slow, from before
	case r.open:
		r.row++
	default:
		r.row++
		r.log = append(r.log, counted{now, true})
		if r.ramp > 0 {
			r.ramp = 1
		}
		if r.judge(now); !r.open {
			r.judge(written)
		}
	}
}

func (r *reference) probeEnded(o breaker.Outcome, now time.Time) {
	r.probe = hub.AttemptID{}
	switch o.Kind {
	case breaker.Succeeded:
		r.close()
	case breaker.Failed:
		r.row++
		r.wait = min(2*r.wait, 10*time.Minute)
		r.next = now.Add(max(r.wait, min(o.RetryAfter, 10*time.Minute)))
	default:
		r.next = now.Add(time.Second)
	}
}

func (r *reference) judge(now time.Time) {
	attempts, failures := 0, 0
	for _, c := range r.log {
		if now.Unix()/10-c.at.Unix()/10 < 12 {
			attempts++
			if c.failed {
				failures++
			}
		}
	}
	ratio := attempts >= 10 && 2*failures >= attempts
	if r.row >= 5 || ratio {
		r.open, r.byRow, r.ramp = true, !ratio, 1
		r.generation++
		r.wait, r.next = 30*time.Second, now.Add(30*time.Second)
	}
}
