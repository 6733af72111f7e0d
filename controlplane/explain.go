package controlplane

import (
	"fmt"
	"time"

	"github.com/streaming-hub/streaming-hub/hub"
	"github.com/streaming-hub/streaming-hub/hub/retry"
)

// Explain says in one sentence why a delivery stands where it stands and what
// comes next. last is its last attempt and sub its event subscription; either
// may be nil.
func Explain(now time.Time, s *hub.Standing, last *hub.RecordedAttempt, sub *hub.EventSubscription) string {
	switch s.State {
	case hub.Waiting:
		return explainWaiting(now, s, last, sub)
	case hub.InFlight:
		return fmt.Sprintf("in flight: attempt %d is being made%s", s.Attempts+1, afterFailure(last))
	case hub.Held:
		return "held: " + whyHeld(sub)
	case hub.Delivered:
		return explainDelivered(s, last)
	case hub.Dead:
		return explainDead(s, last)
	default:
		return "discarded: an operator gave it up, nothing more happens"
	}
}

func explainWaiting(now time.Time, s *hub.Standing, last *hub.RecordedAttempt, sub *hub.EventSubscription) string {
	next := "attempt " + fmt.Sprint(s.Attempts+1)
	if s.NextAt.After(now) {
		next += " comes at " + clock(now, s.NextAt)
	} else {
		next += " is due since " + clock(now, s.NextAt) + " and waits for a free worker"
	}
	return "waiting: " + next + afterFailure(last) + attemptsLeft(s, sub)
}

// attemptsLeft counts within the present run.
func attemptsLeft(s *hub.Standing, sub *hub.EventSubscription) string {
	if sub == nil {
		return ""
	}
	all := retry.MaxAttempts(sub.RetryPolicy)
	return fmt.Sprintf(", %d of %d attempts left", max(all-s.RunAttempts, 0), all)
}

func afterFailure(last *hub.RecordedAttempt) string {
	if last == nil || !last.Failure.Failed() {
		return ""
	}
	return fmt.Sprintf(", attempt %d failed with %s", last.Number, whatFailed(&last.Attempt))
}

func whatFailed(a *hub.Attempt) string {
	switch {
	case a.Failure.Class == hub.ErrStatus:
		return fmt.Sprintf("HTTP %d", a.Answer.Status)
	case a.Failure.Detail != "":
		return fmt.Sprintf("%s (%s)", a.Failure.Class, a.Failure.Detail)
	}
	return string(a.Failure.Class)
}

func whyHeld(sub *hub.EventSubscription) string {
	switch {
	case sub == nil:
		return "its event subscription is gone"
	case !sub.Enabled && sub.DisabledBy == hub.DisabledByAuto:
		return "its event subscription was disabled by the hub because the destination stayed broken; verify or enable it to go on"
	case !sub.Enabled:
		return "its event subscription is disabled; enable it to go on"
	case sub.VerificationState != hub.VerificationActive:
		return "its event subscription is not verified (" + string(sub.VerificationState) + "); verify it to go on"
	}
	return "its destination is not back yet"
}

func explainDelivered(s *hub.Standing, last *hub.RecordedAttempt) string {
	if last == nil || last.Decision.State != hub.Delivered {
		return "delivered"
	}
	took := time.Duration(last.Timings.Total) * time.Microsecond
	if took > time.Millisecond {
		took = took.Round(time.Millisecond)
	}
	return fmt.Sprintf("delivered: attempt %d was answered with HTTP %d in %s", last.Number, last.Answer.Status, took)
}

func explainDead(s *hub.Standing, last *hub.RecordedAttempt) string {
	lastSaw := ""
	if last != nil && last.Failure.Failed() {
		lastSaw = ", the last attempt failed with " + whatFailed(&last.Attempt)
	}
	switch s.DeadReason {
	case hub.DeadExhausted:
		return "dead: all attempts are used up" + lastSaw
	case hub.DeadExpired:
		return "dead: it became older than its retry policy allows" + lastSaw
	case hub.DeadPoison:
		return "dead: workers stopped again and again while they were at it"
	case hub.DeadSubscriptionDeleted:
		return "dead: its event subscription was deleted"
	case hub.DeadPayloadTooLarge:
		return "dead: the body is larger than may be sent"
	case hub.DeadDroppedFrozen:
		return "dead: its destination stayed frozen for too long"
	}
	return "dead" + lastSaw
}

// clock is a time of day in UTC, with the date when that is another day.
func clock(now, t time.Time) string {
	t, now = t.UTC(), now.UTC()
	if t.YearDay() == now.YearDay() && t.Year() == now.Year() {
		return t.Format("15:04:05 UTC")
	}
	return t.Format("2006-01-02 15:04:05 UTC")
}
