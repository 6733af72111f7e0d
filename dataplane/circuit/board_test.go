package circuit_test

import (
	"context"
	"slices"
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

const (
	failed, succeeded = breaker.Failed, breaker.Succeeded

	opened, halfOpen, closed = hub.NoticeCircuitOpened, hub.NoticeCircuitHalfOpen, hub.NoticeCircuitClosed
)

func TestBoard_opens(t *testing.T) {
	t.Run("at_once_here_and_within_a_second_there", func(t *testing.T) {
		bubble(t, nil, func(c *cluster) {
			one, two := c.boards[0], c.boards[1]
			c.see(one, failed, 4)
			if !one.Admit(c.lane, false).Allow {
				c.Error("blocked after 4 failures")
			}
			c.see(one, failed, 1)
			a := one.Admit(c.lane, false)
			if a.Allow || a.PutOff.Sub(time.Now()).Round(time.Second) != 30*time.Second {
				c.Errorf("after 5 failures Admit = %+v", a)
			}
			if a := one.Admit(c.lane, true); !a.Allow || a.Probe {
				c.Errorf("of a last attempt Admit = %+v", a)
			}
			synctest.Wait()
			c.wantPhase(breaker.Open)
			c.pass(time.Second)
			if a := two.Admit(c.lane, false); a.Allow {
				c.Errorf("on the other replica Admit = %+v", a)
			}
			if lanes := two.OpenLanes(); !slices.Equal(lanes, []db.Lane{c.lane}) || two.Ramp(c.lane) != 1 {
				c.Errorf("open are %v, the ramp is %d", lanes, two.Ramp(c.lane))
			}
			two.mu.Lock()
			defer two.mu.Unlock()
			if !slices.Contains(two.moved, c.lane) {
				c.Error("nobody was told there")
			}
		})
	})
	t.Run("by_failures_of_both_together", func(t *testing.T) {
		bubble(t, nil, func(c *cluster) {
			c.see(c.boards[0], failed, 3)
			c.see(c.boards[1], failed, 2)
			c.share()
			c.wantPhase(breaker.Open)
			if diff := cmp.Diff([]hub.NoticeKind{opened}, c.told()); diff != "" {
				c.Error(diff)
			}
		})
	})
	t.Run("by_half_of_ten_of_both_together", func(t *testing.T) {
		bubble(t, nil, func(c *cluster) {
			for n := range 9 {
				c.see(c.boards[n%2], []breaker.Kind{failed, succeeded}[(n+1)%2], 1)
				c.share()
			}
			c.wantPhase(breaker.Closed)
			c.see(c.boards[1], failed, 1)
			c.share()
			c.wantPhase(breaker.Open)
		})
	})
	t.Run("not_when_the_other_replica_succeeded_in_between", func(t *testing.T) {
		bubble(t, nil, func(c *cluster) {
			c.see(c.boards[0], failed, 4)
			c.share()
			c.see(c.boards[1], succeeded, 1)
			c.share()
			c.see(c.boards[0], failed, 4)
			c.share()
			c.wantPhase(breaker.Closed)
		})
	})
	t.Run("once_by_two_that_see_it_at_the_same_time", func(t *testing.T) {
		bubble(t, nil, func(c *cluster) {
			c.see(c.boards[0], failed, 5)
			c.see(c.boards[1], failed, 5)
			c.share()
			if s := c.memory.State(c.lane); s.Phase != breaker.Open || s.Generation != 1 {
				c.Errorf("%+v", s)
			}
			if diff := cmp.Diff([]hub.NoticeKind{opened}, c.told()); diff != "" {
				c.Error(diff)
			}
		})
	})
	t.Run("and_a_replica_that_just_started_knows", func(t *testing.T) {
		bubble(t, nil, func(c *cluster) {
			c.see(c.boards[0], failed, 5)
			c.pass(20 * time.Second)
			fresh := c.start()
			if fresh.Admit(c.lane, false).Allow {
				c.Error("it attempts")
			}
			fresh.stop()
		})
	})
}

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
	t.Run("is_not_offered_while_what_may_close_the_circuit_is_written", func(t *testing.T) {
		var gate *gated
		bubble(t, func(c *cluster) {
			gate = &gated{Memory: c.memory, enter: make(chan struct{}), leave: make(chan struct{})}
			c.store = gate
		}, func(c *cluster) {
			one := c.boards[0]
			c.see(one, failed, 5)
			c.pass(30 * time.Second)
			gate.close()
			c.see(one, succeeded, 1) // of a last attempt
			<-gate.enter
			if a := one.Admit(c.lane, false); a.Probe {
				c.Errorf("Admit = %+v", a)
			}
			gate.open()
			c.share()
			c.wantPhase(breaker.Closed)
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

func TestBoard_generations(t *testing.T) {
	t.Run("slow_failures_of_before_the_opening_leave_it_closed", func(t *testing.T) {
		bubble(t, nil, func(c *cluster) {
			slow := c.boards[0].Admit(c.lane, false).Generation
			c.see(c.boards[0], failed, 5)
			c.pass(30 * time.Second)
			o, ok := c.probe(c.boards[1])
			if !ok {
				c.Fatal("no probe")
			}
			o.Kind = succeeded
			c.boards[1].Record(c.lane, o)
			c.share()
			for range 20 {
				c.boards[0].Record(c.lane, breaker.Outcome{Kind: failed, Generation: slow})
				c.boards[1].Record(c.lane, breaker.Outcome{Kind: failed, Generation: slow})
				c.pass(100 * time.Millisecond)
			}
			c.share()
			c.wantPhase(breaker.Closed)
			if s := c.memory.State(c.lane); s.Failures != 0 || s.Generation != 2 {
				c.Errorf("%+v", s)
			}
			for n, b := range c.boards {
				if !b.Admit(c.lane, false).Allow {
					c.Errorf("board %d blocks", n)
				}
			}
		})
	})
	t.Run("several_unwritten_at_once_are_applied_in_order", func(t *testing.T) {
		bubble(t, nil, func(c *cluster) {
			b := c.boards[0]
			c.memory.SetAway(true)
			c.see(b, failed, 5)    // generation 0: opens
			c.see(b, succeeded, 1) // a last attempt of generation 1: closes
			c.see(b, failed, 5)    // generation 2: opens
			c.see(b, succeeded, 1) // generation 3: closes
			c.see(b, failed, 2)    // generation 4
			if a := b.Admit(c.lane, false); !a.Allow || a.Generation != 4 {
				c.Errorf("Admit = %+v", a)
			}
			c.pass(time.Minute)
			c.memory.SetAway(false)
			c.share()
			s := c.memory.State(c.lane)
			if s.Phase != breaker.Closed || s.Generation != 4 || s.Failures != 2 {
				c.Errorf("stored is %+v", s)
			}
			c.see(b, failed, 3)
			c.share()
			c.wantPhase(breaker.Open)
		})
	})
	t.Run("what_was_seen_after_an_unwritten_opening_does_not_hide_it", func(t *testing.T) {
		bubble(t, nil, func(c *cluster) {
			b := c.boards[0]
			c.memory.SetAway(true)
			c.see(b, failed, 5)
			c.see(b, failed, 1) // a last attempt of the generation behind the opening
			c.pass(time.Minute)
			c.memory.SetAway(false)
			c.share()
			if s := c.memory.State(c.lane); s.Phase != breaker.Open || s.Failures != 6 {
				c.Errorf("stored is %+v", s)
			}
		})
	})
}

func TestBoard_store_away(t *testing.T) {
	t.Run("outcomes_are_kept_and_no_probe_is_let_through", func(t *testing.T) {
		bubble(t, nil, func(c *cluster) {
			c.memory.SetAway(true)
			c.see(c.boards[0], failed, 3)
			c.pass(10 * time.Second)
			c.see(c.boards[1], failed, 4) // neither opens alone
			for range 600 {
				c.pass(time.Second)
				for _, b := range c.boards {
					if b.Admit(c.lane, false).Probe {
						c.Fatal("a probe of a closed circuit")
					}
				}
			}
			c.memory.SetAway(false)
			c.share()
			if s := c.memory.State(c.lane); s.Phase != breaker.Open || s.Failures != 7 {
				c.Errorf("stored is %+v", s)
			}
			if n := strings.Count(c.log.String(), "cannot share circuit breakers"); n != 2 {
				c.Errorf("two replicas said %d times that the database is away", n)
			}
		})
	})
	t.Run("the_outcome_of_a_probe_is_kept", func(t *testing.T) {
		bubble(t, nil, func(c *cluster) {
			c.see(c.boards[0], failed, 5)
			c.pass(30 * time.Second)
			o, ok := c.probe(c.boards[0])
			if !ok {
				c.Fatal("no probe")
			}
			c.memory.SetAway(true)
			o.Kind = succeeded
			c.boards[0].Record(c.lane, o)
			c.pass(40 * time.Second)
			c.wantPhase(breaker.HalfOpen)
			c.memory.SetAway(false)
			c.share()
			c.wantPhase(breaker.Closed)
		})
	})
	t.Run("what_a_replica_saw_is_written_when_it_stops", func(t *testing.T) {
		bubble(t, nil, func(c *cluster) {
			c.see(c.boards[0], failed, 3)
			c.boards[0].stop()
			if n := c.memory.State(c.lane).Failures; n != 3 {
				c.Errorf("%d failures are stored", n)
			}
		})
	})
}

func TestBoard_healthy_traffic_writes_nothing(t *testing.T) {
	bubble(t, nil, func(c *cluster) {
		lanes := make([]db.Lane, 100)
		for i := range lanes {
			lanes[i] = db.Lane{Tenant: "acme", Destination: hub.DestinationID{ID: newID()}}
		}
		for n := range 10_000 {
			b, lane := c.boards[n%2], lanes[n%len(lanes)]
			if a := b.Admit(lane, false); !a.Allow {
				c.Fatalf("Admit = %+v", a)
			}
			b.Record(lane, breaker.Outcome{Kind: succeeded})
			time.Sleep(10 * time.Millisecond)
		}
		c.share()
		if n := c.memory.Writes(); n != 0 {
			c.Errorf("%d writes", n)
		}
	})
}

func TestBoard_success_is_written_once_after_a_failure(t *testing.T) {
	bubble(t, nil, func(c *cluster) {
		c.see(c.boards[0], failed, 1)
		c.share()
		c.pass(3 * time.Minute) // out of the window
		c.see(c.boards[1], succeeded, 1)
		c.share()
		if s := c.memory.State(c.lane); s.Failures != 0 {
			c.Errorf("%+v", s)
		}
		writes := c.memory.Writes()
		for range 100 {
			c.see(c.boards[0], succeeded, 1)
			c.see(c.boards[1], succeeded, 1)
			c.pass(time.Second)
		}
		if n := c.memory.Writes() - writes; n != 0 {
			c.Errorf("%d more writes", n)
		}
	})
}

// A page of what changed lately may be full of what is known already.
func TestBoard_more_than_a_page_at_once(t *testing.T) {
	bubble(t, nil, func(c *cluster) {
		lanes := make([]db.Lane, 2500)
		for i := range lanes {
			lanes[i] = db.Lane{Tenant: "acme", Destination: hub.DestinationID{ID: newID()}}
			for range 5 {
				c.boards[0].Record(lanes[i], breaker.Outcome{Kind: failed})
			}
		}
		c.share()
		c.share()
		open := 0
		for i := range lanes {
			if !c.boards[1].Admit(lanes[i], false).Allow {
				open++
			}
		}
		if open != len(lanes) {
			c.Errorf("the other replica knows of %d of %d open circuits", open, len(lanes))
		}
	})
}

func TestBoard_forgets_what_says_nothing(t *testing.T) {
	bubble(t, nil, func(c *cluster) {
		c.see(c.boards[0], failed, 5)
		c.pass(time.Hour)
		if c.boards[0].Admit(c.lane, false).Reason == "" {
			c.Error("an open circuit was forgotten")
		}
	})
}
