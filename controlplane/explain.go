package controlplane

import (
	"fmt"
	"time"

	"github.com/streaming-hub/streaming-hub/hub"
	"github.com/streaming-hub/streaming-hub/hub/breaker"
	"github.com/streaming-hub/streaming-hub/hub/health"
	"github.com/streaming-hub/streaming-hub/hub/retry"
)

// Facts are what an explanation of a delivery goes by. Of a settled delivery
// only the first three are read.
type Facts struct {
	Now      time.Time
	Delivery *hub.Standing
	Last     *hub.RecordedAttempt // nil when there was none

	Subscription *hub.EventSubscription // nil when it is gone
	Destination  *hub.Destination       // nil when it is gone
	Breaker      breaker.State
	Rate         health.Rate // read of a destination under FAILURE_RATE only
	Gate         Gate
	// KillSwitch says that the verdicts of failure policies are shown and not
	// acted on.
	KillSwitch bool
	// CurveSteps, if any, replace those of the CURVE, as where deliveries are
	// made.
	CurveSteps []time.Duration
}

// policy is the retry policy by which the attempts are made.
func (f *Facts) policy() hub.RetryPolicy {
	p, _ := retry.InForce(f.Subscription.RetryPolicy, f.CurveSteps)
	return p
}

// Explain says in one sentence why a delivery stands where it stands and what
// comes next.
func Explain(f Facts) string {
	sentence := f.explain()
	if f.Delivery.Test {
		sentence += "; it is a test send and counts nowhere"
	}
	return sentence
}

func (f *Facts) explain() string {
	switch f.Delivery.State {
	case hub.Waiting:
		return "waiting: " + f.whyWaiting()
	case hub.InFlight:
		return fmt.Sprintf("in flight: attempt %d is being made%s%s", f.Delivery.Attempts+1, f.despiteCircuit(), afterFailure(f.Last))
	case hub.Held:
		return "held: " + f.whyHeld()
	case hub.Delivered:
		return explainDelivered(f.Last)
	case hub.Dead:
		return explainDead(f.Delivery, f.Last) + "; nothing more happens unless it is redelivered"
	default:
		return "discarded: an operator gave it up" + inBrackets(f.Delivery.LastError) + ", nothing more happens"
	}
}

// whyWaiting goes from what keeps every attempt back to what is due anyway.
func (f *Facts) whyWaiting() string {
	sub := f.Subscription
	switch {
	case sub == nil || !sub.DeletedAt.IsZero():
		return whyUndeliverable(sub) + ", and it ends with that"
	case f.Delivery.Test && f.Gate.NoKey:
		return "the hub has no key to sign it with and sends nothing unsigned; it goes on when STREAMING_HUB_KEK_KEYS has the key"
	case f.Delivery.Test:
		return "its only attempt is due since " + clock(f.Now, f.Delivery.NextAt) + " and waits for a free worker, whatever circuit and policies say"
	case !sub.Deliverable():
		return "it is about to be held, because " + whyUndeliverable(sub)
	case f.rateState() == health.Frozen:
		return "it is about to be held, because " + f.frozen()
	case f.Gate.NoKey:
		return "the hub has no key to sign it with and sends nothing unsigned; it goes on when STREAMING_HUB_KEK_KEYS has the key" + f.attemptsLeft()
	case f.rateState() == health.Disabled:
		return f.disabled() + f.attemptsLeft()
	case f.circuitHolds():
		return f.behindCircuit() + f.attemptsLeft()
	}
	return f.when() + afterFailure(f.Last) + f.attemptsLeft()
}

// when is when the next attempt comes, or what a due one waits for.
func (f *Facts) when() string {
	next := fmt.Sprintf("attempt %d", f.Delivery.Attempts+1)
	at := clock(f.Now, f.Delivery.NextAt)
	if f.Delivery.NextAt.After(f.Now) {
		return next + " comes at " + at + f.despiteCircuit()
	}
	next += " is due since " + at
	dest := f.Destination
	switch {
	case isOpen(f.Breaker):
		return next + f.despiteCircuit()
	case dest != nil && dest.RateLimit > 0 && f.Gate.FreeAt.After(f.Now):
		return next + fmt.Sprintf(" and waits for its destination's limit of %s a second, which has room again at %s",
			attempts(int64(dest.RateLimit)), clock(f.Now, f.Gate.FreeAt))
	case f.Breaker.RampLimit > 0:
		return next + fmt.Sprintf(" and waits its turn: the circuit closed at %s, and the backlog is let through slowly, %s at a time in each process",
			clock(f.Now, f.Breaker.ClosedAt), attempts(int64(f.Breaker.RampLimit)))
	case dest != nil && dest.MaxInFlight > 0:
		return next + fmt.Sprintf(" and waits for a free worker; its destination takes %s at a time", attempts(int64(dest.MaxInFlight)))
	}
	return next + " and waits for a free worker"
}

