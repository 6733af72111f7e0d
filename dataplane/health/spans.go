package health

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/streaming-hub/streaming-hub/db"
	"github.com/streaming-hub/streaming-hub/hub"
	"github.com/streaming-hub/streaming-hub/hub/health"
)

// unwritten reports whether what is known only here has to be stored: a
// success only where there is a span to end.
func (s *span) unwritten() bool {
	return s.delta.Failures.Open() || !s.delta.SuccessAt.IsZero() && s.open
}

// readSpans learns which subscriptions have a span: their next success, or one
// that this process saw lately, has to be written.
func (b *Board) readSpans(ctx context.Context) error {
	b.mu.Lock()
	from, most := b.since.Add(-overlap), maxRead
	b.mu.Unlock()
	for {
		list, last, err := b.deps.Store.SpansChangedSince(ctx, from, most)
		if err != nil {
			return err
		}
		b.mu.Lock()
		for _, f := range list {
			s, ok := b.spans[f.Subscription]
			if !ok {
				s = &span{tenant: f.Tenant, destination: f.Destination, usedAt: b.now()}
				b.spans[f.Subscription] = s
			}
			s.open = true
		}
		if last.After(b.since) {
			b.since = last
		}
		b.mu.Unlock()
		if len(list) < most {
			return nil
		}
		// Others may have changed in the same microsecond.
		if next := last.Add(-time.Microsecond); next.After(from) {
			from = next
		} else {
			most *= 2
		}
	}
}

// relearnSpans reads all open spans again and so finds out which of those that
// this process believes in have ended: there is no row any more that says so.
func (b *Board) relearnSpans(ctx context.Context) error {
	b.mu.Lock()
	for _, s := range b.spans {
		s.open = false
	}
	b.since = time.Time{}
	b.mu.Unlock()
	return b.readSpans(ctx)
}

// writeSpans stores what only this process knows, and disables what trips.
func (b *Board) writeSpans(ctx context.Context) error {
	for {
		wanted, deltas := b.collectSpans()
		if len(wanted) == 0 {
			return nil
		}
		now := b.now()
		after, err := b.deps.Store.ChangeSpans(ctx, wanted, b.id(now), func(i int, stored db.FailureSpan) (db.FailureSpan, []hub.Notice) {
			next := stored
			if next.Span = stored.Span.Apply(deltas[i]); ended(stored.Span, next.Span) {
				next.Mark, next.TrippedAt = 0, time.Time{}
			}
			return b.judge(stored, next, now)
		})
		b.mu.Lock()
		for i, f := range wanted {
			s := b.spans[f.Subscription]
			if err != nil {
				s.delta = deltas[i].Then(s.delta)
				continue
			}
			s.open = after[i].Span.Open()
		}
		b.mu.Unlock()
		if err != nil {
			return err
		}
		if err := b.trip(ctx, after); err != nil {
			return err
		}
		if len(wanted) < maxWrite {
			return nil
		}
	}
}

func (b *Board) collectSpans() (wanted []db.FailureSpan, deltas []health.SpanDelta) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for id, s := range b.spans {
		if !s.unwritten() {
			continue
		}
		wanted = append(wanted, db.FailureSpan{Subscription: id, Tenant: s.tenant, Destination: s.destination})
		deltas = append(deltas, s.delta)
		s.delta = health.SpanDelta{}
		if len(wanted) == maxWrite {
			break
		}
	}
	return wanted, deltas
}

// ended reports whether a success came between two looks at a span. The later
// look may show a new span, which began after it.
func ended(before, after health.Span) bool {
	return before.Open() && (!after.Open() || after.FirstFailureAt.After(before.FirstFailureAt))
}

// judge compares a span before and after a change and says what is to be told.
// Warnings and the verdict are told once for each span.
func (b *Board) judge(before, after db.FailureSpan, now time.Time) (db.FailureSpan, []hub.Notice) {
	v := after.Span.Verdict(now, b.deps.Span)
	var told []hub.Notice
	tell := func(kind hub.NoticeKind, reason string) {
		told = append(told, hub.Notice{
			Kind: kind, At: now, Tenant: after.Tenant, Subscription: after.Subscription, Destination: after.Destination,
			Reason: reason, Span: spanNotice(after, v),
		})
	}
	over := ended(before.Span, after.Span)
	if over {
		tell(hub.NoticeSpanCleared, "a delivery succeeded")
		told[0].Span = &hub.SpanNotice{}
	}
	if after.Span.Open() && (over || !before.Span.Open()) {
		tell(hub.NoticeSpanOpened, "an attempt failed")
	}
	if v.Mark > after.Mark {
		after.Mark = v.Mark
		tell(hub.NoticeSpanMarked, fmt.Sprintf("%d %% of the way to being disabled", v.Mark))
	}
	if v.Trips && after.TrippedAt.IsZero() {
		after.TrippedAt = now
		if !b.deps.Act {
			tell(hub.NoticeWouldDisable, reasonOf(after.Span)+"; automatic disabling is switched off")
			b.disabled.WithLabelValues("failure_span", "no").Inc()
		}
	}
	return after, told
}

