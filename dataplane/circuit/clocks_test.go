package circuit_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/streaming-hub/streaming-hub/dataplane/dbclock"
	"github.com/streaming-hub/streaming-hub/hub"
	"github.com/streaming-hub/streaming-hub/hub/breaker"
)

// bubbleClock is a database whose clock is that of the bubble.
type bubbleClock struct{}

func (bubbleClock) ClockTime(context.Context) (time.Time, error) { return time.Now(), nil }

// wrong replaces a board by one whose machine's clock is wrong, and which goes
// by the database's.
func (c *cluster) wrong(n int, ahead time.Duration) {
	c.Helper()
	c.boards[n].stop()
	clock := dbclock.New(bubbleClock{}, func() time.Time { return time.Now().Add(ahead) }, slog.New(slog.DiscardHandler))
	if err := clock.Set(c.Context()); err != nil {
		c.Fatal(err)
	}
	c.now = clock.Now
	c.boards[n] = c.start()
	c.now = time.Now
}

// Replicas whose clocks differ by half a minute wait as long as others do, and
// never take a second probe while one is under way.
func TestBoards_clocks_that_differ(t *testing.T) {
	for rule, ahead := range map[string]time.Duration{"ahead": 30 * time.Second, "behind": -30 * time.Second} {
		for first := range 2 {
			t.Run(rule+"/"+[]string{"it_opens", "the_other_opens"}[first], func(t *testing.T) {
				bubble(t, nil, func(c *cluster) {
					c.wrong(0, ahead)
					one, other := c.boards[first], c.boards[1-first]
					c.see(one, breaker.Failed, breaker.OpenRow)
					opened := time.Now()
					c.share()
					for time.Since(opened) < 29*time.Second {
						for _, b := range c.boards {
							if a := b.Admit(c.lane, false); a.Allow {
								c.Fatalf("after %v a board says %+v", time.Since(opened), a)
							}
						}
						c.pass(time.Second)
					}
					c.pass(2 * time.Second)
					attempt := hub.AttemptID{ID: newID()}
					generation, taken, err := one.TakeProbe(c.Context(), c.lane, attempt)
					if err != nil || !taken {
						c.Fatalf("no probe after 31 s: %v", err)
					}
					c.share()
					for range 50 { // seconds that the probe may take
						if a := other.Admit(c.lane, false); a.Allow {
							c.Fatalf("beside the probe the other board says %+v", a)
						}
						c.pass(time.Second)
					}
					one.Record(c.lane, breaker.Outcome{Kind: breaker.Succeeded, Generation: generation, Probe: attempt})
					c.share()
					if s := c.memory.State(c.lane); s.Phase != breaker.Closed {
						c.Errorf("circuit = %+v", s)
					}
				})
			})
		}
	}
}
