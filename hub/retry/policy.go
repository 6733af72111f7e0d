package retry

import (
	"errors"
	"fmt"
	"time"

	"github.com/streaming-hub/streaming-hub/hub"
)

// Bounds of the policies that a subscription may have.
const (
	MaxScheduleSteps = 12
	MaxStep          = 10 * time.Hour

	MaxUnit           = 10 * time.Hour // of EXPONENTIAL, at least 1 ms
	MaxPolicyAttempts = 100            // of EXPONENTIAL, at least 1
)

// The age limits. Those of CURVE and SCHEDULE count from the receipt of the
// event, that of EXPONENTIAL from the first failed or skipped try.
const (
	CurveAgeLimit       = 24 * time.Hour
	ExponentialAgeLimit = 48 * time.Hour
)

// MaxRetryAfter bounds what a Retry-After header can ask for.
const MaxRetryAfter = 10 * time.Hour

// curve holds the steps before attempts 1 to 8; their sum is 27:35:05.
var curve = [...]time.Duration{
	0, 5 * time.Second, 5 * time.Minute, 30 * time.Minute,
	2 * time.Hour, 5 * time.Hour, 10 * time.Hour, 10 * time.Hour,
}

// Workfront is the preset of EXPONENTIAL: unit 84.8 s, 11 attempts in all,
// waits that sum to 47:57:32.8. With elapsed the same formula gives the time
// since the first failure, and there are 11 retries after the first attempt.
func Workfront(elapsed bool) hub.RetryPolicy {
	return hub.RetryPolicy{Kind: hub.RetryExponential, UnitMillis: 84_800, Attempts: 11, Elapsed: elapsed}
}

// Validate says in one sentence what is wrong with a policy.
func Validate(p hub.RetryPolicy) error {
	switch p.Kind {
	case "", hub.RetryCurve:
		if len(p.StepsMillis) > 0 || p.UnitMillis != 0 || p.Attempts != 0 || p.Elapsed {
			return errors.New("a CURVE retry policy takes no settings")
		}
	case hub.RetrySchedule:
		if p.UnitMillis != 0 || p.Attempts != 0 || p.Elapsed {
			return errors.New("a SCHEDULE retry policy takes steps only")
		}
		if len(p.StepsMillis) == 0 || len(p.StepsMillis) > MaxScheduleSteps {
			return fmt.Errorf("a SCHEDULE retry policy has %d steps; it needs 1 to %d", len(p.StepsMillis), MaxScheduleSteps)
		}
		for i, ms := range p.StepsMillis {
			if ms < 0 || ms > MaxStep.Milliseconds() {
				return fmt.Errorf("step %d of the SCHEDULE retry policy is %d ms; it needs 0 to %d ms (10 h)", i+1, ms, MaxStep.Milliseconds())
			}
		}
	case hub.RetryExponential:
		if len(p.StepsMillis) > 0 {
			return errors.New("an EXPONENTIAL retry policy takes no steps")
		}
		if p.UnitMillis < 1 || p.UnitMillis > MaxUnit.Milliseconds() {
			return fmt.Errorf("the unit of the EXPONENTIAL retry policy is %d ms; it needs 1 to %d ms (10 h)", p.UnitMillis, MaxUnit.Milliseconds())
		}
		if p.Attempts < 1 || p.Attempts > MaxPolicyAttempts {
			return fmt.Errorf("the EXPONENTIAL retry policy has %d attempts; it needs 1 to %d", p.Attempts, MaxPolicyAttempts)
		}
	default:
		return fmt.Errorf("retry policy %.40q is unknown; use CURVE, SCHEDULE or EXPONENTIAL", string(p.Kind))
	}
	return nil
}

// Effective is the policy that is used: p itself, or the CURVE and false when
// the stored p is malformed. Delivery never fails for a policy; the caller
// logs and counts the false.
func Effective(p hub.RetryPolicy) (hub.RetryPolicy, bool) {
	if Validate(p) != nil {
		return hub.RetryPolicy{Kind: hub.RetryCurve}, false
	}
	if p.Kind == "" {
		p.Kind = hub.RetryCurve
	}
	return p, true
}

// AgeLimit is the age from which a failed attempt is the last: 24 h; of a
// SCHEDULE the sum of its steps if that is more; of EXPONENTIAL 48 h.
func AgeLimit(p hub.RetryPolicy) time.Duration { return planOf(p).ageLimit }

// MaxAttempts is the number of attempts of one run, the first included.
func MaxAttempts(p hub.RetryPolicy) int32 { return planOf(p).attempts }

// plan is an effective policy in durations.
type plan struct {
	steps    []time.Duration // before attempts 1…N; nil of EXPONENTIAL
	unit     time.Duration
	attempts int32
	ageLimit time.Duration
	elapsed  bool
}

func planOf(p hub.RetryPolicy) plan {
	p, _ = Effective(p)
	switch p.Kind {
	case hub.RetrySchedule:
		pl := plan{attempts: int32(len(p.StepsMillis)), steps: make([]time.Duration, len(p.StepsMillis))}
		var sum time.Duration
		for i, ms := range p.StepsMillis {
			pl.steps[i] = time.Duration(ms) * time.Millisecond
			sum += pl.steps[i]
		}
		pl.ageLimit = max(CurveAgeLimit, sum)
		return pl
	case hub.RetryExponential:
		pl := plan{
			unit:     time.Duration(p.UnitMillis) * time.Millisecond,
			attempts: p.Attempts,
			ageLimit: ExponentialAgeLimit,
			elapsed:  p.Elapsed,
		}
		if p.Elapsed {
			pl.attempts++ // the formula counts retries
		}
		return pl
	default:
		return plan{steps: curve[:], attempts: int32(len(curve)), ageLimit: CurveAgeLimit}
	}
}

// doubled is (2^k − 1) × unit, or limit where that is more. It cannot
// overflow.
func doubled(unit time.Duration, k int32, limit time.Duration) time.Duration {
	if k <= 0 {
		return 0
	}
	if k >= 62 || unit > limit/(1<<k-1) {
		return limit
	}
	return unit * (1<<k - 1)
}
