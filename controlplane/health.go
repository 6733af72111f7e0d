package controlplane

import (
	"github.com/streaming-hub/streaming-hub/db"
	"github.com/streaming-hub/streaming-hub/hub"
	"github.com/streaming-hub/streaming-hub/hub/health"
)

// SubscriptionHealth is what there is to say of an event subscription's health.
type SubscriptionHealth struct {
	Subscription *hub.EventSubscription
	Destination  *hub.Destination // nil when it is gone
	Rate         health.Rate      // of the destination
	Span         *db.FailureSpan  // nil after a success
}

// Policy is the policy of the destination.
func (h *SubscriptionHealth) Policy() hub.FailureKind {
	if h.Destination != nil && h.Destination.FailurePolicy.Kind == hub.FailureRate {
		return hub.FailureRate
	}
	return hub.FailureSpan
}

// State is DISABLED while the hub has switched the event subscription off, and
// else what became of a destination under FAILURE_RATE.
func (h *SubscriptionHealth) State() health.RateState {
	switch {
	case h.byHub():
		return health.Disabled
	case h.Policy() == hub.FailureRate && h.Rate.Judged != "":
		return h.Rate.Judged
	}
	return health.Active
}

func (h *SubscriptionHealth) byHub() bool {
	return !h.Subscription.Enabled && h.Subscription.DisabledBy == hub.DisabledByAuto
}

// ExplainHealth says in one sentence how an event subscription stands with its
// failure policy, and what comes next.
func (p *FailurePolicies) ExplainHealth(h *SubscriptionHealth) string {
	switch {
	case h.byHub():
		return "disabled by the hub since " + clock(p.Now(), h.Subscription.DisabledAt) +
			inBrackets(h.Subscription.DisabledReason) + "; verify or enable it to go on"
	case h.Policy() == hub.FailureRate:
		return "its destination is " + p.ExplainRate(h.Destination, h.Rate)
	case h.Span != nil:
		return p.ExplainSpan(h.Span)
	}
	return "nothing has failed since the last success"
}
