package dispatch

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/streaming-hub/streaming-hub/hub"
	"github.com/streaming-hub/streaming-hub/hub/retry"
)

func TestDecide(t *testing.T) {
	received := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	steps := hub.RetryPolicy{Kind: hub.RetrySchedule, StepsMillis: []int64{0, 1000, 60_000}}
	ok := hub.Attempt{Answer: hub.Answer{Status: 204}}
	status := hub.Attempt{
		Answer:  hub.Answer{Status: 503},
		Failure: hub.Failure{Class: hub.ErrStatus, Phase: hub.PhaseAnswer, Detail: "the receiver answered 503"},
	}
	asking := func(code int32, after string) hub.Attempt {
		a := status
		a.Answer.Status, a.Answer.RetryAfter = code, after
		return a
	}
	blocked := hub.Attempt{Failure: hub.Failure{Class: hub.ErrBlocked, Phase: hub.PhaseConnect, Detail: "not allowed"}}
	for _, row := range []struct {
		name    string
		policy  hub.RetryPolicy
		before  int32         // attempts of this run so far
		age     time.Duration // of the event when the attempt starts
		first   time.Duration // age at the first failure
		took    time.Duration
		attempt hub.Attempt
		jitter  float64

		state  hub.State
		reason hub.DeadReason
		wait   time.Duration // from the attempt's end
		says   string
	}{
		{name: "success", attempt: ok, state: hub.Delivered, says: "answered 204"},
		{name: "success_of_the_last_attempt", before: 7, age: 30 * time.Hour, attempt: ok, state: hub.Delivered},
		{name: "curve_first_failure", attempt: status, jitter: 0.5, state: hub.Waiting, wait: 2500 * time.Millisecond, says: "attempt 1 of 8 failed: the receiver answered 503; the next one is in 2.5s"},
		{name: "curve_without_jitter_is_at_once", attempt: status, state: hub.Waiting},
		{name: "wait_runs_from_the_end", attempt: status, jitter: 0.5, took: 15 * time.Second, state: hub.Waiting, wait: 2500 * time.Millisecond},
		{name: "curve_exhausted", before: 7, age: time.Hour, attempt: status, state: hub.Dead, reason: hub.DeadExhausted, says: "attempt 8 of 8 failed: the receiver answered 503; it was the last by number"},
		{name: "curve_expired", before: 2, age: 24 * time.Hour, attempt: status, state: hub.Dead, reason: hub.DeadExpired, says: "because of the event's age"},
		{name: "curve_not_yet_expired", before: 2, age: 24*time.Hour - 1, attempt: status, jitter: 0.5, state: hub.Waiting, wait: 15 * time.Minute},
		{name: "exhausted_and_expired_is_exhausted", before: 7, age: 25 * time.Hour, attempt: status, state: hub.Dead, reason: hub.DeadExhausted},
		{name: "schedule_next_step", policy: steps, before: 1, attempt: status, jitter: 0.5, state: hub.Waiting, wait: 30 * time.Second},
		{name: "schedule_exhausted", policy: steps, before: 2, attempt: status, state: hub.Dead, reason: hub.DeadExhausted, says: "attempt 3 of 3"},
		{name: "workfront", policy: retry.Workfront(false), before: 1, first: 0, age: 90 * time.Second, attempt: status, jitter: 0.9, state: hub.Waiting, wait: 254_400 * time.Millisecond},
		{name: "workfront_expired_from_the_first_failure", policy: retry.Workfront(false), before: 5, first: time.Hour, age: 49 * time.Hour, attempt: status, state: hub.Dead, reason: hub.DeadExpired},
		{name: "workfront_age_of_the_event_is_nothing", policy: retry.Workfront(false), before: 5, first: 100 * time.Hour, age: 101 * time.Hour, attempt: status, state: hub.Waiting, wait: 5342400 * time.Millisecond},
		{name: "workfront_elapsed_counts_from_the_first_failure", policy: retry.Workfront(true), before: 1, first: 10 * time.Second, age: 100 * time.Second, took: 5 * time.Second, attempt: status, state: hub.Waiting, wait: 254_400*time.Millisecond - 95*time.Second},
		{name: "malformed_policy_is_the_curve", policy: hub.RetryPolicy{Kind: "CUBIC"}, before: 7, attempt: status, state: hub.Dead, reason: hub.DeadExhausted, says: "8 of 8"},
		{name: "retry_after_is_a_lower_bound", attempt: asking(429, "120"), jitter: 0.5, state: hub.Waiting, wait: 2 * time.Minute, says: "as the receiver asked"},
		{name: "retry_after_below_the_wait_changes_nothing", before: 4, attempt: asking(503, "1"), jitter: 0.5, state: hub.Waiting, wait: 150 * time.Minute, says: "the next one is in 2h30m0s"},
		{name: "retry_after_of_another_status_is_nothing", attempt: asking(500, "120"), state: hub.Waiting},
		{name: "retry_after_is_bounded", attempt: asking(503, "999999"), state: hub.Waiting, wait: 10 * time.Hour},
		{name: "retry_after_as_a_date", attempt: asking(503, received.Add(90*time.Second).Format(http.TimeFormat)), state: hub.Waiting, wait: 90 * time.Second},
		{name: "retry_after_does_not_revive", before: 7, attempt: asking(503, "120"), state: hub.Dead, reason: hub.DeadExhausted},
		{name: "refused_address_uses_up_an_attempt", before: 7, attempt: blocked, state: hub.Dead, reason: hub.DeadExhausted},
	} {
		t.Run(row.name, func(t *testing.T) {
			d := hub.Delivery{RunAttempts: row.before, Attempts: row.before + 8, ReceivedAt: received}
			if row.before > 0 {
				d.FirstFailedAt = received.Add(row.first)
			}
			a := row.attempt
			a.Started = received.Add(row.age)
			now := a.Started.Add(row.took)
			got := Decide(&d, &a, row.policy, row.jitter, now)
			if got.State != row.state || got.DeadReason != row.reason || !got.Counted || !strings.Contains(got.Reason, row.says) {
				t.Errorf("decision = %+v", got)
			}
			if row.state == hub.Waiting && !got.NextAt.Equal(now.Add(row.wait)) {
				t.Errorf("next attempt in %s, want %s", got.NextAt.Sub(now), row.wait)
			}
			if row.state != hub.Waiting && !got.NextAt.IsZero() {
				t.Errorf("a settled delivery is due at %s", got.NextAt)
			}
		})
	}
}
