package controlplane

import (
	"context"
	"reflect"
	"time"

	"github.com/streaming-hub/streaming-hub/db"
	"github.com/streaming-hub/streaming-hub/hub"
)

// SubscriptionUpdate is what a caller wants changed; every field is still
// unchecked, and what is not given stays.
type SubscriptionUpdate struct {
	ID      hub.SubscriptionID
	Version int32 // that the caller saw

	Name          Given[string]
	Description   Given[string] // null for none
	Origin        Given[string] // null for any
	EventTypes    Given[[]string]
	SchemaMajor   Given[int32] // null for any
	RetryPolicy   Given[hub.RetryPolicy]
	Timeout       Given[time.Duration]
	Headers       Given[[]hub.Header] // null for none
	DisableOnGone Given[bool]
	URL           Given[string]
	Destination   DestinationInput
}

// Updated is a subscription after an update. SigningSecret is shown this once,
// when the update made a destination with a secret of its own.
type Updated struct {
	Subscription  hub.EventSubscription
	SigningSecret string
}

// Update changes what is given of a subscription. With another URL or
// credential the destination has to prove anew that it wants events; waiting
// deliveries are held until then. An update that changes nothing leaves the
// version as it is.
func (s *Subscriptions) Update(ctx context.Context, a Actor, u SubscriptionUpdate) (Updated, []UserError, error) {
	seen, mistakes, err := s.find(ctx, a, u.ID)
	if err != nil || mistakes != nil {
		return Updated{}, mistakes, err
	}
	now := s.now()
	fit := &fitting{hub: s, in: u.Destination, now: now}
	after, mistakes, err := s.change(ctx, db.SubscriptionChange{
		Tenant: seen.Tenant, ID: u.ID, Now: now, FeedID: hub.NewID(now, s.Random),
		Decide: func(have db.Subscribed) (db.SubscriptionEdit, error) { return s.decideUpdate(&u, have, fit) },
		Audit:  s.auditChanged(a, now, auditUpdateSubscription),
	})
	if err != nil || mistakes != nil {
		return Updated{}, mistakes, err
	}
	return Updated{Subscription: after.Subscription, SigningSecret: fit.shown}, nil, nil
}

func (s *Subscriptions) decideUpdate(u *SubscriptionUpdate, have db.Subscribed, fit *fitting) (db.SubscriptionEdit, error) {
	before := have.Subscription
	switch {
	case !before.DeletedAt.IsZero():
		return db.SubscriptionEdit{}, noSubscription()
	case before.Version != u.Version:
		return db.SubscriptionEdit{}, userError(Conflict, []string{"input", "version"},
			"the event subscription is at version %d and the update is of version %d; read it again", before.Version, u.Version)
	}
	next, mistakes := s.apply(u, before)
	edit := db.SubscriptionEdit{Subscription: &next}
	if u.URL.Value != nil {
		url, faults := s.checkURL(before.Kind, *u.URL.Value)
		mistakes = append(mistakes, faults...)
		if url != have.Destination.Destination.URL {
			edit.Move = &hub.Destination{
				ID: hub.DestinationID{ID: hub.NewID(fit.now, s.Random)}, Tenant: before.Tenant, Kind: before.Kind, URL: url, CreatedAt: fit.now,
			}
		}
	}
	mistakes = append(mistakes, u.Destination.check(before.Kind, s.HeaderPrefix, fit.now)...)
	if len(mistakes) > 0 {
		return db.SubscriptionEdit{}, userErrorList(mistakes)
	}
	pending := edit.Move != nil
	if edit.Move != nil {
		fit.from, edit.Fit = have.Destination, fit.fit
	} else {
		changed, err := fit.fit(have.Destination)
		if err != nil {
			return db.SubscriptionEdit{}, err
		}
		pending = len(changed.Credentials)+len(changed.Drop) > 0
		if pending || changed.Destination != have.Destination.Destination {
			edit.Fit = func(*db.DestinationState) (db.DestinationEdit, error) { return changed, nil }
		}
	}
	if pending {
		next.VerificationState, next.VerificationError = hub.VerificationPending, ""
	}
	if edit.Fit == nil && reflect.DeepEqual(next, before) {
		return db.SubscriptionEdit{}, nil
	}
	next.Version, next.UpdatedAt = before.Version+1, fit.now
	return edit, nil
}

