package retry

import (
	"time"

	"github.com/streaming-hub/streaming-hub/hub"
)

// PreviewStep says when an attempt starts if all before it fail, counted from
// receipt of the event, attempts themselves taking no time.
type PreviewStep struct {
	Attempt  int32
	Earliest time.Duration
	// Latest is a bound that jitter comes close to and never reaches.
	Latest time.Duration
	Mean   time.Duration
}

// Preview is the timeline of one run. It ends with the last attempt by number
// or the first one whose earliest start is at or past the age limit.
func Preview(p hub.RetryPolicy) []PreviewStep {
	pl := planOf(p)
	out := make([]PreviewStep, 0, min(pl.attempts, 32))
	var at PreviewStep
	for n := int32(1); n <= pl.attempts; n++ {
		if n > 1 && at.Earliest >= pl.ageLimit {
			break
		}
		at.Attempt = n
		switch {
		case pl.steps != nil:
			at.Latest += pl.steps[n-1]
			at.Mean += pl.steps[n-1] / 2
		case n == 1:
		default:
			wait := pl.wait(Failed{Attempt: n - 1, SinceFirstFailure: at.Earliest})
			at.Earliest += wait
			at.Latest += wait
			at.Mean += wait
		}
		out = append(out, at)
	}
	return out
}
