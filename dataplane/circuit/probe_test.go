package circuit_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/streaming-hub/streaming-hub/dataplane/circuit/circuittest"
	"github.com/streaming-hub/streaming-hub/db"
	"github.com/streaming-hub/streaming-hub/hub"
	"github.com/streaming-hub/streaming-hub/hub/breaker"
)

func TestBoard_probe(t *testing.T) {
	t.Run("one_in_the_cluster_and_its_success_closes", func(t *testing.T) {
		bubble(t, nil, func(c *cluster) {
			c.see(c.boards[0], failed, 5)
			c.pass(30 * time.Second)
			var mu sync.Mutex
			var taken []breaker.Outcome
			var all sync.WaitGroup
			for n := range 20 {
				all.Go(func() {
					if o, ok := c.probe(c.boards[n%2]); ok {
						mu.Lock()
						defer mu.Unlock()
						taken = append(taken, o)
					}
				})
			}
			all.Wait()
			if len(taken) != 1 {
				c.Fatalf("%d probes at once", len(taken))
			}
			c.wantPhase(breaker.HalfOpen)
			o := taken[0]
			o.Kind = succeeded
			c.boards[0].Record(c.lane, o)
			synctest.Wait()
			c.wantPhase(breaker.Closed)
			c.share()
			for n, b := range c.boards {
				if a := b.Admit(c.lane, false); !a.Allow || b.Ramp(c.lane) != 1 {
					c.Errorf("board %d says %+v with a ramp of %d", n, a, b.Ramp(c.lane))
				}
			}
			if diff := cmp.Diff([]hub.NoticeKind{opened, halfOpen, closed}, c.told()); diff != "" {
				c.Error(diff)
			}
		})
	})
	t.Run("its_failure_doubles_the_wait_to_ten_minutes", func(t *testing.T) {
		bubble(t, nil, func(c *cluster) {
			c.see(c.boards[0], failed, 5)
			for n, want := range []time.Duration{30, 60, 120, 240, 480, 600, 600} {
				want *= time.Second
				b := c.boards[n%2]
				c.share()
				since := time.Now()
				next := c.memory.State(c.lane).NextProbeAt
				if wait := next.Sub(since).Round(5 * time.Second); wait != want {
					c.Errorf("wait %d is %v, want %v", n, wait, want)
				}
				c.pass(next.Sub(since) - time.Second)
				if _, ok := c.probe(b); ok {
					c.Error("a probe before its time")
				}
				c.pass(time.Second)
				o, ok := c.probe(b)
				if !ok {
					c.Fatal("no probe")
				}
				o.Kind = failed
				b.Record(c.lane, o)
				synctest.Wait()
			}
		})
	})
	t.Run("needs_the_database", func(t *testing.T) {
		bubble(t, nil, func(c *cluster) {
			c.see(c.boards[0], failed, 5)
			c.pass(30 * time.Second)
			c.memory.SetAway(true)
			if _, taken, err := c.boards[0].TakeProbe(c.Context(), c.lane, hub.AttemptID{ID: newID()}); taken || err == nil {
				c.Errorf("TakeProbe = %v, %v", taken, err)
			}
		})
	})
	t.Run("without_an_outcome_is_free_after_a_minute", func(t *testing.T) {
		bubble(t, nil, func(c *cluster) {
			c.see(c.boards[0], failed, 5)
			c.pass(30 * time.Second)
			if _, ok := c.probe(c.boards[0]); !ok {
				c.Fatal("no probe")
			}
			c.share()
			c.pass(50 * time.Second)
			if _, ok := c.probe(c.boards[1]); ok {
				c.Error("two probes")
			}
			c.pass(10 * time.Second)
			if _, ok := c.probe(c.boards[1]); !ok {
				c.Error("the circuit waits for a probe that is gone")
			}
		})
	})
	t.Run("is_not_offered_while_the_outcome_of_the_last_one_is_written", func(t *testing.T) {
		var gate *gated
		bubble(t, func(c *cluster) {
			gate = &gated{Memory: c.memory, enter: make(chan struct{}), leave: make(chan struct{})}
			c.store = gate
		}, func(c *cluster) {
			one := c.boards[0]
			c.see(one, failed, 5)
			c.pass(30 * time.Second)
			o, ok := c.probe(one)
			if !ok {
				c.Fatal("no probe")
			}
			c.pass(61 * time.Second) // longer than anybody waits for it
			gate.close()
			o.Kind = failed
			one.Record(c.lane, o)
			<-gate.enter
			c.see(one, breaker.Neutral, 1)
			if a := one.Admit(c.lane, false); a.Allow || a.Probe {
				c.Errorf("Admit = %+v", a)
			}
			if a := one.Admit(c.lane, true); !a.Allow || a.Probe {
				c.Errorf("of a last attempt Admit = %+v", a)
			}
			gate.open()
			c.share()
			c.wantPhase(breaker.Open)
		})
	})
	t.Run("taken_while_sums_are_written_counts_them_once", func(t *testing.T) {
		var gate *gated
		bubble(t, func(c *cluster) {
			gate = &gated{Memory: c.memory, enter: make(chan struct{}), leave: make(chan struct{})}
			c.store = gate
		}, func(c *cluster) {
			one := c.boards[0]
			c.see(one, failed, 5)
			c.pass(30 * time.Second)
			c.share()
			c.see(one, failed, 3) // of last attempts
			gate.close()
			<-gate.enter // the write is stored, and its answer under way
			if _, taken, err := one.TakeProbe(c.Context(), c.lane, hub.AttemptID{ID: newID()}); !taken || err != nil {
				c.Fatalf("TakeProbe = %v, %v", taken, err)
			}
			gate.open()
			synctest.Wait()
			stored := c.memory.State(c.lane)
			if a := one.Admit(c.lane, false); !strings.Contains(a.Reason, "after 8 failures") || stored.Failures != 8 {
				c.Errorf("%d failures are stored, here it is %q", stored.Failures, a.Reason)
			}
		})
	})
}

// gated is a store whose answers to writes of sums can be kept under way.
type gated struct {
	*circuittest.Memory
	enter, leave chan struct{}

	mu   sync.Mutex
	shut bool
}

func (g *gated) close() { g.set(true) }

func (g *gated) open() {
	g.set(false)
	g.leave <- struct{}{}
}

func (g *gated) set(shut bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shut = shut
}

func (g *gated) ChangeBreakers(ctx context.Context, lanes []db.Lane, feedID hub.ID, change func(int, breaker.State) (breaker.State, []hub.Notice)) ([]breaker.State, error) {
	states, err := g.Memory.ChangeBreakers(ctx, lanes, feedID, change)
	g.mu.Lock()
	shut := g.shut
	g.shut = false // one is kept
	g.mu.Unlock()
	if shut {
		g.enter <- struct{}{}
		<-g.leave
	}
	return states, err
}
