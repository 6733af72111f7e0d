package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"
)

// shortGates disable within seconds what otherwise takes five days.
var shortGates = []string{"STREAMING_HUB_AUTODISABLE_FAILURE_WINDOW=6s", "STREAMING_HUB_AUTODISABLE_FAILURE_SPREAD=2s"}

// spreadRetries fail at 0, 0.7, 2.8, 7.7 and 18.2 seconds: the fourth passes
// both gates.
var spreadRetries = map[string]any{"exponential": map[string]any{"unit": "PT0.7S", "attempts": 20}}

// spanChange is an item of failureSpanChanged.
type spanChange struct {
	Kind, Reason        string
	EventSubscriptionID string
	FailureCount        string
	WouldTripAt         *time.Time
}

// spanChanges follows what is told of one event subscription.
func (d *desk) spanChanges(ctx context.Context, t *testing.T, subscription string) *live {
	t.Helper()
	return d.follow(ctx, t, "failureSpanChanged", `, filter: {eventSubscriptionId: "`+subscription+`"}`,
		`... on FailureSpanChange { kind reason eventSubscriptionId failureCount wouldTripAt }`)
}

// until reads up to and with the first item of a kind.
func (l *live) until(ctx context.Context, t *testing.T, kind string) (all []spanChange) {
	t.Helper()
	for {
		var c spanChange
		l.next(ctx, t, &c)
		all = append(all, c)
		if c.Kind == kind {
			return all
		}
	}
}

type failureSpan struct {
	FirstFailureAt, LastFailureAt time.Time
	Sustained, Spread             bool
	WouldTripAt, TrippedAt        *time.Time
	Explanation                   string
}

// span is the open failure span of an event subscription, nil for none.
func (d *desk) span(ctx context.Context, t *testing.T, subscription string) *failureSpan {
	t.Helper()
	var page struct{ FailureSpans struct{ Nodes []failureSpan } }
	d.ask(ctx, t, `query($s: ID!) { failureSpans(filter: {eventSubscriptionId: $s}) { nodes {
		firstFailureAt lastFailureAt sustained spread wouldTripAt trippedAt explanation } } }`, map[string]any{"s": subscription}, &page)
	if len(page.FailureSpans.Nodes) == 0 {
		return nil
	}
	return &page.FailureSpans.Nodes[0]
}

// audited are the entries of one action on an object.
func (d *desk) audited(ctx context.Context, t *testing.T, action, object string) (n int) {
	t.Helper()
	var page struct {
		AuditLog struct{ Nodes []struct{ ActorID *string } }
	}
	d.ask(ctx, t, `query($f: AuditLogFilter) { auditLog(filter: $f) { nodes { actorId } } }`,
		map[string]any{"f": map[string]any{"action": action, "object": object}}, &page)
	return len(page.AuditLog.Nodes)
}

