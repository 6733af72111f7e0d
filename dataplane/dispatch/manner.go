package dispatch

import "time"

// slowAfter is from when on an attempt counts as slow. It is far above what a
// healthy receiver takes and far below any timeout.
const slowAfter = time.Second

// manner is how a destination has behaved toward this process. The zero value
// is that of one that was never seen.
type manner struct {
	// Known: an attempt ended within slowAfter, in whatever way.
	Known bool
	// Slow: the last attempt that ended, or one that still runs, took longer.
	Slow bool
	// Grown is how many attempts at once the destination has earned: 1 at first,
	// doubled by each success, halved by each slow failure; 0 means 1.
	Grown int
}

// Suspect reports whether an attempt may turn out to hang. Suspects share half
// of the workers, however many they are.
func (m manner) Suspect() bool { return m.Slow || !m.Known }

// After is the manner after an attempt that took so long.
func (m manner) After(took time.Duration, succeeded bool, workers int) manner {
	slow := took > slowAfter
	if m.Slow = slow; !slow {
		m.Known = true
	}
	grown := max(m.Grown, 1)
	switch {
	case succeeded:
		grown *= 2
	case slow:
		grown /= 2
	}
	m.Grown = min(max(grown, 1), DestinationCap(workers))
	return m
}

// Running is the manner while an attempt runs longer than slowAfter.
func (m manner) Running() manner {
	m.Slow = true
	return m
}

// Allowance is how many workers of a process the destination may hold: what it
// has earned, never more than the cap, and no more than a recovering circuit
// lets through (ramp; 0 for no limit).
func (m manner) Allowance(workers, ramp int) int {
	n := min(max(m.Grown, 1), DestinationCap(workers))
	if ramp > 0 {
		n = min(n, ramp)
	}
	return n
}
