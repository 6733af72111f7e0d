package replay

import (
	"time"

	"github.com/streaming-hub/streaming-hub/hub"
)

// makeUp is how much lost time a late step makes up for, at most.
const makeUp = time.Second

// release takes as many items as the rate and the room allow. Each item has a
// place in time, 1/rate after the one before it, and is released by the first
// step at or after it: however long the steps take, the sum is right. PacedTo
// is the place of the last one, so that it does not matter who steps.
func (s *Step) release(j *hub.ReplayJob, room int64, now time.Time) {
	rate := int64(max(j.Pace.RatePerSecond, 1))
	from := j.PacedTo
	switch late := now.Sub(from); {
	case from.IsZero() || late < -makeUp:
		// Never paced, or by a clock that was ahead: it begins now.
		s.PacedTo = ceilMicro(now)
		return
	case late > 2*makeUp:
		from = now.Add(-makeUp) // the product below stays small
	}
	places := int64(now.Sub(from)) * rate / int64(time.Second)
	due := min(places, rate*int64(makeUp/time.Second))
	n := min(due, j.Pending(), room, MaxRelease)
	if n <= 0 {
		return
	}
	s.Release = int(n)
	if n == room && n < due {
		s.PacedTo = ceilMicro(now) // what there was no room for is lost
		return
	}
	lost := places - due
	s.PacedTo = ceilMicro(from.Add(time.Duration(((lost+n)*int64(time.Second) + rate - 1) / rate)))
}

// ceilMicro rounds up to what Postgres keeps: rounded down, each step would
// gain a little.
func ceilMicro(t time.Time) time.Time {
	if down := t.Truncate(time.Microsecond); down.Before(t) {
		return down.Add(time.Microsecond)
	}
	return t
}
