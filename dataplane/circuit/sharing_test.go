package circuit_test

import (
	"strings"
	"testing"
	"time"

	"github.com/streaming-hub/streaming-hub/db"
	"github.com/streaming-hub/streaming-hub/hub"
	"github.com/streaming-hub/streaming-hub/hub/breaker"
)

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
