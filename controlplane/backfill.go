package controlplane

import (
	"context"
	"time"

	"github.com/streaming-hub/streaming-hub/hub"
)

// BackfillWish is a backfill that a caller asks for; every field is still
// unchecked. Bounds that are nil or zero are open.
type BackfillWish struct {
	Subscription                  string // global id
	FirstSeq, LastSeq             *int64
	ReceivedAfter, ReceivedBefore time.Time
	Pace                          hub.ReplayPace
}

// PreviewBackfill makes a backfill job, whose set is then frozen, or tells all
// mistakes of the wish at once. An event subscription that is disabled or not
// verified can be looked at: what it would get is known before it is switched
// on. Such a job cannot be started.
func (r *Replays) PreviewBackfill(ctx context.Context, a Actor, w BackfillWish) (hub.ReplayJob, []UserError, error) {
	id, _ := ParseGlobalID(SubscriptionIDs, w.Subscription) // what is no id finds nothing
	sub, err := r.subscription(ctx, a, hub.SubscriptionID{ID: id})
	if err != nil {
		return hub.ReplayJob{}, nil, err
	}
	job, mistakes := judgeBackfill(&w, sub)
	if len(mistakes) > 0 {
		return job, mistakes, nil
	}
	return r.create(ctx, a, job, auditPreviewBackfill)
}

// judgeBackfill decides on a backfill for an event subscription, nil when there
// is none.
func judgeBackfill(w *BackfillWish, sub *hub.EventSubscription) (job hub.ReplayJob, mistakes []UserError) {
	job = hub.ReplayJob{Kind: hub.JobBackfill, Pace: w.Pace}
	fault := func(code UserErrorCode, field, message string) {
		mistakes = append(mistakes, userError(code, []string{"input", field}, "%s", message))
	}
	switch {
	case sub == nil:
		fault(NotFound, "eventSubscriptionId", "there is no such event subscription")
	case sub.Kind == hub.SinkPull || !sub.DeletedAt.IsZero():
		fault(Invalid, "eventSubscriptionId", whyTakesNone(sub))
	default:
		job.Tenant = sub.Tenant
		job.Range.Subscription = sub.ID
	}
	mistakes = append(mistakes, checkPace(w.Pace)...)
	first, last := orZero(w.FirstSeq), orZero(w.LastSeq)
	if w.FirstSeq != nil && first < 1 {
		fault(Invalid, "firstSeq", "a seq is at least 1")
	}
	if w.LastSeq != nil && last < 1 {
		fault(Invalid, "lastSeq", "a seq is at least 1")
	} else if w.LastSeq != nil && last < first {
		fault(Invalid, "lastSeq", "lastSeq is smaller than firstSeq")
	}
	if empty(w.ReceivedAfter, w.ReceivedBefore) {
		fault(Invalid, "receivedBefore", "receivedBefore is not later than receivedAfter")
	}
	job.Range.FirstSeq, job.Range.LastSeq = first, last
	job.Range.ReceivedAfter, job.Range.ReceivedBefore = w.ReceivedAfter, w.ReceivedBefore
	return job, mistakes
}
