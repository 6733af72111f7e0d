package controlplane

import (
	"fmt"
	"time"

	"github.com/streaming-hub/streaming-hub/hub"
)

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

func explainDelivered(last *hub.RecordedAttempt) string {
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
		if last == nil || last.Decision.State != hub.Dead {
			return "dead: it became too old while it waited" + lastSaw
		}
		return "dead: it became older than its retry policy allows" + lastSaw
	case hub.DeadPoison:
		return "dead: workers stopped again and again while they were at it"
	case hub.DeadSubscriptionDeleted:
		return "dead: its event subscription was deleted" + lastSaw
	case hub.DeadPayloadTooLarge:
		return "dead: the body is larger than may be sent"
	case hub.DeadDroppedFrozen:
		return "dead: its destination stayed frozen for too long" + lastSaw
	}
	return "dead" + lastSaw
}
