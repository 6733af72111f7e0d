package health_test

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/streaming-hub/streaming-hub/hub"
	"github.com/streaming-hub/streaming-hub/hub/health"
)

const tenMinutes = 10 * time.Minute

func TestRate_State(t *testing.T) {
	const h = time.Hour
	now := start
	for _, row := range []struct {
		rule string
		rate health.Rate
		age  time.Duration // of the last success
		want health.RateState
	}{
		{"nothing_yet", health.Rate{}, 0, health.Active},
		{"100_attempts_all_failed", health.Rate{Attempts: 100, Failures: 100}, 0, health.Active},
		{"101_attempts_all_failed", health.Rate{Attempts: 101, Failures: 101}, 0, health.Disabled},
		{"70_percent_exactly", health.Rate{Attempts: 1_000, Failures: 700}, 0, health.Active},
		{"a_little_above_70_percent", health.Rate{Attempts: 1_000, Failures: 701}, 0, health.Disabled},
		{"row_1999", health.Rate{Attempts: 10_000, Failures: 1_999, Row: 1_999}, 100 * h, health.Active},
		{"row_2000", health.Rate{Attempts: 10_000, Failures: 2_000, Row: 2_000}, 100 * h, health.Disabled},
		{"row_2001_at_72h", health.Rate{Attempts: 10_000, Failures: 2_001, Row: 2_001}, 72 * h, health.Disabled},
		{"row_2001_past_72h", health.Rate{Attempts: 10_000, Failures: 2_001, Row: 2_001}, 72*h + 1, health.Frozen},
		{"row_2000_past_72h", health.Rate{Attempts: 10_000, Failures: 2_000, Row: 2_000}, 1000 * h, health.Disabled},
		{"row_49999", health.Rate{Attempts: 1_000_000, Failures: 49_999, Row: 49_999}, h, health.Disabled},
		{"row_50000", health.Rate{Attempts: 1_000_000, Failures: 50_000, Row: 50_000}, h, health.Frozen},
		{"frozen_outranks_disabled", health.Rate{Attempts: 50_000, Failures: 50_000, Row: 50_000}, h, health.Frozen},
		{"frozen_lasts", health.Rate{Judged: health.Frozen}, 0, health.Frozen},
		{"disabled_lasts", health.Rate{Attempts: 10, Judged: health.Disabled}, 0, health.Disabled},
		{"70_percent_exactly_of_more_than_can_be_multiplied", health.Rate{Attempts: math.MaxInt64 / 10 * 10, Failures: math.MaxInt64 / 10 * 7}, 0, health.Active},
		{"a_little_above_that", health.Rate{Attempts: math.MaxInt64 / 10 * 10, Failures: math.MaxInt64/10*7 + 1}, 0, health.Disabled},
		{"all_that_can_be_counted_failed", health.Rate{Attempts: math.MaxInt64, Failures: math.MaxInt64}, 0, health.Disabled},
		{"disabled_becomes_frozen", health.Rate{Row: 2_001, Judged: health.Disabled}, 73 * h, health.Frozen},
	} {
		t.Run(row.rule, func(t *testing.T) {
			row.rate.LastSuccessAt = now.Add(-row.age)
			if got := row.rate.State(now, health.Workfront()); got != row.want {
				t.Errorf("State = %s, want %s", got, row.want)
			}
			if got := row.rate.State(now, health.RateSettings{}); got != row.want {
				t.Errorf("with malformed settings State = %s, want %s", got, row.want)
			}
		})
	}
	if got := (health.Rate{Row: 2_001}).State(now, health.Workfront()); got != health.Disabled {
		t.Errorf("without any time State = %s; an unknown age freezes nothing", got)
	}
}