func spanNotice(f db.FailureSpan, v health.Verdict) *hub.SpanNotice {
	return &hub.SpanNotice{
		FirstFailureAt: f.Span.FirstFailureAt, LastFailureAt: f.Span.LastFailureAt, FailureCount: f.Span.FailureCount,
		Mark: v.Mark, WouldTripAt: v.WouldTripAt,
	}
}

func reasonOf(s health.Span) string {
	return fmt.Sprintf("%d attempts failed and none succeeded since %s", s.FailureCount, s.FirstFailureAt.UTC().Format(time.RFC3339))
}

// trip disables the subscriptions of spans that trip.
func (b *Board) trip(ctx context.Context, spans []db.FailureSpan) error {
	if !b.deps.Act {
		return nil
	}
	for _, f := range spans {
		if !f.Span.Verdict(b.now(), b.deps.Span).Trips {
			continue
		}
		now := b.now()
		done, err := b.deps.Store.DisableSubscription(ctx, b.disabling(f.Tenant, f.Subscription, now, func(span db.FailureSpan) (string, db.FailureSpan) {
			v := span.Span.Verdict(now, b.deps.Span)
			if !v.Trips {
				return "", span // a success came in between
			}
			if span.TrippedAt.IsZero() {
				span.TrippedAt = now
			}
			return reasonOf(span.Span), span
		}))
		if err != nil {
			return err
		}
		if done {
			b.disabled.WithLabelValues("failure_span", "yes").Inc()
			b.deps.Log.Warn("an event subscription was disabled: its destination failed for too long", "subscription", f.Subscription.String())
		}
	}
	return nil
}

func (b *Board) disabling(tenant hub.TenantID, id hub.SubscriptionID, now time.Time, judge func(db.FailureSpan) (string, db.FailureSpan)) db.AutoDisable {
	return db.AutoDisable{
		Tenant: tenant, Subscription: id, FeedID: b.id(now), At: now,
		Judge: func(_ *hub.EventSubscription, span db.FailureSpan) (string, db.FailureSpan) { return judge(span) },
		Notice: func(reason string, after db.FailureSpan) hub.Notice {
			return hub.Notice{
				Kind: hub.NoticeAutoDisabled, At: now, Tenant: tenant, Subscription: id, Destination: after.Destination,
				Reason: reason, Span: spanNotice(after, after.Span.Verdict(now, b.deps.Span)),
			}
		},
		Audit: func(before, after *hub.EventSubscription) db.AuditEntry {
			return db.AuditEntry{
				ID: b.id(now), Tenant: tenant, ActorName: "streaming-hub", Action: "auto_disable_event_subscription",
				Object: "sub_" + strings.ReplaceAll(after.ID.String(), "-", ""), // as the API writes it
				Before: map[string]any{"enabled": before.Enabled},
				After:  map[string]any{"enabled": after.Enabled, "reason": after.DisabledReason},
			}
		},
	}
}

// sweepSpans judges the spans that have lasted for half of the window, though
// nothing happens to them. Every replica may do it; what it finds is acted on
// under a lock.
func (b *Board) sweepSpans(ctx context.Context) error {
	now := b.now()
	began := now.Add(-b.deps.Span.Window / 2)
	for after := (hub.SubscriptionID{}); ; {
		list, err := b.deps.Store.LongSpans(ctx, began, after, maxWrite)
		if err != nil || len(list) == 0 {
			return err
		}
		after = list[len(list)-1].Subscription
		var stale []db.FailureSpan
		for _, f := range list {
			if v := f.Span.Verdict(now, b.deps.Span); v.Mark > f.Mark || v.Trips && f.TrippedAt.IsZero() {
				stale = append(stale, f)
			}
		}
		if len(stale) > 0 {
			if _, err := b.deps.Store.ChangeSpans(ctx, stale, b.id(now), func(_ int, stored db.FailureSpan) (db.FailureSpan, []hub.Notice) {
				return b.judge(stored, stored, now)
			}); err != nil {
				return err
			}
		}
		if err := b.trip(ctx, list); err != nil {
			return err
		}
	}
}

// disableGone disables the subscriptions whose receiver answered 410.
func (b *Board) disableGone(ctx context.Context) error {
	b.mu.Lock()
	gone := b.gone
	b.gone = map[hub.SubscriptionID]hub.TenantID{}
	b.mu.Unlock()
	for id, tenant := range gone {
		const reason = "the receiver answered 410: it is gone"
		if !b.deps.Act {
			b.disabled.WithLabelValues("gone", "no").Inc()
			continue
		}
		done, err := b.deps.Store.DisableSubscription(ctx, b.disabling(tenant, id, b.now(), func(span db.FailureSpan) (string, db.FailureSpan) {
			return reason, span
		}))
		if err != nil {
			b.mu.Lock()
			for id, tenant := range gone {
				b.gone[id] = tenant
			}
			b.mu.Unlock()
			return err
		}
		delete(gone, id)
		if done {
			b.disabled.WithLabelValues("gone", "yes").Inc()
			b.deps.Log.Warn("an event subscription was disabled: its receiver answered 410", "subscription", id.String())
		}
	}
	return nil
}

func (b *Board) id(now time.Time) hub.ID { return hub.NewID(now, b.deps.Random) }
