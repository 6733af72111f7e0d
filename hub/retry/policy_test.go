package retry_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/streaming-hub/streaming-hub/hub"
	"github.com/streaming-hub/streaming-hub/hub/retry"
)

func TestValidate(t *testing.T) {
	const h = time.Hour
	for _, row := range []struct {
		rule   string
		policy hub.RetryPolicy
		ok     bool
	}{
		{"zero_value", hub.RetryPolicy{}, true},
		{"curve", hub.RetryPolicy{Kind: hub.RetryCurve}, true},
		{"curve_with_steps", hub.RetryPolicy{Kind: hub.RetryCurve, StepsMillis: []int64{1}}, false},
		{"schedule_12_steps_of_10h", schedule(repeated(10*h, 12)...), true},
		{"schedule_13_steps", schedule(repeated(0, 13)...), false},
		{"schedule_empty", schedule(), false},
		{"schedule_step_over_10h", schedule(10*h + time.Millisecond), false},
		{"schedule_negative", schedule(-time.Millisecond), false},
		{"schedule_with_unit", hub.RetryPolicy{Kind: hub.RetrySchedule, StepsMillis: []int64{0}, UnitMillis: 1}, false},
		{"workfront", retry.Workfront(false), true},
		{"workfront_elapsed", retry.Workfront(true), true},
		{"exponential_unit_0", exponential(0, 5), false},
		{"exponential_negative_unit", exponential(-time.Second, 5), false},
		{"exponential_unit_over_10h", exponential(10*h+time.Millisecond, 5), false},
		{"exponential_0_attempts", exponential(time.Second, 0), false},
		{"exponential_101_attempts", exponential(time.Second, 101), false},
		{"exponential_with_steps", hub.RetryPolicy{Kind: hub.RetryExponential, UnitMillis: 1, Attempts: 1, StepsMillis: []int64{0}}, false},
		{"unknown_kind", hub.RetryPolicy{Kind: "LINEAR"}, false},
	} {
		t.Run(row.rule, func(t *testing.T) {
			err := retry.Validate(row.policy)
			if (err == nil) != row.ok {
				t.Errorf("Validate = %v", err)
			}
			p, ok := retry.Effective(row.policy)
			if ok != row.ok || !ok && p.Kind != hub.RetryCurve || retry.Validate(p) != nil {
				t.Errorf("Effective = %+v, %v", p, ok)
			}
		})
	}
}

func TestLimits(t *testing.T) {
	const h = time.Hour
	for _, row := range []struct {
		rule     string
		policy   hub.RetryPolicy
		attempts int32
		age      time.Duration
	}{
		{"curve", hub.RetryPolicy{}, 8, 24 * h},
		{"schedule", schedule(0, h), 2, 24 * h},
		{"long_schedule", schedule(repeated(10*h, 3)...), 3, 30 * h},
		{"workfront", retry.Workfront(false), 11, 48 * h},
		{"workfront_elapsed", retry.Workfront(true), 12, 48 * h},
		{"malformed", schedule(-h), 8, 24 * h},
	} {
		t.Run(row.rule, func(t *testing.T) {
			if a, age := retry.MaxAttempts(row.policy), retry.AgeLimit(row.policy); a != row.attempts || age != row.age {
				t.Errorf("%d attempts, age limit %v", a, age)
			}
		})
	}
}

func TestPreview_of_the_curve(t *testing.T) {
	const s, m, h = time.Second, time.Minute, time.Hour
	want := []retry.PreviewStep{
		{Attempt: 1},
		{Attempt: 2, Latest: 5 * s, Mean: 2500 * time.Millisecond},
		{Attempt: 3, Latest: 5*m + 5*s, Mean: 152_500 * time.Millisecond},
		{Attempt: 4, Latest: 35*m + 5*s, Mean: 17*m + 32_500*time.Millisecond},
		{Attempt: 5, Latest: 2*h + 35*m + 5*s, Mean: 77*m + 32_500*time.Millisecond},
		{Attempt: 6, Latest: 7*h + 35*m + 5*s, Mean: 227*m + 32_500*time.Millisecond},
		{Attempt: 7, Latest: 17*h + 35*m + 5*s, Mean: 527*m + 32_500*time.Millisecond},
		{Attempt: 8, Latest: 27*h + 35*m + 5*s, Mean: 827*m + 32_500*time.Millisecond},
	}
	if diff := cmp.Diff(want, retry.Preview(hub.RetryPolicy{})); diff != "" {
		t.Error(diff)
	}
}

func TestPreview_ends_with_the_last_attempt(t *testing.T) {
	for _, row := range []struct {
		rule   string
		policy hub.RetryPolicy
		last   retry.PreviewStep
	}{
		{"schedule_waits_before_the_first", schedule(time.Minute), retry.PreviewStep{Attempt: 1, Latest: time.Minute, Mean: 30 * time.Second}},
		{"by_age", exponential(10*time.Hour, 100), retry.PreviewStep{Attempt: 4, Earliest: 88 * time.Hour, Latest: 88 * time.Hour, Mean: 88 * time.Hour}},
		{"elapsed_at_48h", retry.Workfront(true), retry.PreviewStep{Attempt: 12, Earliest: 48 * time.Hour, Latest: 48 * time.Hour, Mean: 48 * time.Hour}},
	} {
		t.Run(row.rule, func(t *testing.T) {
			steps := retry.Preview(row.policy)
			if diff := cmp.Diff(row.last, steps[len(steps)-1]); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 11, 29, 10, 0, 0, 500_000_000, time.UTC)
	for _, row := range []struct {
		rule, header string
		want         time.Duration
		ok           bool
	}{
		{"date_is_counted_from_now", "Sun, 29 Nov 2026 10:01:00 GMT", 59_500 * time.Millisecond, true},
		{"wrong_day_name_is_a_date", "Mon, 29 Nov 2026 10:01:00 GMT", 59_500 * time.Millisecond, true},
		{"asctime_with_one_digit_day", "Sun Dec  6 10:00:00 2026", 10 * time.Hour, true},
		{"date_far_away_is_capped", "Fri, 01 Jan 2100 00:00:00 GMT", 10 * time.Hour, true},
		{"half_a_second_ago", "Sun, 29 Nov 2026 10:00:00 GMT", 0, false},
		{"date_with_fraction", "Sun, 29 Nov 2026 10:01:00.5 GMT", 0, false},
		{"date_with_comma_fraction", "Sun, 29 Nov 2026 10:01:00,5 GMT", 0, false},
		{"date_in_another_zone", "Sun, 29 Nov 2026 10:01:00 CET", 0, false},
		{"month_in_capitals", "Sun, 29 NOV 2026 10:01:00 GMT", 0, false},
		{"plus_sign", "+5", 0, false},
		{"digits_and_words", "5 minutes", 0, false},
		{"many_zeros", "0000000000000000000000000000005", 5 * time.Second, true},
		{"word", "soon", 0, false},
	} {
		t.Run(row.rule, func(t *testing.T) {
			got, ok := retry.RetryAfter(503, row.header, now)
			if got != row.want || ok != row.ok {
				t.Errorf("RetryAfter = %v, %v; want %v, %v", got, ok, row.want, row.ok)
			}
		})
	}
	for _, status := range []int32{200, 301, 408, 500, 502, 504, 0} {
		if _, ok := retry.RetryAfter(status, "5", now); ok {
			t.Errorf("Retry-After counts on status %d", status)
		}
	}
}
