package retry

import (
	"math"
	"time"

	"github.com/streaming-hub/streaming-hub/hub"
)

// Failed describes an attempt that just failed.
type Failed struct {
	// Attempt is its number within this run, from 1.
	Attempt int32
	// StartedAge is its start minus the receipt of the event. The run of a
	// replay counts from the start of that run instead, because the age of an
	// event never blocks a replay.
	StartedAge time.Duration
	// SinceFirstFailure is its start minus the start of the first failed or
	// skipped try of this run; 0 for the first.
	SinceFirstFailure time.Duration
	// Took is how long it lasted. Only an elapsed policy reads it: its wait is
	// measured from the attempt's start, and Step.Wait from its end.
	Took time.Duration
	// Jitter is a random number in [0, 1).
	Jitter float64
	// RetryAfter is the least wait the destination asked for, 0 for none; at
	// most MaxRetryAfter of it counts.
	RetryAfter time.Duration
}

// Step is what follows a failed attempt.
type Step struct {
	// Wait is the time from the end of the attempt to the next one.
	Wait time.Duration
	// Dead is why there is no next one; "" when there is.
	Dead hub.DeadReason
	// Last says that the next attempt is the last by its number.
	Last bool
	// LastByAge says that the next attempt, if it starts when due, is the
	// last because of the age limit.
	LastByAge bool
}

// First is the wait before the first attempt of a run: nothing, except for a
// SCHEDULE whose first step is not 0.
func First(p hub.RetryPolicy, jitter float64) time.Duration {
	if pl := planOf(p); len(pl.steps) > 0 {
		return jittered(pl.steps[0], jitter)
	}
	return 0
}

// Next decides what follows a failed attempt. An attempt that was the last by
// number and by age is EXHAUSTED. A malformed policy counts as the CURVE.
func Next(p hub.RetryPolicy, f Failed) Step {
	pl := planOf(p)
	age := f.StartedAge
	if pl.steps == nil {
		age = f.SinceFirstFailure
	}
	if f.Attempt >= pl.attempts {
		return Step{Dead: hub.DeadExhausted}
	}
	if age >= pl.ageLimit {
		return Step{Dead: hub.DeadExpired}
	}
	wait := max(pl.wait(f), min(f.RetryAfter, MaxRetryAfter))
	return Step{
		Wait:      wait,
		Last:      f.Attempt+1 >= pl.attempts,
		LastByAge: age+max(f.Took, 0)+wait >= pl.ageLimit,
	}
}

// wait is what the policy alone asks for after a failed attempt.
func (pl *plan) wait(f Failed) time.Duration {
	k := max(f.Attempt, 1)
	switch {
	case pl.steps != nil:
		return jittered(pl.steps[k], f.Jitter) // k < attempts = len(steps)
	case pl.elapsed:
		return max(0, doubled(pl.unit, k, pl.ageLimit)-f.SinceFirstFailure-max(f.Took, 0))
	default:
		return doubled(pl.unit, k, pl.ageLimit)
	}
}

// jittered is ⌊step × u⌋ in milliseconds.
func jittered(step time.Duration, u float64) time.Duration {
	if !(u > 0) { // also NaN
		return 0
	}
	ms := math.Floor(float64(step.Milliseconds()) * min(u, 1))
	return min(step, time.Duration(ms)*time.Millisecond)
}
