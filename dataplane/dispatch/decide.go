package dispatch

import (
	"fmt"
	"time"

	"github.com/streaming-hub/streaming-hub/hub"
	"github.com/streaming-hub/streaming-hub/hub/fingerprint"
	"github.com/streaming-hub/streaming-hub/hub/retry"
)

// Decide says what follows from an attempt: delivered, a further attempt, or
// the end. jitter is in [0, 1); now is when the attempt ended.
func Decide(d *hub.Delivery, a *hub.Attempt, policy hub.RetryPolicy, jitter float64, now time.Time) hub.Decision {
	if !a.Failure.Failed() {
		return hub.Decision{State: hub.Delivered, Counted: true, Reason: fmt.Sprintf("the receiver answered %d", a.Answer.Status)}
	}
	failed := retry.Failed{
		Attempt:    d.RunAttempts + 1,
		StartedAge: a.Started.Sub(d.ReceivedAt),
		Took:       now.Sub(a.Started),
		Jitter:     jitter,
	}
	if !d.FirstFailedAt.IsZero() {
		failed.SinceFirstFailure = a.Started.Sub(d.FirstFailedAt)
	}
	asked, hasAsked := retry.RetryAfter(a.Answer.Status, a.Answer.RetryAfter, now)
	if hasAsked {
		failed.RetryAfter = asked
	}
	step := retry.Next(policy, failed)
	total := retry.MaxAttempts(policy)
	if d.Test {
		step, total = retry.Step{Dead: hub.DeadExhausted}, 1
	}
	if step.Dead == "" && !d.LastAt.IsZero() && !a.Started.Before(d.LastAt) {
		step.Dead = hub.DeadExpired // it waited until its age limit without a try
	}
	if step.Dead != "" {
		return hub.Decision{
			State: hub.Dead, DeadReason: step.Dead, Counted: true,
			Fingerprint: fingerprint.Of(fingerprint.Cause{
				Destination: d.Destination, Phase: a.Failure.Phase, Class: a.Failure.Class,
				Status: a.Answer.Status, Body: a.Answer.Snippet,
			}),
			Reason: fmt.Sprintf("attempt %d of %d failed: %s; %s", failed.Attempt, total, a.Failure.Detail, deadWords[step.Dead]),
		}
	}
	reason := fmt.Sprintf("attempt %d of %d failed: %s; the next one is in %s",
		failed.Attempt, total, a.Failure.Detail, step.Wait.Round(time.Millisecond))
	if hasAsked && step.Wait == asked {
		reason += ", as the receiver asked"
	}
	next, first := now.Add(step.Wait), d.FirstFailedAt
	if first.IsZero() {
		first = a.Started
	}
	return hub.Decision{
		State: hub.Waiting, NextAt: next, LastAt: retry.LastFrom(policy, failed.Attempt+1, next, d.ReceivedAt, first),
		Counted: true, Reason: reason,
	}
}

var deadWords = map[hub.DeadReason]string{
	hub.DeadExhausted: "it was the last by number",
	hub.DeadExpired:   "it was the last because of the event's age",
}
