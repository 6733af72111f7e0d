package circuit_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

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

func TestBoard_forgets_what_says_nothing(t *testing.T) {
	bubble(t, nil, func(c *cluster) {
		c.see(c.boards[0], failed, 5)
		c.pass(time.Hour)
		if c.boards[0].Admit(c.lane, false).Reason == "" {
			c.Error("an open circuit was forgotten")
		}
	})
}
