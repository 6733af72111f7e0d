package controlplane

import (
	"testing"
	"time"

	"github.com/streaming-hub/streaming-hub/hub"
	"github.com/streaming-hub/streaming-hub/hub/breaker"
	"github.com/streaming-hub/streaming-hub/hub/health"
	"github.com/streaming-hub/streaming-hub/hub/retry"
)

// noon is 12:04 of a day in January.
var noon = time.Date(2026, 1, 31, 12, 4, 0, 0, time.UTC)

func TestExplain(t *testing.T) {
	const minute = time.Minute
	type change func(*Facts)
	standing := func(s hub.State, attempts int32, next time.Time) *hub.Standing {
		return &hub.Standing{State: s, NextAt: next, Delivery: hub.Delivery{Attempts: attempts, RunAttempts: attempts, ReceivedAt: noon.Add(-time.Hour)}}
	}
	waiting := func(attempts int32, in time.Duration) *hub.Standing {
		return standing(hub.Waiting, attempts, noon.Add(in))
	}
	held := standing(hub.Held, 2, time.Time{})
	failed := func(n int32, status int32, f hub.Failure) change {
		return func(c *Facts) {
			c.Last = &hub.RecordedAttempt{Attempt: hub.Attempt{Number: n, Answer: hub.Answer{Status: status}, Failure: f}, Decision: hub.Decision{State: hub.Waiting}}
		}
	}
	status := func(n, code int32) change { return failed(n, code, hub.Failure{Class: hub.ErrStatus}) }
	diedOf := func(n, code int32) change {
		return func(c *Facts) { status(n, code)(c); c.Last.Decision.State = hub.Dead }
	}
	subscription := func(edit func(*hub.EventSubscription)) change {
		return func(c *Facts) { s := *c.Subscription; edit(&s); c.Subscription = &s }
	}
	noSubscription := func(c *Facts) { c.Subscription = nil }
	delivery := func(edit func(*hub.Standing)) change {
		return func(c *Facts) { s := *c.Delivery; edit(&s); c.Delivery = &s }
	}
	curveSteps := func(steps ...time.Duration) change { return func(c *Facts) { c.CurveSteps = steps } }
	open := breaker.State{Phase: breaker.Open, Cause: breaker.CauseRow, Failures: 5, OpenedAt: noon, OpenFor: 30 * time.Second, NextProbeAt: noon.Add(3 * minute)}
	circuit := func(edit func(*breaker.State)) change {
		return func(c *Facts) { c.Breaker = open; edit(&c.Breaker) }
	}
	asItIs := func(*breaker.State) {}
	rate := func(r health.Rate) change {
		return func(c *Facts) {
			c.Destination = &hub.Destination{FailurePolicy: hub.FailurePolicy{Kind: hub.FailureRate}}
			c.Rate = r
		}
	}
	disabled := health.Rate{Judged: health.Disabled, JudgedAt: noon.Add(-4 * minute), NextTryAt: noon.Add(6 * minute), Row: 7}
	frozen := health.Rate{Judged: health.Frozen, JudgedAt: noon.Add(-4 * minute), Row: 50_000}
	dead := func(r hub.DeadReason) *hub.Standing { return &hub.Standing{State: hub.Dead, DeadReason: r} }
	const over = "; nothing more happens unless it is redelivered"

	for _, c := range []struct {
		name    string
		s       *hub.Standing
		changes []change
		want    string
	}{
		{"due_now", waiting(0, -time.Second), nil,
			"waiting: attempt 1 is due since 12:03:59 UTC and waits for a free worker, 8 of 8 attempts left"},
		{"due_later_after_a_failure", waiting(4, 3*minute), []change{status(4, 500)},
			"waiting: attempt 5 comes at 12:07:00 UTC, attempt 4 failed with HTTP 500, 4 of 8 attempts left"},
		{"due_tomorrow_and_no_subscription_policy", waiting(1, 24*time.Hour), []change{failed(1, 0, hub.Failure{Class: hub.ErrDNS, Detail: "no such host"}), noSubscription},
			"waiting: its event subscription is gone, and it ends with that"},
		{"due_tomorrow_names_the_day", waiting(1, 20*time.Hour), []change{failed(1, 0, hub.Failure{Class: hub.ErrDNS, Detail: "no such host"})},
			"waiting: attempt 2 comes at 2026-02-01 08:04:00 UTC, attempt 1 failed with DNS (no such host), 7 of 8 attempts left"},
		{"replayed_run_counts_anew", waiting(9, minute), []change{delivery(func(s *hub.Standing) { s.RunAttempts = 1 })},
			"waiting: attempt 10 comes at 12:05:00 UTC, 7 of 8 attempts left"},
		{"last_by_number", waiting(7, minute), nil,
			"waiting: attempt 8 comes at 12:05:00 UTC, 1 of 8 attempts left"},
		{"last_by_age_as_scheduled", waiting(4, minute), []change{delivery(func(s *hub.Standing) { s.LastAt = noon.Add(minute) })},
			"waiting: attempt 5 comes at 12:05:00 UTC, past its age limit, so the next attempt is the last"},
		{"last_by_age_as_computed", waiting(4, minute), []change{delivery(func(s *hub.Standing) { s.ReceivedAt = noon.Add(-24 * time.Hour) })},
			"waiting: attempt 5 comes at 12:05:00 UTC, past its age limit, so the next attempt is the last"},
		{"age_of_exponential_counts_from_the_first_failure", waiting(4, minute), []change{
			subscription(func(s *hub.EventSubscription) { s.RetryPolicy = retry.Workfront(false) }),
			delivery(func(s *hub.Standing) {
				s.ReceivedAt, s.FirstFailedAt = noon.Add(-90*time.Hour), noon.Add(-47*time.Hour)
			})},
			"waiting: attempt 5 comes at 12:05:00 UTC, 7 of 11 attempts left"},

		{"setting_replaces_the_curve", waiting(1, minute), []change{curveSteps(0, time.Second, time.Second)},
			"waiting: attempt 2 comes at 12:05:00 UTC, 2 of 3 attempts left"},
		{"setting_replaces_no_other_policy", waiting(1, minute), []change{curveSteps(0, time.Second),
			subscription(func(s *hub.EventSubscription) { s.RetryPolicy = retry.Workfront(false) })},
			"waiting: attempt 2 comes at 12:05:00 UTC, 10 of 11 attempts left"},
		{"last_by_number_of_the_setting_behind_an_open_circuit", waiting(1, -minute), []change{curveSteps(0, time.Second), circuit(asItIs)},
			"waiting: attempt 2 is due since 12:03:00 UTC and runs although the circuit is open since 12:04:00 UTC, because it is the last, 1 of 2 attempts left"},

		{"circuit_open", waiting(4, -minute), []change{circuit(asItIs), status(4, 500)},
			"waiting: circuit open since 12:04:00 UTC, next probe 12:07:00 UTC, 4 of 8 attempts left"},
		{"circuit_open_and_put_off_to_the_probe", waiting(4, 3*minute), []change{circuit(asItIs)},
			"waiting: circuit open since 12:04:00 UTC, next probe 12:07:00 UTC, 4 of 8 attempts left"},
		{"circuit_open_until_its_last_attempt", waiting(4, -minute), []change{circuit(asItIs), delivery(func(s *hub.Standing) { s.LastAt = noon.Add(time.Hour) })},
			"waiting: circuit open since 12:04:00 UTC, next probe 12:07:00 UTC, from 13:04:00 UTC on its last attempt runs whatever the circuit, 4 of 8 attempts left"},
		{"circuit_open_and_the_probe_is_due", waiting(4, -minute), []change{circuit(func(s *breaker.State) { s.NextProbeAt = noon.Add(-time.Second) })},
			"waiting: circuit open since 12:04:00 UTC, the next delivery that is due is the probe, 4 of 8 attempts left"},
		{"circuit_open_and_due_after_the_probe", waiting(4, time.Hour), []change{circuit(asItIs)},
			"waiting: attempt 5 comes at 13:04:00 UTC, the circuit is open since 12:04:00 UTC, next probe 12:07:00 UTC, 4 of 8 attempts left"},
		{"half_open", waiting(4, -minute), []change{circuit(func(s *breaker.State) {
			s.Phase, s.Probe = breaker.HalfOpen, breaker.Probe{Attempt: hub.AttemptID{ID: hub.ID{1}}, StartedAt: noon.Add(-10 * time.Second)}
		})},
			"waiting: circuit open since 12:04:00 UTC, a probe is under way since 12:03:50 UTC, 4 of 8 attempts left"},
		{"last_attempt_behind_an_open_circuit", waiting(7, -minute), []change{circuit(asItIs)},
			"waiting: attempt 8 is due since 12:03:00 UTC and runs although the circuit is open since 12:04:00 UTC, because it is the last, 1 of 8 attempts left"},
		{"ramp_after_recovery", waiting(1, -minute), []change{func(c *Facts) {
			c.Breaker = breaker.State{Phase: breaker.Closed, ClosedAt: noon.Add(-minute), RampLimit: 4}
		}},
			"waiting: attempt 2 is due since 12:03:00 UTC and waits its turn: the circuit closed at 12:03:00 UTC, and the backlog is let through slowly, 4 attempts at a time in each process, 7 of 8 attempts left"},
		{"rate_limit", waiting(0, -minute), []change{func(c *Facts) {
			c.Destination, c.Gate.FreeAt = &hub.Destination{RateLimit: 50}, noon.Add(2*time.Second)
		}},
			"waiting: attempt 1 is due since 12:03:00 UTC and waits for its destination's limit of 50 attempts a second, which has room again at 12:04:02 UTC, 8 of 8 attempts left"},
		{"rate_limit_with_room", waiting(0, -minute), []change{func(c *Facts) {
			c.Destination, c.Gate.FreeAt = &hub.Destination{RateLimit: 50}, noon.Add(-time.Second)
		}},
			"waiting: attempt 1 is due since 12:03:00 UTC and waits for a free worker, 8 of 8 attempts left"},
		{"max_in_flight", waiting(0, -minute), []change{func(c *Facts) { c.Destination = &hub.Destination{MaxInFlight: 1} }},
			"waiting: attempt 1 is due since 12:03:00 UTC and waits for a free worker; its destination takes 1 attempt at a time, 8 of 8 attempts left"},
		{"no_key", waiting(0, -minute), []change{func(c *Facts) { c.Gate.NoKey = true }, circuit(asItIs)},
			"waiting: the hub has no key to sign it with and sends nothing unsigned; it goes on when STREAMING_HUB_KEK_KEYS has the key, 8 of 8 attempts left"},
		{"destination_disabled", waiting(2, -minute), []change{rate(disabled)},
			"waiting: its destination is disabled since 12:00:00 UTC, because too many attempts failed; one delivery is tried at 12:10:00 UTC, 6 of 8 attempts left"},
		{"destination_disabled_and_the_try_is_due", waiting(2, -minute), []change{rate(health.Rate{Judged: health.Disabled, JudgedAt: noon, NextTryAt: noon})},
			"waiting: its destination is disabled since 12:04:00 UTC, because too many attempts failed; the next delivery that is due is tried, 6 of 8 attempts left"},
		{"destination_disabled_behind_the_kill_switch", waiting(2, -minute), []change{rate(disabled), func(c *Facts) { c.KillSwitch = true }},
			"waiting: attempt 3 is due since 12:03:00 UTC and waits for a free worker, 6 of 8 attempts left"},
		{"rate_of_a_policy_that_was_replaced", waiting(2, -minute), []change{rate(disabled), func(c *Facts) { c.Destination = &hub.Destination{} }},
			"waiting: attempt 3 is due since 12:03:00 UTC and waits for a free worker, 6 of 8 attempts left"},
		{"destination_frozen_a_moment_ago", waiting(2, -minute), []change{rate(frozen)},
			"waiting: it is about to be held, because its destination is frozen since 12:00:00 UTC, after 50000 failures in a row; enable the destination to go on"},
		{"subscription_disabled_a_moment_ago", waiting(2, -minute), []change{subscription(func(s *hub.EventSubscription) { s.Enabled, s.DisabledBy = false, hub.DisabledByUser })},
			"waiting: it is about to be held, because its event subscription is disabled; enable it to go on"},
		{"subscription_deleted_a_moment_ago", waiting(2, -minute), []change{subscription(func(s *hub.EventSubscription) { s.DeletedAt = noon })},
			"waiting: its event subscription was deleted, and it ends with that"},
		{"test_send", waiting(0, -minute), []change{delivery(func(s *hub.Standing) { s.Test = true })},
			"waiting: its only attempt is due since 12:03:00 UTC and waits for a free worker, whatever circuit and policies say; it is a test send and counts nowhere"},
		{"test_send_to_what_is_disabled_and_frozen_behind_an_open_circuit", waiting(0, -minute), []change{
			delivery(func(s *hub.Standing) { s.Test = true }), circuit(asItIs), rate(frozen),
			subscription(func(s *hub.EventSubscription) { s.Enabled, s.DisabledBy = false, hub.DisabledByUser }),
		},
			"waiting: its only attempt is due since 12:03:00 UTC and waits for a free worker, whatever circuit and policies say; it is a test send and counts nowhere"},
		{"test_send_without_a_key", waiting(0, -minute), []change{delivery(func(s *hub.Standing) { s.Test = true }), func(c *Facts) { c.Gate.NoKey = true }},
			"waiting: the hub has no key to sign it with and sends nothing unsigned; it goes on when STREAMING_HUB_KEK_KEYS has the key; it is a test send and counts nowhere"},

		{"in_flight", standing(hub.InFlight, 1, time.Time{}), []change{status(1, 500)},
			"in flight: attempt 2 is being made, attempt 1 failed with HTTP 500"},
		{"in_flight_as_the_probe", standing(hub.InFlight, 1, time.Time{}), []change{circuit(asItIs)},
			"in flight: attempt 2 is being made as the probe, or since before it opened: the circuit is open since 12:04:00 UTC"},
		{"in_flight_for_the_last_time", standing(hub.InFlight, 7, time.Time{}), []change{circuit(asItIs)},
			"in flight: attempt 8 is being made and runs although the circuit is open since 12:04:00 UTC, because it is the last"},

		{"held_unverified", held, []change{subscription(func(s *hub.EventSubscription) { s.VerificationState = hub.VerificationPending })},
			"held: its event subscription is not verified (PENDING); verify it to go on"},
		{"held_by_a_user", held, []change{subscription(func(s *hub.EventSubscription) {
			s.Enabled, s.DisabledBy, s.DisabledReason = false, hub.DisabledByUser, "maintenance"
		})},
			"held: its event subscription is disabled (maintenance); enable it to go on"},
		{"held_by_the_hub", held, []change{subscription(func(s *hub.EventSubscription) { s.Enabled, s.DisabledBy = false, hub.DisabledByAuto })},
			"held: its event subscription was disabled by the hub because the destination stayed broken; verify or enable it to go on"},
		{"held_because_frozen", held, []change{rate(frozen)},
			"held: its destination is frozen since 12:00:00 UTC, after 50000 failures in a row; enable the destination to go on"},
		{"held_because_disabled", held, []change{rate(disabled)},
			"held: its destination is disabled since 12:00:00 UTC, because too many attempts failed; one delivery is tried at 12:10:00 UTC"},
		{"held_and_about_to_go_on", held, nil,
			"held: what it was held for is over, and it goes on within moments"},
		{"held_past_its_age", held, []change{delivery(func(s *hub.Standing) { s.ReceivedAt = noon.Add(-25 * time.Hour) })},
			"held: what it was held for is over, and it goes on within moments, with its last attempt"},

		{"delivered", standing(hub.Delivered, 3, time.Time{}), []change{func(c *Facts) {
			c.Last = &hub.RecordedAttempt{Attempt: hub.Attempt{Number: 3, Answer: hub.Answer{Status: 204}, Timings: hub.Timings{Total: 12_345}}, Decision: hub.Decision{State: hub.Delivered}}
		}},
			"delivered: attempt 3 was answered with HTTP 204 in 12ms"},
		{"delivered_long_ago", standing(hub.Delivered, 0, time.Time{}), nil, "delivered"},
		{"exhausted", dead(hub.DeadExhausted), []change{diedOf(8, 503)}, "dead: all attempts are used up, the last attempt failed with HTTP 503" + over},
		{"expired_by_an_attempt", dead(hub.DeadExpired), []change{diedOf(3, 503)}, "dead: it became older than its retry policy allows, the last attempt failed with HTTP 503" + over},
		{"expired_while_waiting", dead(hub.DeadExpired), nil, "dead: it became too old while it waited" + over},
		{"expired_while_waiting_after_attempts", dead(hub.DeadExpired), []change{status(3, 503)}, "dead: it became too old while it waited, the last attempt failed with HTTP 503" + over},
		{"poison", dead(hub.DeadPoison), nil, "dead: workers stopped again and again while they were at it" + over},
		{"deleted", dead(hub.DeadSubscriptionDeleted), []change{noSubscription}, "dead: its event subscription was deleted" + over},
		{"too_large", dead(hub.DeadPayloadTooLarge), nil, "dead: the body is larger than may be sent" + over},
		{"frozen", dead(hub.DeadDroppedFrozen), []change{status(2, 500)}, "dead: its destination stayed frozen for too long, the last attempt failed with HTTP 500" + over},
		{"discarded_with_a_reason", &hub.Standing{State: hub.Discarded, LastError: "sent by hand"}, nil, "discarded: an operator gave it up (sent by hand), nothing more happens"},
		{"discarded", &hub.Standing{State: hub.Discarded}, nil, "discarded: an operator gave it up, nothing more happens"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := Facts{Now: noon, Delivery: c.s, Subscription: &hub.EventSubscription{Enabled: true, VerificationState: hub.VerificationActive}}
			for _, edit := range c.changes {
				edit(&f)
			}
			if got := Explain(f); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

func TestExplainBreaker(t *testing.T) {
	open := breaker.State{Phase: breaker.Open, Cause: breaker.CauseRow, Failures: 6, OpenedAt: noon, NextProbeAt: noon.Add(3 * time.Minute)}
	half := open
	half.Phase, half.Cause, half.Probe = breaker.HalfOpen, breaker.CauseRatio, breaker.Probe{Attempt: hub.AttemptID{ID: hub.ID{1}}, StartedAt: noon}
	for _, c := range []struct {
		name  string
		s     breaker.State
		after time.Duration
		want  string
	}{
		{"nothing_seen", breaker.State{}, 0, "closed; attempts run as they are due"},
		{"failing", breaker.State{Phase: breaker.Closed, Failures: 1}, 0, "closed; 1 failure in a row, 5 open it"},
		{"ramp", breaker.State{Phase: breaker.Closed, ClosedAt: noon, RampLimit: 2, Failures: 1}, 0, "closed since 12:04:00 UTC; the backlog is let through slowly, 2 attempts at a time in each process, one more with each success"},
		{"open", open, 0, "open since 12:04:00 UTC, after 6 failures in a row; next probe 12:07:00 UTC, and last attempts of deliveries run"},
		{"probe_due", open, time.Hour, "open since 12:04:00 UTC, after 6 failures in a row; the next delivery that is due is the probe, and last attempts of deliveries run"},
		{"half_open", half, time.Second, "open since 12:04:00 UTC, because at least half of the attempts within two minutes had failed; a probe is under way since 12:04:00 UTC, and last attempts of deliveries run"},
		{"enabled", breaker.Restart(breaker.State{}, noon), 0, "open since 12:04:00 UTC, when the destination was enabled again; the next delivery that is due is the probe, and last attempts of deliveries run"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := ExplainBreaker(noon.Add(c.after), c.s); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}
