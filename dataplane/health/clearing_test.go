package health_test

import (
	"testing"
	"time"

	"github.com/streaming-hub/streaming-hub/dataplane/dispatch"
	"github.com/streaming-hub/streaming-hub/hub"
)

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
			c.pass(30 * time.Minute)
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
			c.pass(time.Millisecond)
			c.fail(c.one)
			c.share()
			c.share()
			if span := c.store.Span(c.sub); span.Span.FailureCount != 2 {
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