// apply gives the subscription with what is given, and the mistakes in that.
func (s *Subscriptions) apply(u *SubscriptionUpdate, next hub.EventSubscription) (hub.EventSubscription, []UserError) {
	var mistakes []UserError
	given := map[string]bool{}
	put := func(field string, set, null, clearable bool, assign func()) {
		if given[field] = set; !set {
			return
		}
		if null && !clearable {
			mistakes = append(mistakes, userError(Invalid, []string{"input", field}, "%s cannot be null; leave it out to keep what is there", field))
			given[field] = false
			return
		}
		assign()
	}
	put("name", u.Name.Set, u.Name.null(), false, func() { next.Name = *u.Name.Value })
	put("description", u.Description.Set, u.Description.null(), true, func() { next.Description = orZero(u.Description.Value) })
	put("origin", u.Origin.Set, u.Origin.null(), true, func() { next.Origin = orZero(u.Origin.Value) })
	put("eventTypes", u.EventTypes.Set, u.EventTypes.null(), false, func() { next.EventTypes = *u.EventTypes.Value })
	put("schemaMajor", u.SchemaMajor.Set, u.SchemaMajor.null(), true, func() { next.SchemaMajor = u.SchemaMajor.Value })
	put("retryPolicy", u.RetryPolicy.Set, u.RetryPolicy.null(), false, func() { next.RetryPolicy = *u.RetryPolicy.Value })
	put("timeout", u.Timeout.Set, u.Timeout.null(), false, func() { next.Timeout = *u.Timeout.Value })
	put("headers", u.Headers.Set, u.Headers.null(), true, func() { next.Headers = orZero(u.Headers.Value) })
	put("disableOnGone", u.DisableOnGone.Set, u.DisableOnGone.null(), false, func() { next.DisableOnGone = *u.DisableOnGone.Value })
	mistakes = append(mistakes, emptyOrigin(u.Origin.Value)...)
	if u.URL.null() {
		mistakes = append(mistakes, userError(Invalid, []string{"input", "destination", "url"}, "url cannot be null; leave it out to keep what is there"))
	}
	judged := next
	for _, m := range s.judge(&judged) {
		if given[m.Path[1]] { // what was stored under older rules is nobody's mistake now
			mistakes = append(mistakes, m)
		}
	}
	if given["name"] {
		next.Name = judged.Name
	}
	if given["headers"] {
		next.Headers = judged.Headers
	}
	return next, mistakes
}

func orZero[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

// Delete ends a subscription: events do not match it any more, what is waiting
// ends, and history still names it. Deleting again changes nothing.
func (s *Subscriptions) Delete(ctx context.Context, a Actor, id hub.SubscriptionID) (hub.EventSubscription, []UserError, error) {
	return s.switchOver(ctx, a, id, auditDeleteSubscription, func(next *hub.EventSubscription, now time.Time) (bool, bool) {
		next.DeletedAt = now
		return true, false
	})
}

// Enable switches a subscription on again: its failures are forgotten and its
// destination begins anew, with one probe. An enabled one stays as it is, so
// that enabling in a loop dodges nothing.
func (s *Subscriptions) Enable(ctx context.Context, a Actor, id hub.SubscriptionID) (hub.EventSubscription, []UserError, error) {
	return s.switchOver(ctx, a, id, auditEnableSubscription, func(next *hub.EventSubscription, _ time.Time) (bool, bool) {
		if next.Enabled {
			return false, false
		}
		enable(next)
		return true, next.Kind == hub.SinkWebhook
	})
}

// enable switches a subscription on.
func enable(s *hub.EventSubscription) {
	s.Enabled, s.DisabledBy, s.DisabledReason, s.DisabledAt = true, "", "", time.Time{}
}

// Disable switches a subscription off in the name of a person, who alone can
// switch it on again. One that a person disabled already stays as it is.
func (s *Subscriptions) Disable(ctx context.Context, a Actor, id hub.SubscriptionID, reason string) (hub.EventSubscription, []UserError, error) {
	if err := checkText("reason", reason, maxReason); err != nil {
		return hub.EventSubscription{}, []UserError{userError(Invalid, []string{"input", "reason"}, "%s", err)}, nil
	}
	return s.switchOver(ctx, a, id, auditDisableSubscription, func(next *hub.EventSubscription, now time.Time) (bool, bool) {
		if next.DisabledBy == hub.DisabledByUser {
			return false, false
		}
		next.Enabled, next.DisabledBy, next.DisabledReason, next.DisabledAt = false, hub.DisabledByUser, reason, now
		return true, false
	})
}

// switchOver makes a change that asks for no version: it means the same
// whatever else was changed. turn makes it, and says whether there was anything
// to do and whether the destination begins anew.
func (s *Subscriptions) switchOver(ctx context.Context, a Actor, id hub.SubscriptionID, action string, turn func(next *hub.EventSubscription, now time.Time) (changed, restart bool)) (hub.EventSubscription, []UserError, error) {
	seen, mistakes, err := s.find(ctx, a, id)
	if err != nil || mistakes != nil {
		return hub.EventSubscription{}, mistakes, err
	}
	now := s.now()
	after, mistakes, err := s.change(ctx, db.SubscriptionChange{
		Tenant: seen.Tenant, ID: id, Now: now, FeedID: hub.NewID(now, s.Random),
		Decide: func(have db.Subscribed) (edit db.SubscriptionEdit, err error) {
			next := have.Subscription
			switch deleted := !next.DeletedAt.IsZero(); {
			case deleted && action == auditDeleteSubscription:
				return edit, nil
			case deleted:
				return edit, noSubscription()
			}
			changed, restart := turn(&next, now)
			if !changed {
				return edit, nil
			}
			next.Version, next.UpdatedAt = next.Version+1, now
			return db.SubscriptionEdit{Subscription: &next, Restart: restart}, nil
		},
		Audit: s.auditChanged(a, now, action),
	})
	if err != nil || mistakes != nil {
		return hub.EventSubscription{}, mistakes, err
	}
	return after.Subscription, nil, nil
}
