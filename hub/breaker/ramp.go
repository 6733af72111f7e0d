package breaker

// RampEnd is where the ramp ends: from here on there is no limit but the
// ordinary ones.
const RampEnd = 64

// Ramp is how many attempts to the destination one process may have under way
// at a time; 0 for no limit of the breaker's.
//
// After a closing it is 1 and grows by 1 with each success, of whichever
// replica: a round of n successes makes it 2n, so it doubles as fast as the
// destination answers and no faster. A failure that counts begins it anew.
// While the circuit is open it is 1, for last attempts.
func Ramp(s State) int {
	if s.isOpen() {
		return 1
	}
	return int(max(s.RampLimit, 0))
}

// ramped is a limit after a sum of outcomes; 0 past the end.
func ramped(limit int32, d Delta) int32 {
	if d.Failed {
		limit = 1
	}
	if d.Gained >= RampEnd-limit {
		return 0
	}
	return limit + d.Gained
}
