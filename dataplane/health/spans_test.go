package health_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/streaming-hub/streaming-hub/dataplane/health/healthtest"
	"github.com/streaming-hub/streaming-hub/db"
	"github.com/streaming-hub/streaming-hub/hub"
)

const (
	opened, marked, cleared = hub.NoticeSpanOpened, hub.NoticeSpanMarked, hub.NoticeSpanCleared
	disabled, would         = hub.NoticeAutoDisabled, hub.NoticeWouldDisable
)

func (c *cluster) wantTold(want ...hub.NoticeKind) {
	c.Helper()
	if diff := cmp.Diff(want, c.told()); diff != "" {
		c.Errorf("notices (-want +got):\n%s", diff)
	}
}

// failForHours makes an attempt fail each 30 minutes, on one replica after the
// other, the last one half an hour before the end.
func (c *cluster) failForHours(hours int) {
	for n := range 2 * hours {
		c.until(time.Duration(n) * 30 * time.Minute)
		c.fail(c.either(n))
	}
}

func TestSpans_trip(t *testing.T) {
	const h, s = time.Hour, time.Second
	t.Run("once_after_120_hours_by_a_failure", func(t *testing.T) {
		bubble(t, nil, func(c *cluster) {
			c.failForHours(120)
			c.until(120*h - 1500*time.Millisecond)
			c.fail(c.one) // written and judged before 119:59:59
			c.until(120*h - s)
			if !c.enabled() {
				c.Fatal("disabled within 120 hours")
			}
			c.until(120 * h)
			c.fail(c.one)
			c.fail(c.two) // both find the verdict
			c.until(120*h + 1500*time.Millisecond)
			sub := c.store.Subscription(c.sub)
			if sub.Enabled || sub.DisabledBy != hub.DisabledByAuto || sub.VerificationState != hub.VerificationActive {
				c.Fatalf("after 120 hours of failures it is %+v", sub)
			}
			for n := range 60 { // what was under way goes on, and so do sweeps
				c.until(120*h + time.Duration(n+1)*10*s)
				c.fail(c.either(n))
			}
			c.share()
			c.wantTold(opened, marked, marked, marked, disabled)
			if n := len(c.store.Audits()); n != 1 {
				c.Errorf("%d entries in the audit log", n)
			}
			if again := c.store.Subscription(c.sub); cmp.Diff(sub, again) != "" {
				c.Errorf("disabled again: %s", cmp.Diff(sub, again))
			}
			var marks []int
			for _, n := range c.store.Notices() {
				if n.Subscription != c.sub {
					c.Errorf("a notice of another subscription: %+v", n)
				}
				if n.Kind != marked {
					continue
				}
				marks = append(marks, n.Span.Mark)
				if late := n.At.Sub(c.begun) - time.Duration(n.Span.Mark)*120*h/100; late < 0 || late > time.Minute {
					c.Errorf("the warning at %d %% came %v late", n.Span.Mark, late)
				}
			}
			if !slices.Equal(marks, []int{50, 75, 90}) {
				c.Errorf("warned at %v", marks)
			}
			span := c.store.Span(c.sub)
			if span.Span.FailureCount != 240+3+60 || !span.Span.FirstFailureAt.Equal(c.begun) || span.TrippedAt.IsZero() {
				c.Errorf("the span is %+v", span)
			}
			if why := sub.DisabledReason; !strings.Contains(why, "attempts failed and none succeeded since "+c.begun.UTC().Format(time.RFC3339)) {
				c.Errorf("reason %q", why)
			}
		})
	})
	t.Run("by_the_sweep_when_no_attempt_comes", func(t *testing.T) {
		bubble(t, nil, func(c *cluster) {
			c.fail(c.one)
			c.until(12 * h)
			c.fail(c.two) // 12:00:00 is spread
			c.share()
			c.restart(time.Minute)
			c.until(120*h - s)
			if !c.enabled() {
				c.Fatal("disabled within 120 hours")
			}
			c.until(120*h + time.Minute)
			if c.enabled() {
				c.Fatal("the sweep did not disable within a minute")
			}
			c.until(121 * h)
			c.wantTold(opened, marked, marked, marked, disabled)
		})
	})
	t.Run("not_with_a_spread_of_11_59_59", func(t *testing.T) {
		bubble(t, nil, func(c *cluster) {
			c.fail(c.one)
			c.until(12*h - s)
			c.fail(c.two)
			c.share()
			c.restart(120 * h)
			c.pass(10 * time.Minute)
			if c.wantTold(opened); !c.enabled() {
				c.Error("disabled")
			}
		})
	})
	t.Run("never_by_one_failure_and_silence", func(t *testing.T) {
		bubble(t, nil, func(c *cluster) {
			c.fail(c.one)
			c.until(24 * h)
			c.restart(100 * h)
			c.until(126 * h)
			c.restart(24 * 24 * h)
			c.until(30*24*h + h)
			if c.wantTold(opened); !c.enabled() {
				c.Error("disabled")
			}
			if !c.store.Span(c.sub).TrippedAt.IsZero() {
				c.Error("a verdict was stored")
			}
		})
	})
	t.Run("not_when_a_success_came_in_between", func(t *testing.T) {
		var c *cluster
		asked := 0
		bubble(t, func(made *cluster) {
			c = made
			c.deps.Store = beforeDisabling{c.store, func() {
				// Another process ends the span, after the verdict and before
				// what follows from it.
				asked++
				ended := []db.FailureSpan{{Subscription: c.sub, Tenant: c.lane.Tenant, Destination: c.lane.Destination}}
				_, err := c.store.ChangeSpans(c.Context(), ended, newID(), func(_ int, f db.FailureSpan) (db.FailureSpan, []hub.Notice) {
					return db.FailureSpan{Subscription: f.Subscription, Tenant: f.Tenant, Destination: f.Destination}, nil
				})
				if err != nil {
					c.Error(err)
				}
			}}
		}, func(c *cluster) {
			c.fail(c.one)
			c.until(12 * h)
			c.fail(c.one)
			c.share()
			c.restart(105 * h)
			c.until(121 * h)
			if asked == 0 {
				c.Fatal("nobody asked to disable it")
			}
			if !c.enabled() || len(c.store.Audits()) > 0 {
				c.Error("disabled though a success came in between")
			}
		})
	})
}

