package health_test

import (
	"strings"
	"testing"
	"time"

	"github.com/streaming-hub/streaming-hub/dataplane/dispatch"
	"github.com/streaming-hub/streaming-hub/dataplane/health/healthtest"
	"github.com/streaming-hub/streaming-hub/hub"
)

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

func TestSpans_store_away(t *testing.T) {
	eachTrouble(t, func(c *cluster, away func(bool)) {
		other := c.subscription()
		c.see(c.one, hub.ErrStatus, func(o *dispatch.Observed) { o.Subscription = other })
		c.fail(c.one)
		c.share()
		away(true)
		for n := range 60 {
			c.fail(c.either(n))
			c.pass(time.Minute)
			if n == 40 {
				c.see(c.two, "", func(o *dispatch.Observed) { o.Subscription = other })
			}
		}
		away(false)
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