func TestRate_After(t *testing.T) {
	const F, S, N = health.Failed, health.Succeeded, health.Neutral
	created, before, now := start.Add(-time.Hour), start.Add(-time.Minute), start
	disabled := health.Rate{Attempts: 200, Failures: 200, Row: 200, LastSuccessAt: created, Judged: health.Disabled, JudgedAt: before, NextTryAt: now}
	frozen := health.Rate{Attempts: 50_000, Failures: 50_000, Row: 50_000, LastSuccessAt: created, Judged: health.Frozen, JudgedAt: before}
	for _, row := range []struct {
		rule string
		from health.Rate
		o    health.Outcome
		try  bool
		want health.Rate
	}{
		{"failure_counts", health.NewRate(created), F, false, health.Rate{Attempts: 1, Failures: 1, Row: 1, LastSuccessAt: created}},
		{"success_ends_the_row", health.Rate{Attempts: 9, Failures: 9, Row: 9, LastSuccessAt: created}, S, false, health.Rate{Attempts: 10, Failures: 9, LastSuccessAt: now}},
		{"our_fault_leaves_it_untouched", disabled, N, true, disabled},
		{"disabled_begins_with_a_wait", health.Rate{Attempts: 100, Failures: 100, Row: 100, LastSuccessAt: created}, F, false,
			health.Rate{Attempts: 101, Failures: 101, Row: 101, LastSuccessAt: created, Judged: health.Disabled, JudgedAt: now, NextTryAt: now.Add(tenMinutes)}},
		{"also_when_a_success_passes_100_attempts", health.Rate{Attempts: 100, Failures: 90, LastSuccessAt: created}, S, false,
			health.Rate{Attempts: 101, Failures: 90, LastSuccessAt: now, Judged: health.Disabled, JudgedAt: now, NextTryAt: now.Add(tenMinutes)}},
		{"success_of_the_try_enables", disabled, S, true, health.Rate{LastSuccessAt: now, JudgedAt: now}},
		{"failure_of_the_try_restarts_the_wait", disabled, F, true,
			health.Rate{Attempts: 201, Failures: 201, Row: 201, LastSuccessAt: created, Judged: health.Disabled, JudgedAt: before, NextTryAt: now.Add(tenMinutes)}},
		{"straggler_that_fails_moves_no_wait", disabled, F, false,
			health.Rate{Attempts: 201, Failures: 201, Row: 201, LastSuccessAt: created, Judged: health.Disabled, JudgedAt: before, NextTryAt: now}},
		{"straggler_that_succeeds_enables_nothing", disabled, S, false,
			health.Rate{Attempts: 201, Failures: 200, LastSuccessAt: now, Judged: health.Disabled, JudgedAt: before, NextTryAt: now}},
		{"success_thaws_nothing", frozen, S, true, health.Rate{Attempts: 50_001, Failures: 50_000, LastSuccessAt: now, Judged: health.Frozen, JudgedAt: before}},
	} {
		t.Run(row.rule, func(t *testing.T) {
			if diff := cmp.Diff(row.want, row.from.After(row.o, row.try, now, health.Workfront())); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestRate_Judge_freezes_by_time_alone(t *testing.T) {
	r := health.Rate{Attempts: 3_000, Failures: 2_001, Row: 2_001, LastSuccessAt: start, Judged: health.Disabled, JudgedAt: start, NextTryAt: start.Add(tenMinutes)}
	if got := r.Judge(start.Add(72*time.Hour), health.Workfront()); got != r {
		t.Errorf("after 72 h: %+v", got)
	}
	at := start.Add(72*time.Hour + time.Second)
	want := r
	want.Judged, want.JudgedAt, want.NextTryAt = health.Frozen, at, time.Time{}
	if diff := cmp.Diff(want, r.Judge(at, health.Workfront())); diff != "" {
		t.Error(diff)
	}
}

func TestRate_Enabled(t *testing.T) {
	now := start.Add(time.Hour)
	active := health.Rate{Attempts: 50, Failures: 49, Row: 49, LastSuccessAt: start}
	if got := active.Enabled(now); got != active {
		t.Errorf("enabling an ACTIVE one changed it: %+v", got)
	}
	for _, state := range []health.RateState{health.Disabled, health.Frozen} {
		r := health.Rate{Attempts: 60_000, Failures: 60_000, Row: 60_000, LastSuccessAt: start, Judged: state, JudgedAt: start, NextTryAt: now}.Enabled(now)
		if diff := cmp.Diff(health.Rate{LastSuccessAt: start, JudgedAt: now}, r); diff != "" {
			t.Errorf("%s: %s", state, diff)
		}
		if r = r.After(health.Failed, false, now, health.Workfront()); r.State(now, health.Workfront()) != health.Active {
			t.Errorf("%s: one failure after enabling disables it again: %+v", state, r)
		}
	}
}

func TestRate_Repolicied(t *testing.T) {
	now := start.Add(time.Hour)
	span, rate := hub.FailurePolicy{Kind: hub.FailureSpan}, hub.FailurePolicy{Kind: hub.FailureRate}
	soon := rate
	soon.TryEveryMillis = time.Minute.Milliseconds()
	counted := health.Rate{Attempts: 60, Failures: 50, Row: 40, LastSuccessAt: start}
	disabled := health.Rate{Attempts: 200, Failures: 200, Row: 200, LastSuccessAt: start, Judged: health.Disabled, JudgedAt: start, NextTryAt: now.Add(9 * time.Minute)}
	frozen := health.Rate{Attempts: 50_000, Failures: 50_000, Row: 50_000, LastSuccessAt: start, Judged: health.Frozen, JudgedAt: start}
	sooner := disabled
	sooner.NextTryAt = now.Add(time.Minute)
	anew := health.Rate{LastSuccessAt: now, JudgedAt: now}
	for _, row := range []struct {
		rule    string
		from    health.Rate
		was, is hub.FailurePolicy
		want    health.Rate
	}{
		{"frozen_is_dropped_with_its_policy", frozen, rate, span, anew},
		{"disabled_is_dropped_with_its_policy", disabled, rate, span, anew},
		{"counts_are_dropped_with_their_policy", counted, rate, span, anew},
		{"no_kind_is_the_policy_of_spans", frozen, rate, hub.FailurePolicy{}, anew},
		{"an_age_of_the_last_success_begins_with_the_policy", health.NewRate(start), span, rate, anew},
		{"other_thresholds_switch_nothing_on", frozen, rate, soon, frozen},
		{"other_thresholds_forget_no_counts", counted, rate, soon, counted},
		{"a_shorter_wait_counts_at_once", disabled, rate, soon, sooner},
		{"a_longer_wait_begins_with_the_next_try", sooner, soon, rate, sooner},
	} {
		t.Run(row.rule, func(t *testing.T) {
			if diff := cmp.Diff(row.want, row.from.Repolicied(row.was, row.is, now)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// Counters end at the largest number and do not become negative.
func TestRate_counters_end_at_the_largest_number(t *testing.T) {
	full := health.Rate{Attempts: math.MaxInt64, Failures: math.MaxInt64, Row: math.MaxInt64, LastSuccessAt: start}
	all := health.RateDelta{Attempts: math.MaxInt64, Failures: math.MaxInt64, Row: math.MaxInt64}
	more := health.RateDelta{Attempts: 5, Failures: 5, Row: 5}
	for rule, r := range map[string]health.Rate{
		"after_one_more":  full.After(health.Failed, false, start, health.Workfront()),
		"after_a_sum":     full.Apply(more, start, health.Workfront()),
		"after_two_sums":  health.NewRate(start).Apply(all.Then(more), start, health.Workfront()),
		"after_a_success": full.After(health.Succeeded, false, start, health.Workfront()),
	} {
		if r.Attempts != math.MaxInt64 || r.Failures != math.MaxInt64 || r.Judged == "" {
			t.Errorf("%s it is %+v", rule, r)
		}
	}
	span := health.Span{FirstFailureAt: start, LastFailureAt: start, FailureCount: math.MaxInt64}
	if got := span.After(health.Failed, start); got != span {
		t.Errorf("a span becomes %+v", got)
	}
	if got := span.Apply(health.SpanDelta{Failures: span}); got != span {
		t.Errorf("with a sum a span becomes %+v", got)
	}
}

func TestRate_TakeTry(t *testing.T) {
	s := health.Workfront()
	r := health.Rate{Attempts: 200, Failures: 200, Row: 200, LastSuccessAt: start}.Judge(start, s)
	due := start.Add(tenMinutes)
	if at, ok := r.TryDue(start, s); !ok || !at.Equal(due) {
		t.Errorf("TryDue = %v, %v", at, ok)
	}
	if _, ok := r.TakeTry(due.Add(-1), s); ok {
		t.Error("a try before its time")
	}
	taken, ok := r.TakeTry(due, s)
	if !ok || !taken.NextTryAt.Equal(due.Add(tenMinutes)) {
		t.Errorf("TakeTry = %+v, %v", taken, ok)
	}
	if _, ok := taken.TakeTry(due, s); ok {
		t.Error("two tries at once")
	}
	if at, ok := taken.TryDue(due.Add(tenMinutes), s); !ok || !at.Equal(due.Add(tenMinutes)) {
		t.Errorf("a try that never ended blocks the next: %v, %v", at, ok)
	}
	r.NextTryAt = start.Add(1000 * time.Hour)
	if at, ok := r.TryDue(start, s); !ok || !at.Equal(start) {
		t.Errorf("a wait longer than any is due: %v, %v", at, ok)
	}
	if at, ok := health.NewRate(start).TryDue(start, s); !ok || !at.Equal(start) {
		t.Errorf("ACTIVE: %v, %v", at, ok)
	}
	if _, ok := health.NewRate(start).TakeTry(start, s); ok {
		t.Error("an ACTIVE URL needs no try")
	}
	frozen := health.Rate{Row: 50_000, LastSuccessAt: start}
	if _, ok := frozen.TryDue(start.Add(10_000*time.Hour), s); ok {
		t.Error("FROZEN is tried")
	}
	if _, ok := frozen.TakeTry(start, s); ok {
		t.Error("FROZEN gives a try")
	}
}

// Any sequence of outcomes, tries, sweeps and enablings against the list of
// what happened since the last enabling.
func TestRate_is_the_count_since_the_last_enabling(t *testing.T) {
	s := health.RateSettings{Percent: 70, MinAttempts: 10, DisableRow: 6, FreezeRow: 6, FreezeAge: time.Hour, FreezeAnyRow: 12, TryEvery: time.Minute}
	rapid.Check(t, func(t *rapid.T) {
		now, success := start, start
		r := health.NewRate(start)
		var failed []bool
		state := health.Active
		judge := func() {
			row, failures := int64(0), 0
			for _, f := range failed {
				row++
				if f {
					failures++
				} else {
					row = 0
				}
			}
			switch {
			case row >= 12, row > 6 && now.Sub(success) > time.Hour:
				state = health.Frozen
			case state == health.Frozen:
			case row >= 6, len(failed) > 10 && float64(failures)/float64(len(failed)) > 0.7:
				state = health.Disabled
			}
		}
		for range rapid.IntRange(0, 60).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(0, 600).Draw(t, "seconds")) * time.Second)
			switch step := rapid.SampledFrom([]string{"fail", "fail", "fail", "fail", "ok", "try fails", "try succeeds", "sweep", "enable"}).Draw(t, "step"); step {
			case "fail", "try fails":
				r = r.After(health.Failed, step == "try fails", now, s)
				failed = append(failed, true)
			case "ok", "try succeeds":
				enables := step == "try succeeds" && state == health.Disabled
				r = r.After(health.Succeeded, step == "try succeeds", now, s)
				success, failed = now, append(failed, false)
				if enables {
					state, failed = health.Active, nil
				}
			case "sweep":
				r = r.Judge(now, s)
			case "enable":
				r = r.Enabled(now)
				if state != health.Active {
					state, failed = health.Active, nil
				}
			}
			judge()
			if got := r.State(now, s); got != state {
				t.Fatalf("State = %s, want %s after %v", got, state, failed)
			}
			r = r.Judge(now, s)
			if (r.Judged == health.Disabled) == r.NextTryAt.IsZero() {
				t.Fatalf("%s with a next try at %v", r.Judged, r.NextTryAt)
			}
		}
	})
}

func TestRateSettings_Validate(t *testing.T) {
	for _, row := range []struct {
		rule   string
		change func(*health.RateSettings)
		ok     bool
	}{
		{"preset", func(*health.RateSettings) {}, true},
		{"zero", func(s *health.RateSettings) { *s = health.RateSettings{} }, false},
		{"percent_0", func(s *health.RateSettings) { s.Percent = 0 }, false},
		{"percent_100", func(s *health.RateSettings) { s.Percent = 100 }, true},
		{"percent_101", func(s *health.RateSettings) { s.Percent = 101 }, false},
		{"negative_attempts", func(s *health.RateSettings) { s.MinAttempts = -1 }, false},
		{"row_0", func(s *health.RateSettings) { s.DisableRow = 0 }, false},
		{"freeze_row_0", func(s *health.RateSettings) { s.FreezeRow = 0 }, false},
		{"freeze_any_row_0", func(s *health.RateSettings) { s.FreezeAnyRow = 0 }, false},
		{"no_age", func(s *health.RateSettings) { s.FreezeAge = 0 }, false},
		{"try_in_less_than_a_second", func(s *health.RateSettings) { s.TryEvery = time.Second - 1 }, false},
	} {
		t.Run(row.rule, func(t *testing.T) {
			s := health.Workfront()
			row.change(&s)
			if err := s.Validate(); (err == nil) != row.ok {
				t.Errorf("Validate = %v", err)
			}
		})
	}
}
