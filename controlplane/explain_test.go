package controlplane

import (
	"testing"
	"time"

	"github.com/streaming-hub/streaming-hub/hub"
)

func TestExplain(t *testing.T) {
	now := time.Date(2026, 1, 31, 12, 4, 0, 0, time.UTC)
	sub := &hub.EventSubscription{Enabled: true, VerificationState: hub.VerificationActive}
	failed := func(n int32, status int32, f hub.Failure) *hub.RecordedAttempt {
		return &hub.RecordedAttempt{Attempt: hub.Attempt{Number: n, Answer: hub.Answer{Status: status}, Failure: f}, Decision: hub.Decision{State: hub.Waiting}}
	}
	standing := func(s hub.State, attempts, runAttempts int32, next time.Time) *hub.Standing {
		return &hub.Standing{State: s, NextAt: next, Delivery: hub.Delivery{Attempts: attempts, RunAttempts: runAttempts}}
	}
	dead := func(r hub.DeadReason) *hub.Standing { return &hub.Standing{State: hub.Dead, DeadReason: r} }
	status500 := hub.Failure{Class: hub.ErrStatus}
	for _, c := range []struct {
		name string
		s    *hub.Standing
		last *hub.RecordedAttempt
		sub  *hub.EventSubscription
		want string
	}{
		{"fresh", standing(hub.Waiting, 0, 0, now.Add(-time.Second)), nil, sub,
			"waiting: attempt 1 is due since 12:03:59 UTC and waits for a free worker, 8 of 8 attempts left"},
		{"after_a_failure", standing(hub.Waiting, 4, 4, now.Add(3*time.Minute)), failed(4, 500, status500), sub,
			"waiting: attempt 5 comes at 12:07:00 UTC, attempt 4 failed with HTTP 500, 4 of 8 attempts left"},
		{"tomorrow", standing(hub.Waiting, 1, 1, now.Add(24*time.Hour)), failed(1, 0, hub.Failure{Class: hub.ErrDNS, Detail: "no such host"}), nil,
			"waiting: attempt 2 comes at 2026-02-01 12:04:00 UTC, attempt 1 failed with DNS (no such host)"},
		{"replayed_run_counts_anew", standing(hub.Waiting, 9, 1, now.Add(time.Minute)), nil, sub,
			"waiting: attempt 10 comes at 12:05:00 UTC, 7 of 8 attempts left"},
		{"in_flight", standing(hub.InFlight, 1, 1, time.Time{}), failed(1, 500, status500), sub,
			"in flight: attempt 2 is being made, attempt 1 failed with HTTP 500"},
		{"held_unverified", standing(hub.Held, 0, 0, time.Time{}), nil, &hub.EventSubscription{Enabled: true, VerificationState: hub.VerificationPending},
			"held: its event subscription is not verified (PENDING); verify it to go on"},
		{"held_by_a_user", standing(hub.Held, 0, 0, time.Time{}), nil, &hub.EventSubscription{DisabledBy: hub.DisabledByUser},
			"held: its event subscription is disabled; enable it to go on"},
		{"held_by_the_hub", standing(hub.Held, 0, 0, time.Time{}), nil, &hub.EventSubscription{DisabledBy: hub.DisabledByAuto},
			"held: its event subscription was disabled by the hub because the destination stayed broken; verify or enable it to go on"},
		{"delivered", standing(hub.Delivered, 1, 1, time.Time{}),
			&hub.RecordedAttempt{Attempt: hub.Attempt{Number: 1, Answer: hub.Answer{Status: 204}, Timings: hub.Timings{Total: 12_345}}, Decision: hub.Decision{State: hub.Delivered}}, sub,
			"delivered: attempt 1 was answered with HTTP 204 in 12ms"},
		{"exhausted", dead(hub.DeadExhausted), failed(8, 503, status500), sub, "dead: all attempts are used up, the last attempt failed with HTTP 503"},
		{"expired", dead(hub.DeadExpired), nil, sub, "dead: it became older than its retry policy allows"},
		{"poison", dead(hub.DeadPoison), nil, sub, "dead: workers stopped again and again while they were at it"},
		{"deleted", dead(hub.DeadSubscriptionDeleted), nil, nil, "dead: its event subscription was deleted"},
		{"too_large", dead(hub.DeadPayloadTooLarge), nil, sub, "dead: the body is larger than may be sent"},
		{"frozen", dead(hub.DeadDroppedFrozen), nil, sub, "dead: its destination stayed frozen for too long"},
		{"discarded", &hub.Standing{State: hub.Discarded}, nil, sub, "discarded: an operator gave it up, nothing more happens"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := Explain(now, c.s, c.last, c.sub); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}
