package health_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/streaming-hub/streaming-hub/dataplane/dbclock"
	rules "github.com/streaming-hub/streaming-hub/hub/health"
)

// bubbleClock is a database whose clock is that of the bubble.
type bubbleClock struct{}

func (bubbleClock) ClockTime(context.Context) (time.Time, error) { return time.Now(), nil }

// wrong replaces the first replica by one whose machine's clock is wrong, and
// which goes by the database's.
func (c *cluster) wrong(ahead time.Duration) {
	c.Helper()
	c.one.stop()
	clock := dbclock.New(bubbleClock{}, func() time.Time { return time.Now().Add(ahead) }, slog.New(slog.DiscardHandler))
	if err := clock.Set(c.Context()); err != nil {
		c.Fatal(err)
	}
	right := c.deps.Now
	c.deps.Now = clock.Now
	c.one = c.start()
	c.deps.Now = right
}

// Replicas whose clocks differ by half a minute agree all the same.
func TestBoards_clocks_that_differ(t *testing.T) {
	for rule, ahead := range map[string]time.Duration{"ahead": 30 * time.Second, "behind": -30 * time.Second} {
		t.Run("success_soon_after_a_failure_clears_the_span/"+rule, func(t *testing.T) {
			bubble(t, nil, func(c *cluster) {
				c.wrong(ahead)
				for n := range 2 {
					c.fail(c.either(n))
					c.pass(5 * time.Second)
					c.succeed(c.either(n + 1))
					c.share()
					c.share()
					if span := c.store.Span(c.sub).Span; span.Open() {
						c.Fatalf("the span is %+v", span)
					}
				}
			})
		})
		t.Run("tries_keep_their_distance/"+rule, func(t *testing.T) {
			rates(t, nil, func(c *cluster) {
				c.wrong(ahead)
				c.disable()
				since := time.Now()
				for n := range 4 {
					c.pass(10*time.Minute + time.Second - time.Since(since))
					if !c.try(c.either(n)) {
						c.Fatalf("try %d was not taken after ten minutes", n)
					}
					since = time.Now()
					c.pass(9*time.Minute + 55*time.Second)
					if c.try(c.either(n + 1)) {
						c.Fatalf("another try after %v", time.Since(since))
					}
				}
				c.wantState(rules.Disabled)
			})
		})
	}
}
