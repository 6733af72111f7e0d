package retry_test

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/streaming-hub/streaming-hub/hub"
	"github.com/streaming-hub/streaming-hub/hub/retry"
)

func schedule(steps ...time.Duration) hub.RetryPolicy {
	p := hub.RetryPolicy{Kind: hub.RetrySchedule}
	for _, s := range steps {
		p.StepsMillis = append(p.StepsMillis, s.Milliseconds())
	}
	return p
}

func exponential(unit time.Duration, attempts int32) hub.RetryPolicy {
	return hub.RetryPolicy{Kind: hub.RetryExponential, UnitMillis: unit.Milliseconds(), Attempts: attempts}
}

func repeated(step time.Duration, n int) []time.Duration {
	out := make([]time.Duration, n)
	for i := range out {
		out[i] = step
	}
	return out
}

func TestNext(t *testing.T) {
	const h = time.Hour
	for _, row := range []struct {
		rule   string
		policy hub.RetryPolicy
		failed retry.Failed
		want   retry.Step
	}{
		{"zero_policy_is_the_curve", hub.RetryPolicy{}, retry.Failed{Attempt: 1, Jitter: 0.5}, retry.Step{Wait: 2500 * time.Millisecond}},
		{"unknown_kind_is_the_curve", hub.RetryPolicy{Kind: "X"}, retry.Failed{Attempt: 1, Jitter: 0.5}, retry.Step{Wait: 2500 * time.Millisecond}},
		{"last_by_number_is_known", hub.RetryPolicy{}, retry.Failed{Attempt: 7, Jitter: 0}, retry.Step{Last: true}},
		{"last_by_age_is_known", hub.RetryPolicy{}, retry.Failed{Attempt: 4, StartedAge: 23 * h, Jitter: 0.5}, retry.Step{Wait: h, LastByAge: true}},
		{"last_by_age_counts_the_attempt_itself", hub.RetryPolicy{}, retry.Failed{Attempt: 4, StartedAge: 23*h - time.Second, Took: time.Second, Jitter: 0.5}, retry.Step{Wait: h, LastByAge: true}},
		{"not_yet_last_by_age", hub.RetryPolicy{}, retry.Failed{Attempt: 4, StartedAge: 23*h - 1, Jitter: 0.5}, retry.Step{Wait: h}},
		{"both_limits_are_exhausted", hub.RetryPolicy{}, retry.Failed{Attempt: 8, StartedAge: 30 * h}, retry.Step{Dead: hub.DeadExhausted}},
		{"retry_after_is_a_lower_bound", hub.RetryPolicy{}, retry.Failed{Attempt: 2, Jitter: 0.1, RetryAfter: 2 * time.Minute}, retry.Step{Wait: 2 * time.Minute}},
		{"retry_after_does_not_shorten", hub.RetryPolicy{}, retry.Failed{Attempt: 2, Jitter: 0.9, RetryAfter: time.Minute}, retry.Step{Wait: 270 * time.Second}},
		{"retry_after_has_a_cap", hub.RetryPolicy{}, retry.Failed{Attempt: 2, RetryAfter: 100 * h}, retry.Step{Wait: 10 * h}},
		{"retry_after_saves_no_used_up_delivery", schedule(0), retry.Failed{Attempt: 1, RetryAfter: h}, retry.Step{Dead: hub.DeadExhausted}},
		{"schedule_age_is_its_sum", schedule(repeated(10*h, 12)...), retry.Failed{Attempt: 3, StartedAge: 120*h - 1, Jitter: 0}, retry.Step{}},
		{"schedule_expires_at_its_sum", schedule(repeated(10*h, 12)...), retry.Failed{Attempt: 3, StartedAge: 120 * h}, retry.Step{Dead: hub.DeadExpired}},
		{"short_schedule_expires_at_24h", schedule(0, h, h), retry.Failed{Attempt: 1, StartedAge: 24 * h}, retry.Step{Dead: hub.DeadExpired}},
		{"exponential_ignores_the_age_of_the_event", retry.Workfront(false), retry.Failed{Attempt: 1, StartedAge: 1000 * h}, retry.Step{Wait: 84_800 * time.Millisecond}},
		{"exponential_ignores_jitter", retry.Workfront(false), retry.Failed{Attempt: 2, Jitter: 0.9}, retry.Step{Wait: 254_400 * time.Millisecond}},
		{"workfront_last_by_number", retry.Workfront(false), retry.Failed{Attempt: 10}, retry.Step{Wait: 86_750_400 * time.Millisecond, Last: true}},
		{"elapsed_counts_from_the_first_failure", retry.Workfront(true), retry.Failed{Attempt: 2, SinceFirstFailure: 84_800 * time.Millisecond}, retry.Step{Wait: 169_600 * time.Millisecond}},
		{"elapsed_leaves_out_the_attempt_itself", retry.Workfront(true), retry.Failed{Attempt: 1, Took: 4_800 * time.Millisecond}, retry.Step{Wait: 80 * time.Second}},
		{"elapsed_late_is_due_at_once", retry.Workfront(true), retry.Failed{Attempt: 2, SinceFirstFailure: h}, retry.Step{}},
		{"elapsed_has_11_retries", retry.Workfront(true), retry.Failed{Attempt: 11, SinceFirstFailure: 86_750_400 * time.Millisecond}, retry.Step{Wait: 48*h - 86_750_400*time.Millisecond, Last: true, LastByAge: true}},
		{"elapsed_12th_attempt_is_the_end", retry.Workfront(true), retry.Failed{Attempt: 12, SinceFirstFailure: 48 * h}, retry.Step{Dead: hub.DeadExhausted}},
		{"a_wait_beyond_the_limit_is_cut_to_it", exponential(10*h, 20), retry.Failed{Attempt: 9}, retry.Step{Wait: 48 * h, LastByAge: true}},
		{"attempt_zero_counts_as_the_first", retry.Workfront(false), retry.Failed{}, retry.Step{Wait: 84_800 * time.Millisecond}},
		{"jitter_below_zero_is_zero", hub.RetryPolicy{}, retry.Failed{Attempt: 1, Jitter: -1}, retry.Step{}},
		{"jitter_not_a_number_is_zero", hub.RetryPolicy{}, retry.Failed{Attempt: 1, Jitter: math.NaN()}, retry.Step{}},
		{"jitter_above_one_is_one", hub.RetryPolicy{}, retry.Failed{Attempt: 1, Jitter: math.Inf(1)}, retry.Step{Wait: 5 * time.Second}},
	} {
		t.Run(row.rule, func(t *testing.T) {
			if got := retry.Next(row.policy, row.failed); got != row.want {
				t.Errorf("Next = %+v, want %+v", got, row.want)
			}
		})
	}
}

