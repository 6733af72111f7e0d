package controlplane

import (
	"fmt"
	"strings"
	"time"

	"github.com/streaming-hub/streaming-hub/hub"
	"github.com/streaming-hub/streaming-hub/hub/match"
)

// ExplainMatch says in one sentence why an event matches an event subscription
// or does not, and what came of it. e is match.Explain of the two, judged by
// the subscription of now; delivery is the event's delivery for it, nil when
// there is none. Matching went by the subscription as it was when the event
// was stored, so the two can disagree, and the sentence says so.
func ExplainMatch(now time.Time, ev *hub.Event, sub *hub.EventSubscription, e match.Explanation, delivery *hub.Standing) string {
	switch {
	case e.Matched && delivery != nil:
		return fmt.Sprintf("it matched: all %d clauses hold, and its delivery is %s", len(e.Clauses), delivery.State)
	case e.Matched && sub.Kind == hub.SinkPull:
		return fmt.Sprintf("it matches: all %d clauses hold; a PULL subscription gets no deliveries, its tenant reads the event itself", len(e.Clauses))
	case e.Matched && sub.UpdatedAt.After(ev.ReceivedAt):
		return fmt.Sprintf("it would match now; it was stored before the subscription became deliverable, so it has no delivery: "+
			"the event was stored at %s, the subscription was made at %s and last changed at %s",
			clock(now, ev.ReceivedAt), clock(now, sub.CreatedAt), clock(now, sub.UpdatedAt))
	case e.Matched:
		return "it would match now; there is no delivery, so it was stored before the subscription became deliverable, or its delivery is past its retention"
	case delivery != nil:
		return fmt.Sprintf("it matched when it was stored, and its delivery is %s; it would not match now: %s", delivery.State, whyNot(e))
	}
	return "it did not match: " + whyNot(e)
}

// whyNot says what the first failed clause compared, and names the others that
// failed.
func whyNot(e match.Explanation) string {
	var first string
	var others []string
	for _, c := range e.Clauses {
		switch {
		case c.Passed:
		case first == "":
			first = failed(c)
		default:
			others = append(others, c.Name)
		}
	}
	if len(others) > 0 {
		first += " (" + strings.Join(others, ", ") + " would fail as well)"
	}
	return first
}

// failed puts one failed clause into words.
func failed(c match.Clause) string {
	switch c.Name {
	case match.ClauseTenant:
		return fmt.Sprintf("the event belongs to tenant %s, the subscription to %s", c.Got, c.Wanted)
	case match.ClauseEnabled:
		return "the subscription is " + c.Got
	case match.ClauseVerification:
		return fmt.Sprintf("the subscription is not verified, its state is %s", c.Got)
	case match.ClauseOrigin:
		return fmt.Sprintf("the subscription takes events of source %s only, and this one is of %s", c.Wanted, c.Got)
	case match.ClauseEventType:
		return fmt.Sprintf("the subscription's event types (%s) do not cover %s", c.Wanted, c.Got)
	}
	return fmt.Sprintf("the subscription takes schema major %s only, and this event has %s", c.Wanted, c.Got)
}
