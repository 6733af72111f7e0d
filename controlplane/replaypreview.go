package controlplane

import (
	"context"
	"encoding/hex"
	"slices"
	"strconv"
	"time"

	"github.com/streaming-hub/streaming-hub/hub"
	"github.com/streaming-hub/streaming-hub/hub/fingerprint"
	"github.com/streaming-hub/streaming-hub/hub/match"
)

// maxReplayed is how many deliveries a replay names one by one.
const maxReplayed = 1000

// ReplayWish is a replay that a caller asks for; every field is still
// unchecked. Ids are global ids, nil is any, and times that are zero are open.
type ReplayWish struct {
	// Tenant is "" for the actor's own. Of a platform actor it is then that of
	// what the filter names, or all tenants.
	Tenant                      string
	Deliveries                  []string
	Subscription, Destination   *string
	EventType, Fingerprint      *string
	States                      []hub.State
	Reasons                     []hub.DeadReason
	CreatedAfter, CreatedBefore time.Time
	EndedAfter, EndedBefore     time.Time
	Pace                        hub.ReplayPace
}

// Preview makes a replay job, whose set is then frozen, or tells all mistakes
// of the wish at once. The set is what the filter names at this moment.
func (r *Replays) Preview(ctx context.Context, a Actor, w ReplayWish) (hub.ReplayJob, []UserError, error) {
	job, mistakes := judgeReplay(a, &w)
	if len(mistakes) > 0 {
		return job, mistakes, nil
	}
	if mistakes, err := r.findNamed(ctx, a, &job, &w); err != nil || len(mistakes) > 0 {
		return job, mistakes, err
	}
	return r.create(ctx, a, job, auditPreviewReplay)
}

// create stores a job that was checked.
func (r *Replays) create(ctx context.Context, a Actor, job hub.ReplayJob, action string) (hub.ReplayJob, []UserError, error) {
	now := r.Now().UTC().Truncate(time.Microsecond) // as Postgres keeps it
	job.ID.ID, job.State, job.Version, job.CreatedAt = hub.NewID(now, r.Random), hub.JobPreviewing, 1, now
	job.CreatedBy, job.CreatedByName = a.Token, a.Name
	entry := a.auditEntry(now, r.Random, job.Tenant, action, GlobalID(JobIDs, job.ID.ID), nil, jobForAudit(&job))
	return job, nil, r.DB.CreateReplayJob(ctx, job, entry)
}

// judgeReplay tells every mistake that can be seen in a wish alone.
func judgeReplay(a Actor, w *ReplayWish) (job hub.ReplayJob, mistakes []UserError) {
	job = hub.ReplayJob{Kind: hub.JobReplay, Pace: w.Pace}
	if w.Tenant != "" || !a.Platform() {
		tenant, mismatch := a.tenantFor(w.Tenant, []string{"input", "tenantId"})
		if mismatch != nil {
			mistakes = append(mistakes, *mismatch)
		}
		job.Tenant = tenant
	}
	mistakes = append(mistakes, checkPace(w.Pace)...)
	f := &job.Filter
	f.States, f.Reasons = w.States, w.Reasons
	f.CreatedAfter, f.CreatedBefore, f.EndedAfter, f.EndedBefore = w.CreatedAfter, w.CreatedBefore, w.EndedAfter, w.EndedBefore
	fault := func(field, format string, args ...any) {
		mistakes = append(mistakes, userError(Invalid, filterPath(field), format, args...))
	}
	// An empty list could be meant as any, or as none.
	if w.Deliveries != nil && len(w.Deliveries) == 0 || len(w.Deliveries) > maxReplayed {
		fault("ids", "name 1 to %d deliveries, or leave ids out for any", maxReplayed)
	}
	if w.EventType != nil {
		if err := match.CheckPattern(*w.EventType); err != nil {
			fault("eventType", "%s", err)
		}
		f.EventType = *w.EventType
	}
	if w.States != nil && len(w.States) == 0 {
		fault("states", "states is empty; leave it out for DEAD alone")
	}
	for i, state := range w.States {
		if !state.Settled() {
			mistakes = append(mistakes, userError(Invalid, append(filterPath("states"), strconv.Itoa(i)),
				"a delivery that is %s is not settled: only what is DEAD, DELIVERED or DISCARDED is replayed", state))
		}
	}
	if w.Reasons != nil && len(w.Reasons) == 0 {
		fault("reason", "reason is empty; leave it out for any")
	}
	if w.Fingerprint != nil {
		raw, err := hex.DecodeString(*w.Fingerprint)
		if err != nil || len(raw) != fingerprint.Size {
			fault("fingerprint", "a fingerprint has %d hexadecimal digits", 2*fingerprint.Size)
		}
		f.Fingerprint = raw
	}
	if w.States != nil && !slices.Contains(w.States, hub.Dead) {
		for _, one := range []struct {
			field string
			given bool
		}{
			{"reason", w.Reasons != nil}, {"fingerprint", w.Fingerprint != nil},
			{"endedAfter", !w.EndedAfter.IsZero()}, {"endedBefore", !w.EndedBefore.IsZero()},
		} {
			if one.given {
				fault(one.field, "only dead letters have this, and states leaves DEAD out")
			}
		}
	}
	if empty(w.CreatedAfter, w.CreatedBefore) {
		fault("createdBefore", "createdBefore is not later than createdAfter")
	}
	if empty(w.EndedAfter, w.EndedBefore) {
		fault("endedBefore", "endedBefore is not later than endedAfter")
	}
	return job, mistakes
}

