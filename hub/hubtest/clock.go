package hubtest

import (
	"sync/atomic"
	"time"
)

var told atomic.Int64 // the last millisecond that Now gave; shared like the count of ids

// Now is the time, in a later millisecond than any that this process was told
// before: what was done at an earlier reading is older by its id, too, and a
// reading between two actions is between their ids. It runs ahead of the clock
// while it is asked more than once in a millisecond.
func Now() time.Time {
	for {
		now := time.Now()
		last := told.Load()
		if ahead := last + 1 - now.UnixMilli(); ahead > 0 {
			now = now.Add(time.Duration(ahead) * time.Millisecond)
		}
		if told.CompareAndSwap(last, now.UnixMilli()) {
			return now
		}
	}
}
