package controlplane

import (
	"bytes"
	"slices"
	"time"

	"github.com/streaming-hub/streaming-hub/db"
	"github.com/streaming-hub/streaming-hub/hub"
	"github.com/streaming-hub/streaming-hub/hub/breaker"
	"github.com/streaming-hub/streaming-hub/hub/match"
)

// LiveFilter says which items of the feed a follower gets. There is one maker
// for each kind of feed; all of them take the filter of the list beside it.
type LiveFilter struct {
	// Tenant is the only one, "" for all that the actor sees.
	Tenant hub.TenantID
	// wants judges an item of such a tenant; nil wants all. It is called for
	// every item while the whole feed waits.
	wants func(*db.FeedItem) bool
}

func (f *LiveFilter) passes(i *db.FeedItem) bool {
	return (f.Tenant == "" || i.Tenant == f.Tenant) && (f.wants == nil || f.wants(i))
}

// LiveOutcomes wants the outcomes of deliveries. State is what the outcome led
// to.
func LiveOutcomes(f db.DeliveryFilter) LiveFilter {
	return LiveFilter{Tenant: f.Tenant, wants: func(i *db.FeedItem) bool {
		return i.Notice == nil && concerns(i, f.Subscription, f.Destination) &&
			(f.Event.IsZero() || i.Event == f.Event) &&
			(len(f.States) == 0 || slices.Contains(f.States, i.State))
	}}
}

// LiveDeadLetters wants the outcomes by which deliveries died.
func LiveDeadLetters(f db.DeadLetterFilter) LiveFilter {
	return LiveFilter{Tenant: f.Tenant, wants: func(i *db.FeedItem) bool {
		at := i.Started().Truncate(time.Millisecond) // finishedAt, as the list has it
		return i.Notice == nil && i.State == hub.Dead && !i.Test && concerns(i, f.Subscription, f.Destination) &&
			(f.EventType == "" || match.Covers(f.EventType, i.EventType)) &&
			(len(f.Reasons) == 0 || slices.Contains(f.Reasons, i.DeadReason)) &&
			(f.Fingerprint == nil || bytes.Equal(i.Fingerprint, f.Fingerprint)) &&
			(f.EndedAfter.IsZero() || !at.Before(f.EndedAfter)) &&
			(f.EndedBefore.IsZero() || at.Before(f.EndedBefore))
	}}
}

// LiveBreakers wants the changes of circuit breakers. A phase is the one that
// the change led to.
func LiveBreakers(f db.BreakerFilter) LiveFilter {
	return LiveFilter{Tenant: f.Tenant, wants: func(i *db.FeedItem) bool {
		return i.Notice != nil && isBreakerChange(i.Notice.Kind) && concerns(i, hub.SubscriptionID{}, f.Destination) &&
			(len(f.Phases) == 0 || slices.Contains(f.Phases, PhaseOf(i.Notice)))
	}}
}

// LiveSpans wants the changes of failure spans, and what the failure policies
// did. Those that concern a whole destination belong to no subscription.
func LiveSpans(f db.SpanFilter) LiveFilter {
	return LiveFilter{Tenant: f.Tenant, wants: func(i *db.FeedItem) bool {
		return i.Notice != nil && isSpanChange(i.Notice.Kind) && concerns(i, f.Subscription, f.Destination)
	}}
}

// LiveReplays wants the progress of replay jobs; of one when job is not zero.
func LiveReplays(tenant hub.TenantID, job hub.JobID) LiveFilter {
	return LiveFilter{Tenant: tenant, wants: func(i *db.FeedItem) bool {
		return i.Notice != nil && i.Notice.Kind == hub.NoticeReplayProgress && i.Notice.Replay != nil &&
			(job.IsZero() || i.Notice.Replay.Job == job)
	}}
}

func concerns(i *db.FeedItem, sub hub.SubscriptionID, dest hub.DestinationID) bool {
	return (sub.IsZero() || i.Subscription == sub) && (dest.IsZero() || i.Destination == dest)
}

func isBreakerChange(k hub.NoticeKind) bool {
	switch k {
	case hub.NoticeCircuitOpened, hub.NoticeCircuitHalfOpen, hub.NoticeCircuitClosed:
		return true
	}
	return false
}

func isSpanChange(k hub.NoticeKind) bool {
	switch k {
	case hub.NoticeSpanOpened, hub.NoticeSpanMarked, hub.NoticeSpanCleared,
		hub.NoticeAutoDisabled, hub.NoticeWouldDisable, hub.NoticeFrozen, hub.NoticeRecovered:
		return true
	}
	return false
}

// PhaseOf is the phase that a change of a circuit breaker led to.
func PhaseOf(n *hub.Notice) breaker.Phase {
	if n.Breaker != nil && n.Breaker.Phase != "" {
		return breaker.Phase(n.Breaker.Phase)
	}
	switch n.Kind {
	case hub.NoticeCircuitOpened:
		return breaker.Open
	case hub.NoticeCircuitHalfOpen:
		return breaker.HalfOpen
	}
	return breaker.Closed
}