// empty reports whether no moment lies between two bounds; a zero one is open.
func empty(from, until time.Time) bool {
	return !from.IsZero() && !until.IsZero() && !from.Before(until)
}

func filterPath(field string) []string { return []string{"input", "filter", field} }

// findNamed looks up what the filter names: it has to exist, in the tenant of
// the job if that has one, and an event subscription has to take deliveries. A
// job without a tenant gets that of what is named.
func (r *Replays) findNamed(ctx context.Context, a Actor, job *hub.ReplayJob, w *ReplayWish) (mistakes []UserError, err error) {
	// The job of a tenant's actor has a tenant, so this is also what it sees.
	belongs := func(t hub.TenantID) bool { return job.Tenant == "" || t == job.Tenant }
	if w.Subscription != nil {
		id, _ := ParseGlobalID(SubscriptionIDs, *w.Subscription) // what is no id finds nothing
		sub, err := r.subscription(ctx, a, hub.SubscriptionID{ID: id})
		if err != nil {
			return nil, err
		}
		path := filterPath("eventSubscriptionId")
		if sub == nil || !belongs(sub.Tenant) {
			mistakes = append(mistakes, userError(NotFound, path, "there is no such event subscription"))
		} else if why := whyTakesNone(sub); why != "" {
			mistakes = append(mistakes, userError(Invalid, path, "%s", why))
		} else {
			job.Filter.Subscription, job.Tenant = sub.ID, sub.Tenant
		}
	}
	if w.Destination != nil {
		id, _ := ParseGlobalID(DestinationIDs, *w.Destination)
		list, err := r.DB.DestinationsByID(ctx, []hub.DestinationID{{ID: id}})
		if err != nil {
			return nil, err
		}
		if len(list) == 0 || !belongs(list[0].Tenant) {
			mistakes = append(mistakes, userError(NotFound, filterPath("destinationId"), "there is no such destination"))
		} else {
			job.Filter.Destination, job.Tenant = list[0].ID, list[0].Tenant
		}
	}
	missing, err := r.findDeliveries(ctx, job, w.Deliveries, belongs)
	return append(mistakes, missing...), err
}

// findDeliveries looks up the deliveries that are named one by one.
func (r *Replays) findDeliveries(ctx context.Context, job *hub.ReplayJob, ids []string, belongs func(hub.TenantID) bool) (mistakes []UserError, err error) {
	if len(ids) == 0 {
		return nil, nil
	}
	keys := deliveryIDs(ids)
	found, err := r.DB.DeliveriesByID(ctx, keys)
	if err != nil {
		return nil, err
	}
	known, tenants := make(map[string]bool, len(found)), map[hub.TenantID]bool{}
	for i := range found {
		if belongs(found[i].Tenant) {
			known[GlobalID(DeliveryIDs, found[i].Delivery.ID.ID)] = true
			tenants[found[i].Tenant] = true
		}
	}
	for i, text := range ids {
		if id, ok := ParseGlobalID(DeliveryIDs, text); !ok || !known[GlobalID(DeliveryIDs, id)] {
			mistakes = append(mistakes, userError(NotFound, append(filterPath("ids"), strconv.Itoa(i)), "there is no such delivery"))
		}
	}
	if len(tenants) == 1 {
		for t := range tenants {
			job.Tenant = t
		}
	}
	job.Filter.Deliveries = keys
	return mistakes, nil
}

// subscription gives an event subscription that the actor sees, a deleted one
// too; nil when there is none.
func (r *Replays) subscription(ctx context.Context, a Actor, id hub.SubscriptionID) (*hub.EventSubscription, error) {
	list, err := r.DB.SubscriptionsByID(ctx, []hub.SubscriptionID{id})
	if err != nil || len(list) == 0 || !a.Sees(list[0].Tenant) {
		return nil, err
	}
	return &list[0], nil
}

// whyTakesNone says why a job for an event subscription would deliver nothing;
// "" when it takes deliveries.
func whyTakesNone(sub *hub.EventSubscription) string {
	switch {
	case sub != nil && sub.Kind == hub.SinkPull:
		return "nothing is sent to a PULL destination; read its events instead"
	case sub == nil || !sub.Deliverable():
		return "nothing can be delivered: " + whyUndeliverable(sub)
	}
	return ""
}
