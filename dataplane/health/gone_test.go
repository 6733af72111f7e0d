package health_test

import (
	"strings"
	"testing"
	"time"

	"github.com/streaming-hub/streaming-hub/dataplane/dispatch"
	"github.com/streaming-hub/streaming-hub/hub"
)

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
	t.Run("not_when_nobody_asks_for_it_any_more", func(t *testing.T) {
		bubble(t, nil, func(c *cluster) {
			c.store.SetAway(true)
			c.see(c.one, hub.ErrStatus, gone)
			c.pass(time.Millisecond)
			c.store.SetAway(false)
			c.store.ChangeSubscription(c.sub, func(s *hub.EventSubscription) { s.DisableOnGone = false })
			if c.share(); !c.enabled() {
				c.Error("disabled")
			}
		})
	})
	t.Run("not_when_it_came_from_the_place_before", func(t *testing.T) {
		bubble(t, nil, func(c *cluster) {
			c.store.ChangeSubscription(c.sub, func(s *hub.EventSubscription) { s.Destination.ID = newID() })
			c.see(c.one, hub.ErrStatus, gone) // was under way
			if c.share(); !c.enabled() {
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

func TestSpans_gone_with_the_kill_switch(t *testing.T) {
	const h = time.Hour
	gone := func(o *dispatch.Observed) { o.Status, o.Gone = 410, true }
	off := func(c *cluster) { c.deps.Act = false }
	t.Run("is_kept_with_the_span_and_told_once", func(t *testing.T) {
		bubble(t, off, func(c *cluster) {
			c.see(c.one, hub.ErrStatus, gone)
			c.share()
			at := c.store.Span(c.sub).TrippedAt
			c.pass(time.Minute)
			c.see(c.two, hub.ErrStatus, gone)
			c.restart(time.Minute)
			c.see(c.one, hub.ErrStatus, gone)
			c.share()
			if span := c.store.Span(c.sub); !c.enabled() || at.IsZero() || !span.TrippedAt.Equal(at) || span.Span.FailureCount != 3 {
				c.Errorf("enabled %v, %+v", c.enabled(), span)
			}
			c.wantTold(opened, would)
			if n := c.store.Notices()[1]; n.Subscription != c.sub || !strings.Contains(n.Reason, "410") || !strings.Contains(n.Reason, "switched off") {
				c.Errorf("told %+v", n)
			}
			c.restart(121 * h)
			c.fail(c.one) // the gates find nothing new to tell
			c.pass(2 * time.Minute)
			c.wantTold(opened, would, marked)
		})
	})
	t.Run("is_forgotten_with_the_span", func(t *testing.T) {
		bubble(t, off, func(c *cluster) {
			c.see(c.one, hub.ErrStatus, gone)
			c.succeed(c.one)
			c.fail(c.one)
			c.share()
			if span := c.store.Span(c.sub); !span.TrippedAt.IsZero() {
				c.Errorf("410 before a success is kept: %+v", span)
			}
			c.wantTold(opened)
		})
	})
	t.Run("waits_for_the_database", func(t *testing.T) {
		eachTrouble(t, func(c *cluster, away func(bool)) {
			c.deps.Act = false
			c.restart(0)
			away(true)
			c.see(c.one, hub.ErrStatus, gone)
			c.pass(time.Minute)
			c.fail(c.one)
			away(false)
			c.share()
			c.wantTold(opened, would)
		})
	})
	t.Run("under_FAILURE_RATE_is_told_once_an_hour", func(t *testing.T) {
		rates(t, off, func(c *cluster) {
			for range 50 {
				c.see(c.one, hub.ErrStatus, gone)
				c.pass(time.Minute)
			}
			c.wantTold(would)
			c.store.SetAway(true)
			c.until(2 * h)
			c.see(c.one, hub.ErrStatus, gone)
			c.pass(time.Minute)
			c.wantTold(would)
			c.store.SetAway(false)
			c.share()
			if c.wantTold(would, would); !c.enabled() {
				c.Error("disabled")
			}
			if n := c.store.Notices()[0]; n.Subscription != c.sub || !strings.Contains(n.Reason, "410") {
				c.Errorf("told %+v", n)
			}
		})
	})
}
