package db

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/streaming-hub/streaming-hub/db/internal/dbsqlc"
	"github.com/streaming-hub/streaming-hub/hub"
)

// SpansChangedSince reads the failure spans that were written after a moment
// of the database clock, the oldest first, at most limit, with the moment of
// the last one.
func (d *DB) SpansChangedSince(ctx context.Context, since time.Time, limit int) (list []FailureSpan, last time.Time, err error) {
	rows, err := d.queries.SpansChangedSince(ctx, d.pool, dbsqlc.SpansChangedSinceParams{Since: since, Most: int32(limit)})
	if err != nil {
		return nil, since, fmt.Errorf("read the failure spans that changed: %w", err)
	}
	last = since
	if n := len(rows); n > 0 {
		last = rows[n-1].ChangedAt
	}
	return spansOf(rows), last, nil
}

// LongSpans reads up to limit spans that began by a moment, behind a
// subscription.
func (d *DB) LongSpans(ctx context.Context, began time.Time, after hub.SubscriptionID, limit int) ([]FailureSpan, error) {
	rows, err := d.queries.LongSpans(ctx, d.pool, dbsqlc.LongSpansParams{Before: began, After: after.ID, Most: int32(limit)})
	if err != nil {
		return nil, fmt.Errorf("read the long failure spans: %w", err)
	}
	return spansOf(rows), nil
}

// ChangeSpans rewrites the spans of distinct subscriptions, each by what change
// makes of it under its lock, and publishes change's notices, in one
// transaction. A span that is not open does not exist. wanted names the
// subscriptions with tenant and destination; the result is in its order. A
// subscription that is deleted, has another destination by now, or is under
// FAILURE_RATE is passed over: what was seen of it says nothing any more. So
// does a stored span of another destination.
func (d *DB) ChangeSpans(ctx context.Context, wanted []FailureSpan, feedID hub.ID, change func(i int, stored FailureSpan) (FailureSpan, []hub.Notice)) ([]FailureSpan, error) {
	var after []FailureSpan
	var err error
	for range 3 { // a replica may open the same span at the same time
		if after, err = d.changeSpans(ctx, wanted, feedID, change); !errors.Is(err, ErrChanged) {
			break
		}
	}
	if err != nil {
		return nil, fmt.Errorf("change %d failure spans: %w", len(wanted), err)
	}
	return after, nil
}

func (d *DB) changeSpans(ctx context.Context, wanted []FailureSpan, feedID hub.ID, change func(int, FailureSpan) (FailureSpan, []hub.Notice)) ([]FailureSpan, error) {
	result := slices.Clone(wanted)
	err := pgx.BeginFunc(ctx, d.pool, func(tx pgx.Tx) error {
		ids := make([]hub.ID, len(wanted))
		order := make([]int, len(wanted))
		for i := range wanted {
			ids[i], order[i] = wanted[i].Subscription.ID, i
		}
		slices.SortFunc(order, func(a, b int) int { return bytes.Compare(ids[a][:], ids[b][:]) })
		rows, err := d.queries.LockSpans(ctx, tx, ids)
		if err != nil {
			return err
		}
		stored := make(map[hub.ID]FailureSpan, len(rows))
		for _, s := range spansOf(rows) {
			stored[s.Subscription.ID] = s
		}
		// After the locks: what moves a subscription now waits for them.
		targets, err := d.queries.SpanTargets(ctx, tx, ids)
		if err != nil {
			return err
		}
		leadsTo := make(map[hub.ID]hub.ID, len(targets))
		for _, t := range targets {
			leadsTo[t.ID] = t.DestinationID
		}
		var notices []hub.Notice
		for _, i := range order {
			if to, exists := leadsTo[ids[i]]; !exists || to != wanted[i].Destination.ID {
				result[i] = FailureSpan{Subscription: wanted[i].Subscription, Tenant: wanted[i].Tenant, Destination: wanted[i].Destination}
				continue
			}
			before, there := stored[ids[i]]
			if !there || before.Destination != wanted[i].Destination {
				before = FailureSpan{Subscription: wanted[i].Subscription, Tenant: wanted[i].Tenant, Destination: wanted[i].Destination}
			}
			after, told := change(i, before)
			if err := d.writeSpan(ctx, tx, before, after, there); err != nil {
				return err
			}
			notices = append(notices, told...)
			result[i] = after
		}
		return d.queueNotices(ctx, tx, feedID, notices)
	})
	return result, err
}

