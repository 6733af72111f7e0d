package health_test

import (
	"testing"
	"time"

	"github.com/streaming-hub/streaming-hub/dataplane/dispatch"
	"github.com/streaming-hub/streaming-hub/hub"
	rules "github.com/streaming-hub/streaming-hub/hub/health"
)

const (
	frozen, recovered = hub.NoticeFrozen, hub.NoticeRecovered
)

// rates is a bubble whose destination has the policy FAILURE_RATE.
func rates(t *testing.T, change func(c *cluster), test func(c *cluster)) {
	t.Helper()
	bubble(t, func(c *cluster) {
		c.policy = hub.FailurePolicy{Kind: hub.FailureRate}
		if change != nil {
			change(c)
		}
	}, test)
}

// attempts end on both replicas by turns.
func (c *cluster) attempts(class hub.ErrorClass, n int) {
	for i := range n {
		c.see(c.either(i), class)
	}
}

func (c *cluster) state() rules.RateState { return c.store.Rate(c.lane).Judged }

func (c *cluster) wantState(want rules.RateState) {
	c.Helper()
	if c.state() != want {
		c.Errorf("it is %s, want %s: %+v", c.state(), want, c.store.Rate(c.lane))
	}
}

// try asks a replica for an attempt of the disabled destination.
func (c *cluster) try(r *replica) bool {
	allow, try := r.Admit(c.lane)
	if allow && !try {
		c.Error("it is not disabled")
	}
	if !allow {
		return false
	}
	taken, err := r.TakeTry(c.Context(), c.lane, c.policy)
	if err != nil {
		c.Error(err)
	}
	return taken
}

// disable makes the destination fail until it is disabled.
func (c *cluster) disable() {
	c.attempts(hub.ErrStatus, 101)
	c.share()
	c.wantState(rules.Disabled)
}

func TestRates_judge(t *testing.T) {
	for _, row := range []struct {
		rule            string
		succeed, fail   int
		before          rules.RateState
		then            hub.ErrorClass
		after           rules.RateState
		attempts, inRow int64
	}{
		{"the_101st_failure_disables", 29, 71, rules.Active, hub.ErrStatus, rules.Disabled, 101, 72},
		{"the_101st_decides_also_as_a_success", 29, 71, rules.Active, "", rules.Disabled, 101, 0},
		{"70_percent_exactly_is_not_above", 33, 76, rules.Active, hub.ErrStatus, rules.Active, 110, 77},
		{"above_70_percent", 33, 77, rules.Active, hub.ErrStatus, rules.Disabled, 111, 78},
		{"2000_in_a_row", 1000, 1999, rules.Active, hub.ErrStatus, rules.Disabled, 3000, 2000},
		{"our_fault_decides_nothing", 29, 71, rules.Active, hub.ErrNoSecret, rules.Active, 100, 71},
		{"50000_in_a_row_freeze", 30_000, 49_999, rules.Disabled, hub.ErrStatus, rules.Frozen, 80_000, 50_000},
	} {
		t.Run(row.rule, func(t *testing.T) {
			rates(t, nil, func(c *cluster) {
				c.attempts("", row.succeed)
				c.share() // or a replica might write its successes last
				c.attempts(hub.ErrStatus, row.fail)
				c.share()
				c.wantState(row.before)
				c.see(c.one, row.then)
				c.share()
				c.wantState(row.after)
				if r := c.store.Rate(c.lane); r.Attempts != row.attempts || r.Row != row.inRow {
					c.Errorf("it is %+v", r)
				}
				var want []hub.NoticeKind
				for _, s := range []rules.RateState{row.before, row.after} {
					switch {
					case s == rules.Disabled && len(want) == 0:
						want = append(want, disabled)
					case s == rules.Frozen:
						want = append(want, frozen)
					}
				}
				c.wantTold(want...)
			})
		})
	}
	t.Run("replay_that_fails_feeds_nothing", func(t *testing.T) {
		rates(t, nil, func(c *cluster) {
			for range 200 {
				c.see(c.one, hub.ErrStatus, replay)
			}
			c.share()
			if r := c.store.Rate(c.lane); r.Attempts != 0 {
				c.Errorf("it is %+v", r)
			}
		})
	})
	t.Run("spans_are_not_kept", func(t *testing.T) {
		rates(t, nil, func(c *cluster) {
			c.attempts(hub.ErrStatus, 10)
			c.share()
			if c.store.Span(c.sub).Span.Open() {
				c.Error("a span was opened under FAILURE_RATE")
			}
		})
	})
	t.Run("thresholds_are_those_of_the_policy", func(t *testing.T) {
		rates(t, func(c *cluster) { c.policy.MinAttempts = 5 }, func(c *cluster) {
			c.attempts(hub.ErrStatus, 6)
			c.share()
			c.wantState(rules.Disabled)
		})
	})
}

