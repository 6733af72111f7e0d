package retry

import (
	"time"

	"github.com/streaming-hub/streaming-hub/hub"
)

// LastFrom is from when on an attempt of a run is the last: from the moment it
// is due when it is the last by number, else from the age limit on. attempt is
// its number within the run, due when it may start, received the receipt of
// the event (of a replay, the start of the run), skipped the first failed or
// skipped try.
func LastFrom(p hub.RetryPolicy, attempt int32, due, received, skipped time.Time) time.Time {
	pl := planOf(p)
	switch {
	case attempt >= pl.attempts:
		return due
	case pl.steps == nil:
		return skipped.Add(pl.ageLimit)
	default:
		return received.Add(pl.ageLimit)
	}
}