// TestAutoDisable lets one subscription only fail and another one fail most of
// the time. The first is disabled, once, and works again after a verification;
// the second is left alone.
func TestAutoDisable(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	defer cancel()
	const failing, mixed, n = "/hooks/failing", "/hooks/mixed", 3
	retries := map[string]any{"retryPolicy": spreadRetries}

	t.Run("switched_off_once_and_back_by_a_verification", func(t *testing.T) {
		d := newDesk(t, startDev(ctx, t, stateDir(t), shortGates...).state)
		s := d.subscribe(ctx, t, "fails", failing, retries)
		lucky := d.subscribe(ctx, t, "lucky", mixed, retries)
		told, toldLucky := d.spanChanges(ctx, t, s.ID), d.spanChanges(ctx, t, lucky.ID)
		script(ctx, t, d.st, failing, untried)
		// Two failures and a success, again and again.
		script(ctx, t, d.st, mixed, `{"answers":[`+strings.Repeat(`{"status":422,"times":2},{"status":200},`, 300)+`{"status":200}]}`)
		d.publish(ctx, t, "fails", numbered("f", n)...)

		sent := 0
		var off sub
		eventually(ctx, t, func() bool {
			if sent < 60 {
				d.publish(ctx, t, "lucky", fmt.Sprintf("l-%d", sent))
				sent++
			}
			off = d.sub(ctx, t, s.ID)
			return !off.Enabled
		}, func() string {
			return fmt.Sprintf("it is not disabled: %+v, span %+v", off, d.span(ctx, t, s.ID))
		})
		if off.DisabledBy != "AUTO" || !strings.Contains(off.DisabledReason, "failed") || off.VerificationState != "ACTIVE" {
			t.Errorf("disabled it is %+v", off)
		}
		if now := d.sub(ctx, t, lucky.ID); !now.Enabled {
			t.Errorf("the one with successes was disabled too: %+v", now)
		}
		if span := d.span(ctx, t, s.ID); span == nil || !span.Sustained || !span.Spread || span.TrippedAt == nil {
			t.Errorf("the span that tripped is shown as %+v", span)
		}
		items := told.until(ctx, t, "AUTO_DISABLED")
		if items[0].Kind != "SPAN_OPENED" {
			t.Errorf("told were %+v", items)
		}
		held := d.all(ctx, t, s.ID, n, "held", in("HELD"))
		before := len(d.came(ctx, t, failing))
		d.publish(ctx, t, "fails", "meanwhile")
		d.stored(ctx, t, "fails", n+1)
		quiet(ctx, t, 2*time.Second, func() bool { return len(d.came(ctx, t, failing)) == before },
			func() string { return "requests came to a disabled subscription" })
		if again := told.rest(); len(again) > 0 {
			t.Errorf("after AUTO_DISABLED also came %v", again)
		}
		if got := d.audited(ctx, t, "auto_disable_event_subscription", s.ID); got != 1 {
			t.Errorf("%d audit entries of the disabling, want 1", got)
		}

		script(ctx, t, d.st, failing, fine)
		if back := d.verify(ctx, t, s.ID); !back.Enabled || back.DisabledBy != "" {
			t.Errorf("verified it is %+v", back)
		}
		told.until(ctx, t, "RECOVERED")
		list := d.all(ctx, t, s.ID, len(held), "delivered", in("DELIVERED"))
		d.numbersAreReal(ctx, t, failing, list)
		if span := d.span(ctx, t, s.ID); span != nil {
			t.Errorf("after the recovery there is a span %+v", span)
		}
		for _, raw := range toldLucky.rest() {
			if strings.Contains(raw, "AUTO_DISABLED") {
				t.Errorf("of the one with successes was told %s", raw)
			}
		}
	})

	t.Run("with_the_kill_switch_it_is_shown_and_not_done", func(t *testing.T) {
		d := newDesk(t, startDev(ctx, t, stateDir(t), append([]string{"STREAMING_HUB_AUTODISABLE_ENABLED=false"}, shortGates...)...).state)
		s := d.subscribe(ctx, t, "fails", failing, retries)
		told := d.spanChanges(ctx, t, s.ID)
		script(ctx, t, d.st, failing, untried)
		d.publish(ctx, t, "fails", numbered("f", n)...)
		var span *failureSpan
		eventually(ctx, t, func() bool {
			span = d.span(ctx, t, s.ID)
			return span != nil && span.Spread && !span.Sustained
		}, func() string { return fmt.Sprintf("the span is %+v", span) })
		if span.WouldTripAt == nil || !span.WouldTripAt.Equal(span.FirstFailureAt.Add(6*time.Second)) || span.TrippedAt != nil {
			t.Errorf("the spread span, which would trip 6 s after its beginning, is shown as %+v", span)
		}
		items := told.until(ctx, t, "WOULD_DISABLE")
		eventually(ctx, t, func() bool {
			span = d.span(ctx, t, s.ID)
			return span != nil && span.TrippedAt != nil
		}, func() string { return fmt.Sprintf("the span is %+v", span) })
		// The next attempt is made, though it would have been disabled.
		d.all(ctx, t, s.ID, n, "tried for the fifth time", func(one stands) bool { return one.State == "WAITING" && one.AttemptCount >= 5 })
		if now := d.sub(ctx, t, s.ID); !now.Enabled {
			t.Errorf("it was disabled: %+v", now)
		}
		for _, raw := range told.rest() {
			if strings.Contains(raw, "DISABLE") {
				t.Errorf("after %+v also came %s", items, raw)
			}
		}
		if got := d.audited(ctx, t, "auto_disable_event_subscription", s.ID); got != 0 {
			t.Errorf("%d audit entries of a disabling that was not done", got)
		}
	})
}