func TestRates_freeze_when_the_last_success_is_old(t *testing.T) {
	const h = time.Hour
	// fill makes the last success of now, and 2 000 failures after it.
	fill := func(c *cluster) {
		c.attempts("", 1)
		c.share()
		c.attempts(hub.ErrConnect, 2000)
		c.share()
		c.wantState(rules.Disabled)
	}
	t.Run("and_are_tried_until_then", func(t *testing.T) {
		rates(t, nil, func(c *cluster) {
			fill(c)
			success := c.store.Rate(c.lane).LastSuccessAt
			tries := 0
			for time.Since(success) <= 72*h {
				if c.wantState(rules.Disabled); c.Failed() {
					return
				}
				if c.try(c.one) {
					tries++
					c.see(c.one, hub.ErrConnect, tried)
				}
				c.pass(5 * time.Minute)
			}
			if tries < 200 {
				c.Errorf("only %d tries in 72 hours", tries)
			}
			c.pass(10 * time.Minute)
			c.wantState(rules.Frozen)
			c.wantTold(disabled, frozen)
			c.pass(h)
			if c.try(c.one) || c.try(c.two) {
				c.Error("it is tried though frozen")
			}
		})
	})
	t.Run("by_the_sweep_when_nothing_is_tried", func(t *testing.T) {
		rates(t, nil, func(c *cluster) {
			fill(c)
			c.attempts(hub.ErrConnect, 1) // was under way
			c.share()
			c.until(72*h + 3*time.Minute) // the sweep needs who knows the policy: no restart
			c.wantState(rules.Frozen)
			c.wantTold(disabled, frozen)
		})
	})
	t.Run("by_the_next_try_of_a_replica_that_just_started", func(t *testing.T) {
		rates(t, nil, func(c *cluster) {
			fill(c)
			c.attempts(hub.ErrConnect, 1)
			c.share()
			c.restart(73 * h)
			c.share()
			if c.wantState(rules.Disabled); c.try(c.one) {
				c.Error("it was tried")
			}
			c.wantState(rules.Frozen)
			c.wantTold(disabled, frozen)
		})
	})
	t.Run("not_at_2000", func(t *testing.T) {
		rates(t, nil, func(c *cluster) {
			fill(c)
			c.restart(200 * h)
			c.share()
			if !c.try(c.two) {
				c.Error("it was not tried")
			}
			c.wantState(rules.Disabled)
		})
	})
}

func TestRates_kill_switch(t *testing.T) {
	rates(t, func(c *cluster) { c.deps.Act = false }, func(c *cluster) {
		c.attempts(hub.ErrStatus, 60_000)
		c.share()
		c.wantState(rules.Active)
		if r := c.store.Rate(c.lane); r.Row != 60_000 || !r.NextTryAt.IsZero() {
			c.Errorf("counts go on: %+v", r)
		}
		for n := range 2 {
			if allow, try := c.either(n).Admit(c.lane); !allow || try {
				c.Errorf("replica %d says %v, %v", n, allow, try)
			}
		}
		c.fail(c.one)
		c.share()
		c.wantTold(hub.NoticeWouldDisable) // once
		c.deps.Act = true
		c.restart(time.Minute)
		c.fail(c.one)
		c.share()
		c.wantState(rules.Frozen)
		c.deps.Act = false
		c.restart(time.Minute)
		c.share()
		if allow, try := c.one.Admit(c.lane); !allow || try {
			c.Errorf("with the kill switch a frozen destination is not attempted: %v, %v", allow, try)
		}
	})
}

func TestRates_store_away(t *testing.T) {
	eachTrouble(t, func(c *cluster, away func(bool)) {
		c.policy = hub.FailurePolicy{Kind: hub.FailureRate}
		c.attempts("", 1)
		c.share()
		away(true)
		for n := range 60 {
			c.fail(c.either(n))
			c.pass(time.Minute)
		}
		away(false)
		c.share()
		if r := c.store.Rate(c.lane); r.Attempts != 61 || r.Failures != 60 || r.Row != 60 {
			c.Errorf("it is %+v", r)
		}
		c.attempts(hub.ErrStatus, 41)
		c.share()
		c.wantState(rules.Disabled)
		c.pass(10 * time.Minute)
		away(true)
		if taken, err := c.one.TakeTry(c.Context(), c.lane, c.policy); taken || err == nil {
			c.Errorf("TakeTry without a database = %v, %v", taken, err)
		}
		away(false)
		if !c.try(c.one) {
			c.Fatal("no try")
		}
		away(true)
		c.see(c.one, "", tried)
		c.pass(time.Hour)
		c.wantState(rules.Disabled)
		away(false)
		c.share()
		c.wantState(rules.Active)
		c.wantTold(disabled, recovered)
	})
}

// Many destinations at once are written in parts.
func TestRates_many_destinations(t *testing.T) {
	rates(t, nil, func(c *cluster) {
		lane := c.lane
		for range 450 {
			lane.Destination.ID = newID()
			c.store.AddDestination(lane, time.Now())
			for range 101 {
				c.see(c.one, hub.ErrReset, func(o *dispatch.Observed) { o.Lane = lane })
			}
		}
		c.share()
		list, err := c.store.RatesNotActive(c.Context(), 1000)
		if err != nil || len(list) != 450 {
			c.Errorf("%d of 450 are disabled, %v", len(list), err)
		}
	})
}
