package health_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/streaming-hub/streaming-hub/hub"
	rules "github.com/streaming-hub/streaming-hub/hub/health"
)

func TestRates_disabled_is_tried(t *testing.T) {
	t.Run("once_in_ten_minutes_by_all_replicas", func(t *testing.T) {
		rates(t, nil, func(c *cluster) {
			c.disable()
			since := c.store.Rate(c.lane).JudgedAt
			var tries []time.Time
			for time.Since(since) < 65*time.Minute {
				var taken atomic.Int32
				var both sync.WaitGroup
				for n := range 2 {
					both.Go(func() {
						if c.try(c.either(n)) {
							taken.Add(1)
						}
					})
				}
				both.Wait()
				for range taken.Load() {
					tries = append(tries, time.Now())
				}
				time.Sleep(time.Second)
			}
			if len(tries) != 6 {
				c.Fatalf("%d tries in 65 minutes", len(tries))
			}
			before := since
			for _, at := range tries {
				if wait := at.Sub(before); wait < 10*time.Minute || wait > 10*time.Minute+2*time.Second {
					c.Errorf("a try %v after the one before", wait)
				}
				before = at
			}
		})
	})
	t.Run("and_its_failure_restarts_the_ten_minutes", func(t *testing.T) {
		rates(t, nil, func(c *cluster) {
			c.disable()
			c.until(11 * time.Minute)
			if !c.try(c.one) {
				c.Fatal("no try")
			}
			c.pass(25 * time.Second)
			c.see(c.one, hub.ErrTimeout, tried)
			failed := time.Now()
			c.share()
			if c.try(c.two) {
				c.Error("tried again at once")
			}
			c.pass(10*time.Minute - time.Second - time.Since(failed))
			if c.try(c.two) {
				c.Error("tried again within ten minutes after the failure")
			}
			c.pass(time.Second)
			if !c.try(c.two) {
				c.Error("not tried ten minutes after the failure")
			}
			c.wantTold(disabled)
		})
	})
	t.Run("and_its_success_enables", func(t *testing.T) {
		rates(t, nil, func(c *cluster) {
			c.disable()
			c.until(11 * time.Minute)
			if !c.try(c.one) {
				c.Fatal("no try")
			}
			c.see(c.one, "", tried)
			c.pass(time.Millisecond)
			c.wantState(rules.Active)
			c.pass(time.Second)
			if r := c.store.Rate(c.lane); r.Attempts != 0 || r.Failures != 0 || r.Row != 0 {
				c.Errorf("counters are %+v", r)
			}
			for n := range 2 {
				if allow, try := c.either(n).Admit(c.lane); !allow || try {
					c.Errorf("replica %d says %v, %v", n, allow, try)
				}
			}
			c.wantTold(disabled, recovered)
		})
	})
	t.Run("and_a_success_that_was_under_way_enables_nothing", func(t *testing.T) {
		rates(t, nil, func(c *cluster) {
			c.disable()
			c.succeed(c.two)
			c.share()
			c.wantState(rules.Disabled)
		})
	})
	t.Run("and_one_that_told_nothing_costs_ten_minutes", func(t *testing.T) {
		rates(t, nil, func(c *cluster) {
			c.disable()
			c.until(11 * time.Minute)
			if !c.try(c.one) {
				c.Fatal("no try")
			}
			c.see(c.one, hub.ErrNoSecret, tried)
			c.share()
			c.wantState(rules.Disabled)
			if c.try(c.one) || c.try(c.two) {
				c.Error("tried again at once")
			}
			c.pass(10 * time.Minute)
			if !c.try(c.two) {
				c.Error("never tried again")
			}
		})
	})
	t.Run("at_the_pace_of_its_policy_by_a_replica_that_just_started", func(t *testing.T) {
		rates(t, func(c *cluster) {
			c.policy.TryEveryMillis = time.Hour.Milliseconds()
			c.policy.FreezeAgeMillis = (1000 * time.Hour).Milliseconds()
		}, func(c *cluster) {
			c.attempts(hub.ErrStatus, 2001)
			c.share()
			c.wantState(rules.Disabled)
			c.restart(30 * time.Minute)
			c.share()
			if allow, _ := c.one.Admit(c.lane); allow || c.try(c.two) {
				c.Error("tried after half an hour, with an hour to wait")
			}
			c.restart(100 * time.Hour) // longer than the presets' age, not than this one's
			c.share()
			if !c.try(c.one) {
				c.Error("not tried at all")
			}
			c.wantState(rules.Disabled)
		})
	})
}

func TestRates_frozen_waits_for_a_person(t *testing.T) {
	rates(t, nil, func(c *cluster) {
		c.attempts(hub.ErrStatus, 50_000)
		c.share()
		c.wantState(rules.Frozen)
		c.succeed(c.two) // was under way
		for range 30 {
			for n := range 2 {
				if allow, _ := c.either(n).Admit(c.lane); allow {
					c.Fatal("a frozen destination is attempted")
				}
			}
			c.pass(time.Minute)
			c.restart(5 * time.Hour)
		}
		c.wantState(rules.Frozen)
		c.store.EnableDestination(c.lane)
		c.pass(time.Second)
		for n := range 2 {
			if allow, try := c.either(n).Admit(c.lane); !allow || try {
				c.Errorf("a second after the enabling replica %d says %v, %v", n, allow, try)
			}
		}
		c.attempts(hub.ErrStatus, 100)
		c.share()
		c.wantState(rules.Active) // the counters began anew
	})
}

func TestRates_replicas_learn_of_each_other(t *testing.T) {
	rates(t, nil, func(c *cluster) {
		for range 101 {
			c.fail(c.one)
		}
		c.pass(2 * time.Second)
		for n := range 2 {
			if allow, _ := c.either(n).Admit(c.lane); allow {
				c.Errorf("replica %d goes on", n)
			}
		}
		c.until(9 * time.Minute)
		fresh := c.start()
		if allow, _ := fresh.Admit(c.lane); allow {
			c.Error("a replica that just started goes on")
		}
		fresh.stop()
	})
}
