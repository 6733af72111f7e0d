package retry

import (
	"time"

	"github.com/streaming-hub/streaming-hub/hub"
)

// InForce is the policy by which attempts are made: the effective one, in which
// curve, if it has any steps, replaces those of the CURVE. sound is false for a
// stored policy that is malformed, see [Effective].
func InForce(stored hub.RetryPolicy, curve []time.Duration) (p hub.RetryPolicy, sound bool) {
	p, sound = Effective(stored)
	if p.Kind != hub.RetryCurve || len(curve) == 0 {
		return p, sound
	}
	p = hub.RetryPolicy{Kind: hub.RetrySchedule}
	for _, step := range curve {
		p.StepsMillis = append(p.StepsMillis, step.Milliseconds())
	}
	return p, sound
}
