package health_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/streaming-hub/streaming-hub/dataplane/dispatch"
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
			if span.Span.FailureCount != 240+2+60 || !span.Span.FirstFailureAt.Equal(c.begun) || span.TrippedAt.IsZero() {
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

func TestSpans_clear(t *testing.T) {
	const h = time.Hour
	for n, name := range []string{"by_a_success_of_the_replica_that_saw_the_failure", "by_a_success_of_the_other"} {
		t.Run(name, func(t *testing.T) {
			bubble(t, nil, func(c *cluster) {
				c.fail(c.one)
				c.until(20 * time.Minute) // the other one has forgotten what it read
				c.fail(c.one)
				c.share()
				c.succeed(c.either(n))
				c.pass(1100 * time.Millisecond)
				if span := c.store.Span(c.sub); span.Span.Open() {
					c.Errorf("the span is %+v", span)
				}
				c.wantTold(opened, cleared)
			})
		})
	}
	t.Run("by_a_success_that_knew_of_no_span_yet", func(t *testing.T) {
		bubble(t, nil, func(c *cluster) {
			c.fail(c.one)
			c.pass(time.Millisecond)
			c.succeed(c.two)
			c.share()
			c.share()
			if span := c.store.Span(c.sub); span.Span.Open() {
				c.Errorf("the span is %+v", span)
			}
			c.wantTold(opened, cleared)
		})
	})
	t.Run("by_a_success_long_after_the_last_failure", func(t *testing.T) {
		bubble(t, nil, func(c *cluster) {
			other := c.subscription()
			c.fail(c.one)
			for range 11 { // others fail: what changed lately is not this span
				c.pass(time.Hour)
				c.see(c.two, hub.ErrStatus, func(o *dispatch.Observed) { o.Subscription = other })
			}
			c.pass(time.Minute)
			c.succeed(c.two)
			c.share()
			if span := c.store.Span(c.sub); span.Span.Open() {
				c.Errorf("the span is %+v", span)
			}
		})
	})
	t.Run("and_replicas_that_believed_in_them_learn_it", func(t *testing.T) {
		bubble(t, nil, func(c *cluster) {
			c.fail(c.one)
			c.share()
			c.succeed(c.one)
			c.until(61 * time.Minute)
			writes := c.store.Writes()
			c.succeed(c.two)
			c.share()
			if c.store.Writes() != writes {
				c.Error("a success is written though the span ended an hour ago")
			}
		})
	})
	t.Run("by_the_first_success_of_a_replica_that_just_started", func(t *testing.T) {
		bubble(t, nil, func(c *cluster) {
			c.fail(c.one)
			c.until(24 * h)
			fresh := c.start()
			c.succeed(fresh)
			c.share()
			if span := c.store.Span(c.sub); span.Span.Open() {
				c.Errorf("the span is %+v", span)
			}
			fresh.stop()
		})
	})
	t.Run("by_what_a_replica_saw_last_before_it_stopped", func(t *testing.T) {
		bubble(t, nil, func(c *cluster) {
			c.fail(c.one)
			c.share()
			c.succeed(c.two)
			c.two.stop()
			if span := c.store.Span(c.sub); span.Span.Open() {
				c.Errorf("the span is %+v", span)
			}
		})
	})
	t.Run("not_by_a_success_that_ended_before_the_first_failure", func(t *testing.T) {
		bubble(t, nil, func(c *cluster) {
			c.succeed(c.two)
			c.pass(time.Millisecond)
			c.fail(c.one)
			c.share()
			c.share()
			if span := c.store.Span(c.sub); span.Span.FailureCount != 1 {
				c.Errorf("the span is %+v", span)
			}
			c.wantTold(opened)
		})
	})
	t.Run("and_begin_anew_within_one_write", func(t *testing.T) {
		bubble(t, func(c *cluster) { c.deps.Act = false }, func(c *cluster) {
			c.fail(c.one)
			c.until(12 * h)
			c.fail(c.one)
			c.until(121 * h)
			c.wantTold(opened, marked, marked, marked, would)
			c.succeed(c.one)
			c.pass(time.Millisecond)
			c.fail(c.one)
			again := time.Now()
			c.share()
			span := c.store.Span(c.sub)
			if span.Mark != 0 || !span.TrippedAt.IsZero() || !span.Span.FirstFailureAt.Equal(again) {
				c.Errorf("the new span has the warnings of the old one: %+v", span)
			}
			c.wantTold(opened, marked, marked, marked, would, cleared, opened)
		})
	})
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

func TestSpans_what_counts(t *testing.T) {
	for _, class := range []hub.ErrorClass{hub.ErrBlocked, hub.ErrNoSecret, hub.ErrCancelled} {
		t.Run("our_fault_feeds_nothing_"+string(class), func(t *testing.T) {
			bubble(t, nil, func(c *cluster) {
				writes := c.store.Writes()
				c.see(c.one, class)
				c.share()
				if c.store.Writes() != writes || c.store.Span(c.sub).Span.Open() {
					c.Error("it opened a span")
				}
				c.fail(c.one)
				c.share()
				c.see(c.two, class)
				c.share()
				if n := c.store.Span(c.sub).Span.FailureCount; n != 1 {
					c.Errorf("%d failures", n)
				}
			})
		})
	}
	t.Run("replay_that_fails_feeds_nothing", func(t *testing.T) {
		bubble(t, nil, func(c *cluster) {
			c.see(c.one, hub.ErrTimeout, replay)
			c.share()
			c.wantTold()
		})
	})
	t.Run("replay_that_succeeds_clears", func(t *testing.T) {
		bubble(t, nil, func(c *cluster) {
			c.fail(c.one)
			c.share()
			c.see(c.two, "", replay)
			c.share()
			c.wantTold(opened, cleared)
		})
	})
	t.Run("spans_of_subscriptions_are_apart", func(t *testing.T) {
		bubble(t, nil, func(c *cluster) {
			other := c.subscription()
			c.fail(c.one)
			c.see(c.one, hub.ErrStatus, func(o *dispatch.Observed) { o.Subscription = other })
			c.share()
			c.see(c.two, "", func(o *dispatch.Observed) { o.Subscription = other })
			c.share()
			if !c.store.Span(c.sub).Span.Open() || c.store.Span(other).Span.Open() {
				c.Error("the success of one subscription says nothing about the other, which has the same destination")
			}
		})
	})
}

func TestSpans_gone(t *testing.T) {
	gone := func(o *dispatch.Observed) { o.Status, o.Gone = 410, true }
	t.Run("disables_at_once_and_once", func(t *testing.T) {
		bubble(t, nil, func(c *cluster) {
			c.see(c.one, hub.ErrStatus, gone)
			c.see(c.two, hub.ErrStatus, gone)
			c.pass(time.Millisecond)
			sub := c.store.Subscription(c.sub)
			if sub.Enabled || sub.DisabledBy != hub.DisabledByAuto || !strings.Contains(sub.DisabledReason, "410") {
				c.Fatalf("after 410 it is %+v", sub)
			}
			c.see(c.one, hub.ErrStatus, gone)
			c.share()
			c.wantTold(disabled, opened)
			if len(c.store.Audits()) != 1 {
				c.Error("disabled twice")
			}
		})
	})
	t.Run("not_by_a_replay", func(t *testing.T) {
		bubble(t, nil, func(c *cluster) {
			c.see(c.one, hub.ErrStatus, gone, replay)
			c.share()
			if c.wantTold(); !c.enabled() {
				c.Error("disabled")
			}
		})
	})
	t.Run("not_with_the_kill_switch", func(t *testing.T) {
		bubble(t, func(c *cluster) { c.deps.Act = false }, func(c *cluster) {
			c.see(c.one, hub.ErrStatus, gone)
			c.share()
			if !c.enabled() {
				c.Error("disabled")
			}
		})
	})
	t.Run("waits_for_the_database", func(t *testing.T) {
		bubble(t, nil, func(c *cluster) {
			c.store.SetAway(true)
			c.see(c.one, hub.ErrStatus, gone)
			c.pass(time.Minute)
			c.store.SetAway(false)
			c.share()
			if c.enabled() {
				c.Error("forgotten")
			}
		})
	})
	t.Run("is_not_forgotten_by_a_replica_that_stops", func(t *testing.T) {
		bubble(t, nil, func(c *cluster) {
			c.store.SetAway(true)
			c.see(c.one, hub.ErrStatus, gone)
			c.share()
			c.store.SetAway(false)
			c.one.stop()
			if c.enabled() {
				c.Error("forgotten")
			}
		})
	})
}

func TestSpans_store_away(t *testing.T) {
	bubble(t, nil, func(c *cluster) {
		other := c.subscription()
		c.see(c.one, hub.ErrStatus, func(o *dispatch.Observed) { o.Subscription = other })
		c.fail(c.one)
		c.share()
		c.store.SetAway(true)
		for n := range 60 {
			c.fail(c.either(n))
			c.pass(time.Minute)
			if n == 40 {
				c.see(c.two, "", func(o *dispatch.Observed) { o.Subscription = other })
			}
		}
		c.store.SetAway(false)
		c.share()
		if span := c.store.Span(c.sub).Span; span.FailureCount != 61 || span.LastFailureAt.Sub(c.begun) < 59*time.Minute {
			c.Errorf("the span is %+v", span)
		}
		if c.store.Span(other).Span.Open() {
			c.Error("a success was lost")
		}
		c.pass(10 * time.Minute)
		c.wantTold(opened, opened, cleared)
		if n := strings.Count(c.log.String(), "cannot share failure policies"); n != 2 {
			c.Errorf("two replicas said %d times that the database is away:\n%s", n, c.log)
		}
		if n := strings.Count(c.log.String(), "are shared again"); n != 2 {
			c.Errorf("two replicas said %d times that it is back:\n%s", n, c.log)
		}
	})
}

func TestSpans_nothing_is_written_of_what_succeeds(t *testing.T) {
	bubble(t, nil, func(c *cluster) {
		writes := c.store.Writes()
		subs := make([]hub.SubscriptionID, 100)
		for i := range subs {
			subs[i] = c.subscription()
		}
		for n := range 10_000 {
			c.see(c.either(n), "", func(o *dispatch.Observed) { o.Subscription = subs[n%len(subs)] })
			c.pass(10 * time.Millisecond)
		}
		c.share()
		c.wantTold()
		if n := c.store.Writes() - writes; n != 0 {
			c.Errorf("%d writes for 10 000 successes", n)
		}
	})
}

// A page of what changed lately may be full of what is known already.
func TestSpans_more_than_a_page_at_once(t *testing.T) {
	bubble(t, nil, func(c *cluster) {
		subs := make([]hub.SubscriptionID, 2500)
		for i := range subs {
			subs[i] = c.subscription()
			c.see(c.one, hub.ErrConnect, func(o *dispatch.Observed) { o.Subscription = subs[i] })
		}
		c.until(time.Minute)
		for i := range subs {
			c.see(c.two, "", func(o *dispatch.Observed) { o.Subscription = subs[i] })
		}
		c.share()
		open := 0
		for i := range subs {
			if c.store.Span(subs[i]).Span.Open() {
				open++
			}
		}
		if open > 0 {
			c.Errorf("%d of %d spans outlived a success on the other replica", open, len(subs))
		}
	})
}

// Of a store that refuses one kind of request, the others go on, and the log
// says it once.
func TestSpans_one_refusal_is_said_once(t *testing.T) {
	bubble(t, func(c *cluster) { c.deps.Store = refusesSpans{c.store} }, func(c *cluster) {
		c.until(10 * time.Minute)
		if n := strings.Count(c.log.String(), "no spans today"); n != 2 {
			c.Errorf("two replicas said %d times what is wrong", n)
		}
	})
}

type refusesSpans struct{ *healthtest.Memory }

func (refusesSpans) SpansChangedSince(context.Context, time.Time, int) ([]db.FailureSpan, time.Time, error) {
	return nil, time.Time{}, fmt.Errorf("no spans today")
}