// beforeDisabling lets something happen just before a subscription would be
// disabled.
type beforeDisabling struct {
	*healthtest.Memory
	do func()
}

func (s beforeDisabling) DisableSubscription(ctx context.Context, r db.AutoDisable) (bool, error) {
	s.do()
	return s.Memory.DisableSubscription(ctx, r)
}

func TestSpans_kill_switch(t *testing.T) {
	const h = time.Hour
	bubble(t, func(c *cluster) { c.deps.Act = false }, func(c *cluster) {
		c.fail(c.one)
		c.until(12 * h)
		c.fail(c.two)
		c.share()
		c.restart(100 * h)
		c.until(120 * h)
		c.fail(c.one)
		c.fail(c.two)
		c.until(122 * h)
		c.wantTold(opened, marked, would) // 50 and 75 % passed while nobody was there
		span := c.store.Span(c.sub)
		if !c.enabled() || span.TrippedAt.Sub(c.begun).Round(time.Minute) != 120*h {
			c.Fatalf("enabled %v, tripped at %v", c.enabled(), span.TrippedAt)
		}
		c.deps.Act = true
		c.restart(time.Hour)
		c.pass(time.Minute)
		if c.enabled() {
			c.Fatal("nothing was disabled when it was switched on")
		}
		c.pass(10 * time.Minute)
		c.wantTold(opened, marked, would, disabled)
		if got := c.store.Span(c.sub).TrippedAt; !got.Equal(span.TrippedAt) {
			c.Errorf("the verdict moved from %v to %v", span.TrippedAt, got)
		}
	})
}

func (refusesSpans) SpansChangedSince(context.Context, time.Time, int) ([]db.FailureSpan, time.Time, error) {
	return nil, time.Time{}, fmt.Errorf("no spans today")
}