// circuitHolds reports whether the circuit is what the delivery waits for: it
// is open and the delivery comes due before the next probe, and not for its
// last attempt, which runs all the same.
func (f *Facts) circuitHolds() bool {
	if !isOpen(f.Breaker) || f.isLast() {
		return false
	}
	until := breaker.Admit(f.Breaker, f.Now, false).PutOff
	return !f.Delivery.NextAt.After(later(f.Now, until))
}

func (f *Facts) behindCircuit() string {
	text := "circuit open since " + clock(f.Now, f.Breaker.OpenedAt) + ", " + nextProbe(f.Now, f.Breaker)
	if last := f.Delivery.LastAt; last.After(f.Now) {
		text += ", from " + clock(f.Now, last) + " on its last attempt runs whatever the circuit"
	}
	return text
}

// despiteCircuit says why an attempt comes while the circuit is open.
func (f *Facts) despiteCircuit() string {
	if !isOpen(f.Breaker) {
		return ""
	}
	open := "circuit is open since " + clock(f.Now, f.Breaker.OpenedAt)
	switch {
	case f.isLast():
		return " and runs although the " + open + ", because it is the last"
	case f.Delivery.State == hub.InFlight:
		return " as the probe, or since before it opened: the " + open
	}
	return ", the " + open + ", " + nextProbe(f.Now, f.Breaker)
}

// isLast reports whether the next attempt is the last one.
func (f *Facts) isLast() bool {
	from := f.lastFrom()
	return !from.IsZero() && !from.After(later(f.Now, f.Delivery.NextAt))
}

func (f *Facts) lastFrom() time.Time {
	d := f.Delivery
	if !d.LastAt.IsZero() || f.Subscription == nil {
		return d.LastAt
	}
	skipped := d.FirstFailedAt
	if skipped.IsZero() {
		skipped = f.Now
	}
	return retry.LastFrom(f.policy(), d.RunAttempts+1, later(f.Now, d.NextAt), d.ReceivedAt, skipped)
}

// attemptsLeft counts within the present run.
func (f *Facts) attemptsLeft() string {
	if f.Subscription == nil {
		return ""
	}
	all := retry.MaxAttempts(f.policy())
	left := max(all-f.Delivery.RunAttempts, 0)
	if left > 1 && f.isLast() {
		return ", past its age limit, so the next attempt is the last"
	}
	return fmt.Sprintf(", %d of %d attempts left", left, all)
}

func (f *Facts) whyHeld() string {
	switch {
	case f.Subscription == nil || !f.Subscription.Deliverable():
		return whyUndeliverable(f.Subscription)
	case f.rateState() == health.Frozen:
		return f.frozen()
	case f.rateState() == health.Disabled:
		return f.disabled()
	}
	text := "what it was held for is over, and it goes on within moments"
	if f.isLast() {
		text += ", with its last attempt"
	}
	return text
}

// rateState is how FAILURE_RATE judged the destination, as far as that has
// consequences.
func (f *Facts) rateState() health.RateState {
	if f.Destination == nil || f.Destination.FailurePolicy.Kind != hub.FailureRate || f.KillSwitch || f.Rate.Judged == "" {
		return health.Active
	}
	return f.Rate.Judged
}

func (f *Facts) frozen() string {
	return fmt.Sprintf("its destination is frozen since %s, after %s in a row; enable the destination to go on",
		clock(f.Now, f.Rate.JudgedAt), failures(f.Rate.Row))
}

func (f *Facts) disabled() string {
	text := "its destination is disabled since " + clock(f.Now, f.Rate.JudgedAt) + ", because too many attempts failed; "
	due, _ := f.Rate.TryDue(f.Now, health.RateSettingsOf(f.Destination.FailurePolicy))
	if due.After(f.Now) {
		return text + "one delivery is tried at " + clock(f.Now, due)
	}
	return text + "the next delivery that is due is tried"
}

// whyUndeliverable is why an event subscription gets nothing.
func whyUndeliverable(sub *hub.EventSubscription) string {
	switch {
	case sub == nil:
		return "its event subscription is gone"
	case !sub.DeletedAt.IsZero():
		return "its event subscription was deleted"
	case !sub.Enabled && sub.DisabledBy == hub.DisabledByAuto:
		return "its event subscription was disabled by the hub because the destination stayed broken" + inBrackets(sub.DisabledReason) + "; verify or enable it to go on"
	case !sub.Enabled:
		return "its event subscription is disabled" + inBrackets(sub.DisabledReason) + "; enable it to go on"
	case sub.VerificationState != hub.VerificationActive:
		return "its event subscription is not verified (" + string(sub.VerificationState) + "); verify it to go on"
	}
	return "its destination is not back yet"
}

func inBrackets(s string) string {
	if s == "" {
		return ""
	}
	return " (" + s + ")"
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// clock is a time of day in UTC, with the date when that is another day.
func clock(now, t time.Time) string {
	t, now = t.UTC(), now.UTC()
	if t.YearDay() == now.YearDay() && t.Year() == now.Year() {
		return t.Format("15:04:05 UTC")
	}
	return t.Format("2006-01-02 15:04:05 UTC")
}
