package health_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/streaming-hub/streaming-hub/dataplane/dispatch"
	"github.com/streaming-hub/streaming-hub/dataplane/health/healthtest"
	"github.com/streaming-hub/streaming-hub/db"
	"github.com/streaming-hub/streaming-hub/hub"
)

// What was under way when an event subscription got another destination, or
// was deleted, ends afterwards.
func TestSpans_of_the_place_before(t *testing.T) {
	// move gives the subscription another destination, which it returns as the
	// place of an attempt.
	move := func(c *cluster) func(o *dispatch.Observed) {
		to := hub.DestinationID{ID: newID()}
		c.store.ChangeSubscription(c.sub, func(s *hub.EventSubscription) { s.Destination = to })
		return func(o *dispatch.Observed) { o.Lane.Destination = to }
	}
	t.Run("failure_opens_none_of_the_new_one", func(t *testing.T) {
		bubble(t, nil, func(c *cluster) {
			c.fail(c.one)
			c.share()
			move(c)
			c.fail(c.one)
			c.fail(c.two)
			c.share()
			if span := c.store.Span(c.sub).Span; span.Open() {
				c.Errorf("the span is %+v", span)
			}
		})
	})
	t.Run("failure_is_not_counted_with_those_of_the_new_one", func(t *testing.T) {
		bubble(t, nil, func(c *cluster) {
			c.fail(c.one)
			there := move(c)
			c.pass(time.Millisecond)
			began := time.Now()
			for n := range 4 { // ends here and there by turns
				c.see(c.one, hub.ErrStatus, there)
				if n < 3 {
					c.fail(c.one)
				}
			}
			c.share()
			c.share()
			if span := c.store.Span(c.sub).Span; span.FailureCount != 4 || !span.FirstFailureAt.Equal(began) {
				c.Errorf("the span is %+v, want 4 failures since %v", span, began)
			}
		})
	})
	t.Run("success_clears_none_of_the_new_one", func(t *testing.T) {
		bubble(t, nil, func(c *cluster) {
			there := move(c)
			c.see(c.one, hub.ErrStatus, there)
			c.share()
			c.succeed(c.one)
			c.succeed(c.two)
			c.share()
			if span := c.store.Span(c.sub).Span; !span.Open() {
				c.Error("a success at the place before cleared it")
			}
			c.see(c.two, "", there)
			c.share()
			if span := c.store.Span(c.sub).Span; span.Open() {
				c.Errorf("the span is %+v", span)
			}
		})
	})
	t.Run("deleted_subscription_gets_none", func(t *testing.T) {
		bubble(t, nil, func(c *cluster) {
			c.fail(c.one)
			c.share()
			c.store.ChangeSubscription(c.sub, func(s *hub.EventSubscription) { s.DeletedAt = time.Now() })
			c.fail(c.one)
			c.fail(c.two)
			c.share()
			if span := c.store.Span(c.sub).Span; span.Open() {
				c.Errorf("the span is %+v", span)
			}
		})
	})
}

// A success and a failure of one subscription within one write.
func TestSpans_both_within_one_write(t *testing.T) {
	for _, row := range []struct {
		name   string
		stored bool   // a span was open before
		word   string // F and S in their order, at one moment
		open   bool
		count  int64
		told   []hub.NoticeKind
	}{
		{"success_last_opens_nothing", false, "FS", false, 0, nil},
		{"failure_last_opens", false, "SF", true, 1, []hub.NoticeKind{opened}},
		{"failures_after_a_success_count_from_it", false, "FFSFF", true, 2, []hub.NoticeKind{opened}},
		{"success_last_clears", true, "FS", false, 0, []hub.NoticeKind{opened, cleared}},
		{"failure_last_begins_anew", true, "SF", true, 1, []hub.NoticeKind{opened, cleared, opened}},
		{"in_between_begins_anew", true, "FSFFSF", true, 1, []hub.NoticeKind{opened, cleared, opened}},
	} {
		t.Run(row.name, func(t *testing.T) {
			bubble(t, nil, func(c *cluster) {
				if row.stored {
					c.fail(c.one)
					c.share()
				}
				for _, r := range row.word {
					if r == 'F' {
						c.fail(c.one)
					} else {
						c.succeed(c.one)
					}
				}
				c.share()
				if span := c.store.Span(c.sub).Span; span.Open() != row.open || span.FailureCount != row.count {
					c.Errorf("the span is %+v", span)
				}
				c.wantTold(row.told...)
			})
		})
	}
}

// The database goes away between the verdict and what follows from it.
func TestSpans_store_away_in_the_middle_of_a_trip(t *testing.T) {
	const h = time.Hour
	store := &refusesDisabling{}
	bubble(t, func(c *cluster) {
		store.Memory = c.store
		c.deps.Store = store
	}, func(c *cluster) {
		c.fail(c.one)
		c.until(12 * h)
		c.fail(c.two)
		c.share()
		c.restart(107 * h)
		store.refuse.Store(true)
		c.until(121 * h)
		if span := c.store.Span(c.sub); span.TrippedAt.IsZero() || !c.enabled() {
			c.Fatalf("enabled %v, %+v", c.enabled(), span)
		}
		store.refuse.Store(false)
		c.until(121*h + 2*time.Minute)
		if c.enabled() {
			c.Error("what was found was forgotten")
		}
		c.wantTold(opened, marked, disabled)
		if n := len(c.store.Audits()); n != 1 {
			c.Errorf("%d entries in the audit log", n)
		}
	})
	t.Run("success_came_before_it_returned", func(t *testing.T) {
		store := &refusesDisabling{}
		bubble(t, func(c *cluster) {
			store.Memory = c.store
			c.deps.Store = store
		}, func(c *cluster) {
			c.fail(c.one)
			c.until(12 * h)
			c.fail(c.two)
			c.share()
			c.restart(107 * h)
			store.refuse.Store(true)
			c.until(121 * h)
			c.succeed(c.two)
			c.share()
			store.refuse.Store(false)
			c.until(122 * h)
			if c.wantTold(opened, marked, cleared); !c.enabled() {
				c.Error("disabled after a success")
			}
		})
	})
}

// refusesDisabling is a store that disables nothing at times.
type refusesDisabling struct {
	*healthtest.Memory
	refuse atomic.Bool
}

func (s *refusesDisabling) DisableSubscription(ctx context.Context, r db.AutoDisable) (bool, error) {
	if s.refuse.Load() {
		return false, healthtest.ErrAway
	}
	return s.Memory.DisableSubscription(ctx, r)
}
