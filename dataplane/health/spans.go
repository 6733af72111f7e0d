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
			key := place{f.Subscription, f.Destination}
			s, ok := b.spans[key]
			if !ok {
				s = &span{tenant: f.Tenant, usedAt: b.now()}
				b.spans[key] = s
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
		wanted, sums := b.collectSpans()
		if len(wanted) == 0 {
			return nil
		}
		now := b.now()
		after, err := b.deps.Store.ChangeSpans(ctx, wanted, b.id(now), func(i int, stored db.FailureSpan) (db.FailureSpan, []hub.Notice) {
			next := stored
			if next.Span = stored.Span.Apply(sums[i].delta); ended(stored.Span, next.Span) {
				next.Mark, next.TrippedAt = 0, time.Time{}
			}
			return b.judge(stored, next, sums[i].gone, now)
		})
		b.mu.Lock()
		for i, f := range wanted {
			s := b.spans[place{f.Subscription, f.Destination}]
			if err != nil {
				s.delta = sums[i].delta.Then(s.delta)
				s.gone = (s.gone || sums[i].gone) && s.delta.Failures.Open()
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

// collectSpans takes what has to be written. Of a subscription whose
// destination was changed just now only one is taken, the other waits a turn.
func (b *Board) collectSpans() (wanted []db.FailureSpan, sums []span) {
	b.mu.Lock()
	defer b.mu.Unlock()
	taken := map[hub.SubscriptionID]bool{}
	for key, s := range b.spans {
		if !s.unwritten() || taken[key.subscription] {
			continue
		}
		taken[key.subscription] = true
		wanted = append(wanted, db.FailureSpan{Subscription: key.subscription, Tenant: s.tenant, Destination: key.destination})
		sums = append(sums, *s)
		s.delta, s.gone = health.SpanDelta{}, false
		if len(wanted) == maxWrite {
			break
		}
	}
	return wanted, sums
}

// ended reports whether a success came between two looks at a span. The later
// look may show a new span, which began after it.
func ended(before, after health.Span) bool {
	return before.Open() && (!after.Open() || after.FirstFailureAt.After(before.FirstFailureAt))
}

// judge compares a span before and after a change and says what is to be told.
// Warnings and the verdict are told once for each span. gone says that the
// receiver answered 410, which is a verdict too.
func (b *Board) judge(before, after db.FailureSpan, gone bool, now time.Time) (db.FailureSpan, []hub.Notice) {
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
	if (v.Trips || gone && after.Span.Open()) && after.TrippedAt.IsZero() {
		after.TrippedAt = now
		switch {
		case b.deps.Act:
		case gone:
			tell(hub.NoticeWouldDisable, goneReason+switchedOff)
			b.disabled.WithLabelValues("gone", "no").Inc()
		default:
			tell(hub.NoticeWouldDisable, reasonOf(after.Span)+switchedOff)
			b.disabled.WithLabelValues("failure_span", "no").Inc()
		}
	}
	return after, told
}

// switchedOff ends the reason of what the kill switch keeps from being done.
const switchedOff = "; automatic disabling is switched off"

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
		done, err := b.deps.Store.DisableSubscription(ctx, b.disabling(f.Tenant, f.Subscription, now, func(_ *hub.EventSubscription, span db.FailureSpan) (string, db.FailureSpan) {
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

func (b *Board) disabling(tenant hub.TenantID, id hub.SubscriptionID, now time.Time, judge func(*hub.EventSubscription, db.FailureSpan) (string, db.FailureSpan)) db.AutoDisable {
	return db.AutoDisable{
		Tenant: tenant, Subscription: id, FeedID: b.id(now), At: now,
		Judge: judge,
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
				return b.judge(stored, stored, false, now)
			}); err != nil {
				return err
			}
		}
		if err := b.trip(ctx, list); err != nil {
			return err
		}
	}
}

func (b *Board) id(now time.Time) hub.ID { return hub.NewID(now, b.deps.Random) }
