package db

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/streaming-hub/streaming-hub/db/internal/dbsqlc"
	"github.com/streaming-hub/streaming-hub/hub"
)

// SubscriptionChange is a change of one event subscription, decided under the
// tenant's lock.
type SubscriptionChange struct {
	Tenant hub.TenantID
	ID     hub.SubscriptionID
	Now    time.Time
	// Decide says what is to become of the subscription. Its error ends the
	// change and is returned inside the result's error.
	Decide func(Subscribed) (SubscriptionEdit, error)
	// Audit makes the audit log's entry; nil for a program that acts for nobody.
	Audit func(before, after Subscribed) AuditEntry
	// FeedID is the row in the live feed that tells of a failure span which the
	// change clears.
	FeedID hub.ID
}

// Subscribed is a subscription with its destination.
type Subscribed struct {
	Subscription hub.EventSubscription
	Destination  *DestinationState
}

// SubscriptionEdit is what becomes of a subscription.
type SubscriptionEdit struct {
	// Subscription is what is to be stored; its id, tenant and destination are
	// those of before. Nil changes nothing at all.
	Subscription *hub.EventSubscription
	// Fit changes the destination: the present one, or with Move the one of
	// another URL. Nil leaves it as it is.
	Fit func(*DestinationState) (DestinationEdit, error)
	// Move names another destination: kind and URL, and what a new one has
	// besides. Nil stays.
	Move *hub.Destination
	// Restart forgets the subscription's failures and lets its destination
	// begin anew, with one probe.
	Restart bool
}

// ChangeSubscription changes a subscription and returns it as it then stands,
// with its destination. It is ErrChanged when the tenant has no such
// subscription. Waiting deliveries that are to go elsewhere, be held, go on or
// end are left to the data plane as chores.
func (d *DB) ChangeSubscription(ctx context.Context, c SubscriptionChange) (after Subscribed, err error) {
	err = d.changeTenant(ctx, string(c.Tenant), func(tx pgx.Tx) error {
		before, err := d.lockSubscribed(ctx, tx, c.Tenant, c.ID)
		if err != nil {
			return err
		}
		after = before
		edit, err := c.Decide(before)
		if err != nil {
			return err
		}
		if edit.Subscription == nil {
			return errUnchanged
		}
		if err := d.applyEdit(ctx, tx, &c, before, edit); err != nil {
			return err
		}
		if after, err = d.lockSubscribed(ctx, tx, c.Tenant, c.ID); err != nil || c.Audit == nil {
			return err
		}
		return d.audit(ctx, tx, c.Audit(before, after))
	})
	if err != nil {
		return after, fmt.Errorf("change event subscription %s: %w", c.ID, err)
	}
	return after, nil
}

func (d *DB) lockSubscribed(ctx context.Context, tx pgx.Tx, tenant hub.TenantID, id hub.SubscriptionID) (s Subscribed, err error) {
	rows, err := d.queries.LockSubscription(ctx, tx, dbsqlc.LockSubscriptionParams{ID: id.ID, TenantID: string(tenant)})
	if err != nil {
		return s, err
	}
	if len(rows) == 0 {
		return s, ErrChanged
	}
	s.Subscription = subscriptionOf(&rows[0])
	s.Destination, err = d.destinationState(ctx, tx, s.Subscription.Destination)
	return s, err
}

func (d *DB) applyEdit(ctx context.Context, tx pgx.Tx, c *SubscriptionChange, before Subscribed, edit SubscriptionEdit) error {
	next := *edit.Subscription
	state := before.Destination
	if edit.Move != nil {
		var err error
		if state, err = d.destinationByURL(ctx, tx, *edit.Move); err != nil {
			return err
		}
		next.Destination, next.Kind = state.Destination.ID, state.Destination.Kind
	}
	var notices []hub.Notice
	if edit.Fit != nil {
		var err error
		if _, notices, err = d.fitDestination(ctx, tx, state, edit.Fit, c.ID, c.Now); err != nil {
			return err
		}
	}
	p, err := updateOf(&next)
	if err != nil {
		return err
	}
	if err := d.queries.UpdateSubscription(ctx, tx, p); err != nil {
		return err
	}
	moved := next.Destination != before.Subscription.Destination
	if edit.Restart || moved || !next.DeletedAt.IsZero() {
		cleared, err := d.clearSpan(ctx, tx, c, &next)
		if err != nil {
			return err
		}
		notices = append(notices, cleared...)
	}
	if before.Subscription.DisabledBy == hub.DisabledByAuto && next.Enabled {
		notices = append(notices, hub.Notice{
			Kind: hub.NoticeRecovered, At: c.Now, Tenant: c.Tenant, Subscription: c.ID, Destination: next.Destination,
			Reason: "the event subscription that the hub had disabled was enabled", Span: &hub.SpanNotice{},
		})
	}
	if edit.Restart {
		told, err := d.restartDestination(ctx, tx, Lane{Tenant: c.Tenant, Destination: next.Destination}, c.Now)
		if err != nil {
			return err
		}
		notices = append(notices, told...)
	}
	if err := d.queueNotices(ctx, tx, c.FeedID, notices); err != nil {
		return err
	}
	return d.addChores(ctx, tx, c.Tenant, choresOf(&before.Subscription, &next))
}

// clearSpan forgets the failures of a subscription: they were those of another
// place, or are nobody's any more.
func (d *DB) clearSpan(ctx context.Context, tx pgx.Tx, c *SubscriptionChange, next *hub.EventSubscription) ([]hub.Notice, error) {
	n, err := d.queries.ForgetSpan(ctx, tx, c.ID.ID)
	if err != nil || n == 0 {
		return nil, err
	}
	reason := "the event subscription was enabled"
	switch {
	case !next.DeletedAt.IsZero():
		reason = "the event subscription was deleted"
	case next.VerificationState != hub.VerificationActive:
		reason = "the event subscription has another destination"
	}
	return []hub.Notice{{
		Kind: hub.NoticeSpanCleared, At: c.Now, Tenant: c.Tenant, Subscription: c.ID, Destination: next.Destination,
		Reason: reason, Span: &hub.SpanNotice{},
	}}, nil
}

// updateOf is a subscription as it is stored.
func updateOf(s *hub.EventSubscription) (p dbsqlc.UpdateSubscriptionParams, err error) {
	p = dbsqlc.UpdateSubscriptionParams{
		ID: s.ID.ID, Name: s.Name, Description: s.Description, Origin: textOrNull(s.Origin), EventTypes: s.EventTypes,
		SchemaMajor: s.SchemaMajor, DestinationID: s.Destination.ID, Enabled: s.Enabled,
		DisabledBy: textOrNull(string(s.DisabledBy)), DisabledReason: s.DisabledReason, DisabledAt: timeOrNull(s.DisabledAt),
		VerificationState: string(s.VerificationState), VerificationError: s.VerificationError,
		TimeoutMs: int32(s.Timeout / time.Millisecond), DisableOnGone: s.DisableOnGone,
		DeletedAt: timeOrNull(s.DeletedAt), Version: s.Version, UpdatedAt: s.UpdatedAt,
	}
	if p.RetryPolicy, err = json.Marshal(s.RetryPolicy); err != nil {
		return p, fmt.Errorf("encode a retry policy: %w", err)
	}
	headers := s.Headers
	if headers == nil {
		headers = []hub.Header{}
	}
	if p.Headers, err = json.Marshal(headers); err != nil {
		return p, fmt.Errorf("encode custom headers: %w", err)
	}
	return p, nil
}