func TestNext_never_overflows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := hub.RetryPolicy{
			Kind:        rapid.SampledFrom([]hub.RetryKind{"", hub.RetryCurve, hub.RetrySchedule, hub.RetryExponential, "X"}).Draw(t, "kind"),
			StepsMillis: rapid.SliceOfN(rapid.Int64(), 0, 14).Draw(t, "steps"),
			UnitMillis:  rapid.Int64().Draw(t, "unit"), Attempts: rapid.Int32().Draw(t, "attempts"), Elapsed: rapid.Bool().Draw(t, "elapsed"),
		}
		if rapid.Bool().Draw(t, "valid") {
			p = hub.RetryPolicy{Kind: hub.RetryExponential, UnitMillis: rapid.Int64Range(1, 36_000_000).Draw(t, "unit"),
				Attempts: rapid.Int32Range(1, 100).Draw(t, "attempts"), Elapsed: p.Elapsed}
		}
		f := retry.Failed{Attempt: rapid.OneOf(rapid.Int32(), rapid.Int32Range(1, 100), rapid.Just(int32(10_000))).Draw(t, "attempt"),
			StartedAge: time.Duration(rapid.Int64Range(0, 1<<60).Draw(t, "age")), SinceFirstFailure: time.Duration(rapid.Int64Range(0, 1<<60).Draw(t, "since")),
			Jitter: rapid.Float64().Draw(t, "jitter"), RetryAfter: time.Duration(rapid.Int64().Draw(t, "retry after"))}
		s := retry.Next(p, f)
		if s.Wait < 0 || s.Wait > 48*time.Hour || s.Wait%time.Millisecond != 0 && f.RetryAfter == 0 && !p.Elapsed {
			t.Fatalf("%+v", s)
		}
		if s.Dead != "" && s.Wait != 0 {
			t.Fatalf("dead and waiting: %+v", s)
		}
	})
}

// The longest a policy can take from the first attempt to the last.
func TestNext_runs_to_its_documented_end(t *testing.T) {
	for _, row := range []struct {
		rule     string
		policy   hub.RetryPolicy
		attempts int32
		end      time.Duration
		dead     hub.DeadReason
	}{
		{"curve", hub.RetryPolicy{}, 8, 27*time.Hour + 35*time.Minute + 5*time.Second, hub.DeadExhausted},
		{"workfront", retry.Workfront(false), 11, 47*time.Hour + 57*time.Minute + 32_800*time.Millisecond, hub.DeadExhausted},
		{"workfront_elapsed", retry.Workfront(true), 12, 48 * time.Hour, hub.DeadExhausted},
		{"doubling_from_a_millisecond", exponential(time.Millisecond, 100), 28, (1<<28 - 1 - 28) * time.Millisecond, hub.DeadExpired},
	} {
		t.Run(row.rule, func(t *testing.T) {
			at, attempt := retry.First(row.policy, 1), int32(1)
			for {
				s := retry.Next(row.policy, retry.Failed{Attempt: attempt, StartedAge: at, SinceFirstFailure: at, Jitter: 1})
				if s.Dead != "" {
					if attempt != row.attempts || at != row.end || s.Dead != row.dead {
						t.Errorf("ended %s at %v with attempt %d, want %s at %v with %d", s.Dead, at, attempt, row.dead, row.end, row.attempts)
					}
					return
				}
				at, attempt = at+s.Wait, attempt+1
			}
		})
	}
}

func TestFirst_is_the_first_step(t *testing.T) {
	for _, row := range []struct {
		rule   string
		policy hub.RetryPolicy
		want   time.Duration
	}{
		{"curve_starts_at_once", hub.RetryPolicy{}, 0},
		{"schedule_waits_its_first_step", schedule(10*time.Second, time.Minute), 5 * time.Second},
		{"exponential_starts_at_once", retry.Workfront(false), 0},
		{"malformed_schedule_is_the_curve", schedule(10*time.Second, 11*time.Hour), 0},
	} {
		t.Run(row.rule, func(t *testing.T) {
			if got := retry.First(row.policy, 0.5); got != row.want {
				t.Errorf("First = %v, want %v", got, row.want)
			}
		})
	}
}