func (d *DB) writeSpan(ctx context.Context, tx pgx.Tx, before, after FailureSpan, there bool) error {
	switch {
	case !after.Span.Open():
		if !there {
			return nil
		}
		return d.queries.ClearSpan(ctx, tx, after.Subscription.ID)
	case !there:
		n, err := d.queries.InsertSpan(ctx, tx, dbsqlc.InsertSpanParams{
			SubscriptionID: after.Subscription.ID, TenantID: string(after.Tenant), DestinationID: after.Destination.ID,
			FirstFailureAt: after.Span.FirstFailureAt, LastFailureAt: after.Span.LastFailureAt,
			FailureCount: after.Span.FailureCount, Mark: int16(after.Mark), TrippedAt: timeOrNull(after.TrippedAt),
		})
		if err == nil && n == 0 {
			err = ErrChanged
		}
		return err
	case after == before:
		return nil
	default:
		return d.queries.UpdateSpan(ctx, tx, dbsqlc.UpdateSpanParams{
			SubscriptionID: after.Subscription.ID, DestinationID: after.Destination.ID,
			FirstFailureAt: after.Span.FirstFailureAt, LastFailureAt: after.Span.LastFailureAt,
			FailureCount: after.Span.FailureCount, Mark: int16(after.Mark), TrippedAt: timeOrNull(after.TrippedAt),
		})
	}
}

// AutoDisable asks to switch a subscription off.
type AutoDisable struct {
	Tenant       hub.TenantID
	Subscription hub.SubscriptionID
	FeedID       hub.ID
	At           time.Time
	// Judge decides under the tenant's lock, from the subscription and its span
	// as they are now; "" leaves the subscription alone. The span it returns is
	// stored.
	Judge func(*hub.EventSubscription, FailureSpan) (reason string, after FailureSpan)
	// Notice and Audit tell of it.
	Notice func(reason string, after FailureSpan) hub.Notice
	Audit  func(before, after *hub.EventSubscription) AuditEntry
}

// DisableSubscription switches a subscription off if the Judge says so, once
// whoever asks: its waiting deliveries will be held. It reports whether it did.
func (d *DB) DisableSubscription(ctx context.Context, r AutoDisable) (done bool, err error) {
	err = d.changeTenant(ctx, string(r.Tenant), func(tx pgx.Tx) error {
		subs, err := d.queries.SubscriptionsByID(ctx, tx, []hub.ID{r.Subscription.ID})
		if err != nil {
			return err
		}
		if len(subs) == 0 {
			return errUnchanged
		}
		before := subscriptionOf(&subs[0])
		rows, err := d.queries.LockSpans(ctx, tx, []hub.ID{r.Subscription.ID})
		if err != nil {
			return err
		}
		span := FailureSpan{Subscription: r.Subscription, Tenant: r.Tenant, Destination: before.Destination}
		if len(rows) > 0 && rows[0].DestinationID == span.Destination.ID {
			span = spansOf(rows)[0]
		}
		reason, after := r.Judge(&before, span)
		if reason == "" || !before.Enabled || !before.DeletedAt.IsZero() {
			return errUnchanged
		}
		if span.Span.Open() {
			if err := d.writeSpan(ctx, tx, span, after, true); err != nil {
				return err
			}
		}
		n, err := d.queries.DisableByHub(ctx, tx, dbsqlc.DisableByHubParams{ID: r.Subscription.ID, Reason: reason, Now: r.At})
		if err == nil && n == 0 {
			err = ErrChanged
		}
		if err != nil {
			return err
		}
		done = true
		if err := d.addChores(ctx, tx, r.Tenant, []chore{{before.ID, before.Destination}}); err != nil {
			return err
		}
		if err := d.queueNotices(ctx, tx, r.FeedID, []hub.Notice{r.Notice(reason, after)}); err != nil {
			return err
		}
		now := before
		now.Enabled, now.DisabledBy, now.DisabledReason, now.DisabledAt = false, hub.DisabledByAuto, reason, r.At
		return d.audit(ctx, tx, r.Audit(&before, &now))
	})
	if err != nil {
		return false, fmt.Errorf("disable event subscription %s: %w", r.Subscription, err)
	}
	return done, nil
}
