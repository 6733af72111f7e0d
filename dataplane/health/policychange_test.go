package health_test

import (
	"testing"
	"time"

	"github.com/streaming-hub/streaming-hub/dataplane/dispatch"
	"github.com/streaming-hub/streaming-hub/hub"
	rules "github.com/streaming-hub/streaming-hub/hub/health"
)

// The failure policy of the destination becomes another one.
func TestPolicy_change(t *testing.T) {
	const h = time.Hour
	span, rate := hub.FailurePolicy{Kind: hub.FailureSpan}, hub.FailurePolicy{Kind: hub.FailureRate}
	become := func(c *cluster, is hub.FailurePolicy) {
		c.store.SetPolicy(c.lane, c.policy, is)
		c.policy = is
	}
	for rule, failures := range map[string]int{"disabled": 101, "frozen": 50_000} {
		t.Run("what_is_"+rule+"_goes_on_at_once", func(t *testing.T) {
			rates(t, nil, func(c *cluster) {
				c.attempts(hub.ErrStatus, failures)
				c.share()
				if allow, _ := c.one.Admit(c.lane); allow {
					c.Fatal("it is not switched off")
				}
				become(c, span)
				c.pass(1100 * time.Millisecond)
				for n := range 2 {
					if allow, try := c.either(n).Admit(c.lane); !allow || try {
						c.Errorf("replica %d says %v, %v", n, allow, try)
					}
				}
				c.attempts(hub.ErrStatus, 200)
				c.share()
				if r := c.store.Rate(c.lane); r.Attempts != 0 {
					c.Errorf("the policy that is gone counts on: %+v", r)
				}
				if n := c.store.Span(c.sub).Span.FailureCount; n != 200 {
					c.Errorf("the span has %d failures", n)
				}
			})
		})
	}
	t.Run("late_outcomes_of_the_old_one_switch_nothing_off", func(t *testing.T) {
		rates(t, nil, func(c *cluster) {
			c.store.SetAway(true)
			c.attempts(hub.ErrStatus, 60_000)
			c.pass(time.Minute)
			c.store.SetAway(false)
			become(c, span)
			c.share()
			if allow, try := c.one.Admit(c.lane); !allow || try {
				c.Errorf("Admit = %v, %v", allow, try)
			}
			c.wantState(rules.Active)
		})
	})
	t.Run("spans_are_forgotten_and_trip_no_more", func(t *testing.T) {
		bubble(t, nil, func(c *cluster) {
			c.fail(c.one)
			c.until(12 * h)
			c.fail(c.two)
			c.share()
			become(c, rate)
			c.succeed(c.one) // which FAILURE_RATE counts: it would clear no span
			c.see(c.two, hub.ErrStatus, func(o *dispatch.Observed) { o.Policy = span })
			c.share()
			if s := c.store.Span(c.sub).Span; s.Open() {
				c.Errorf("the span is %+v", s)
			}
			c.restart(110 * h)
			c.until(124 * h)
			if !c.enabled() {
				c.Error("disabled by a policy that judges it no more")
			}
		})
	})
	t.Run("age_of_the_last_success_begins_with_the_policy", func(t *testing.T) {
		bubble(t, nil, func(c *cluster) {
			c.restart(400 * h) // under FAILURE_SPAN, where nobody counts successes
			become(c, rate)
			began := time.Now()
			c.attempts(hub.ErrStatus, 2001)
			c.share()
			c.wantState(rules.Disabled)
			c.restart(72*h - time.Hour - time.Since(began))
			c.attempts(hub.ErrStatus, 1) // was under way
			c.share()
			c.wantState(rules.Disabled)
			c.pass(time.Hour + time.Minute)
			c.wantState(rules.Frozen)
		})
	})
	t.Run("other_thresholds_switch_nothing_on_and_a_shorter_wait_counts_at_once", func(t *testing.T) {
		rates(t, func(c *cluster) { c.policy.TryEveryMillis = h.Milliseconds() }, func(c *cluster) {
			c.disable()
			is := c.policy
			is.Percent, is.DisableRow, is.TryEveryMillis = 100, 1_000_000, time.Minute.Milliseconds()
			become(c, is)
			c.share()
			if c.wantState(rules.Disabled); c.try(c.one) {
				c.Error("tried at once")
			}
			c.pass(time.Minute)
			if !c.try(c.two) {
				c.Fatal("not tried after the new wait")
			}
			c.see(c.two, "", tried)
			c.share()
			c.wantState(rules.Active)
		})
	})
	t.Run("lower_thresholds_freeze_with_the_next_try", func(t *testing.T) {
		rates(t, nil, func(c *cluster) {
			c.disable()
			is := c.policy
			is.FreezeAnyRow = 100
			become(c, is)
			c.share()
			c.wantState(rules.Disabled)
			c.until(11 * time.Minute)
			if c.try(c.one) {
				c.Error("tried though frozen by now")
			}
			c.wantState(rules.Frozen)
			c.wantTold(disabled, frozen)
		})
	})
}

func TestRates_kill_switch_lifts_what_was_switched_off_before(t *testing.T) {
	rates(t, nil, func(c *cluster) {
		c.attempts(hub.ErrStatus, 50_000)
		c.share()
		c.wantState(rules.Frozen)
		c.deps.Act = false
		c.restart(time.Minute)
		c.pass(time.Second)
		c.wantState(rules.Active) // what is held for it goes on, without a new attempt
		if r := c.store.Rate(c.lane); r.Row != 50_000 || r.State(time.Now(), rules.Workfront()) != rules.Frozen {
			c.Errorf("what would be is not shown any more: %+v", r)
		}
		c.wantTold(disabled, frozen, recovered)
	})
}
