package health_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/streaming-hub/streaming-hub/hub"
	"github.com/streaming-hub/streaming-hub/hub/health"
)

// span has its first failure at start and its last one spread later.
func span(spread time.Duration) health.Span {
	return health.Span{FirstFailureAt: start, LastFailureAt: start.Add(spread), FailureCount: 2}
}

func TestSpan_Verdict(t *testing.T) {
	const h, s = time.Hour, time.Second
	trips := start.Add(120 * h)
	short := health.SpanSettings{Window: time.Minute, Spread: 10 * s}
	for _, row := range []struct {
		rule     string
		span     health.Span
		age      time.Duration // now − first failure
		settings health.SpanSettings
		want     health.Verdict
	}{
		{"no_span", health.Span{}, 1000 * h, health.DefaultSpan(), health.Verdict{}},
		{"sustained_119_59_59", span(12 * h), 120*h - s, health.DefaultSpan(), health.Verdict{Spread: true, WouldTripAt: trips, Mark: 90}},
		{"sustained_120_00_00", span(12 * h), 120 * h, health.DefaultSpan(), health.Verdict{Sustained: true, Spread: true, Trips: true, WouldTripAt: trips, Mark: 90}},
		{"spread_11_59_59", span(12*h - s), 500 * h, health.DefaultSpan(), health.Verdict{Sustained: true}},
		{"spread_12_00_00", span(12 * h), 500 * h, health.DefaultSpan(), health.Verdict{Sustained: true, Spread: true, Trips: true, WouldTripAt: trips, Mark: 90}},
		{"never_without_spread", span(0), 119 * h, health.DefaultSpan(), health.Verdict{}},
		{"failure_that_brings_the_spread_trips", span(130 * h), 130 * h, health.DefaultSpan(), health.Verdict{Sustained: true, Spread: true, Trips: true, WouldTripAt: trips, Mark: 90}},
		{"before_the_first_mark", span(12 * h), 60*h - s, health.DefaultSpan(), health.Verdict{Spread: true, WouldTripAt: trips}},
		{"mark_50_at_60h", span(12 * h), 60 * h, health.DefaultSpan(), health.Verdict{Spread: true, WouldTripAt: trips, Mark: 50}},
		{"mark_50_until_90h", span(12 * h), 90*h - s, health.DefaultSpan(), health.Verdict{Spread: true, WouldTripAt: trips, Mark: 50}},
		{"mark_75_at_90h", span(12 * h), 90 * h, health.DefaultSpan(), health.Verdict{Spread: true, WouldTripAt: trips, Mark: 75}},
		{"mark_90_at_108h", span(12 * h), 108 * h, health.DefaultSpan(), health.Verdict{Spread: true, WouldTripAt: trips, Mark: 90}},
		{"unspread_span_warns_nobody", span(11 * h), 119 * h, health.DefaultSpan(), health.Verdict{}},
		{"clock_before_the_failure", span(12 * h), -h, health.DefaultSpan(), health.Verdict{Spread: true, WouldTripAt: trips}},
		{"other_settings", span(10 * s), time.Minute, short, health.Verdict{Sustained: true, Spread: true, Trips: true, WouldTripAt: start.Add(time.Minute), Mark: 90}},
		{"zero_settings_are_the_default", span(11 * h), 500 * h, health.SpanSettings{}, health.Verdict{Sustained: true}},
		{"malformed_settings_are_the_default", span(11 * h), 500 * h, health.SpanSettings{Window: h, Spread: 2 * h}, health.Verdict{Sustained: true}},
	} {
		t.Run(row.rule, func(t *testing.T) {
			if diff := cmp.Diff(row.want, row.span.Verdict(start.Add(row.age), row.settings)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestSpan_After(t *testing.T) {
	const F, S, N = health.Failed, health.Succeeded, health.Neutral
	type step struct {
		o      health.Outcome
		second int64
	}
	is := func(first, last, count int64) health.Span {
		return health.Span{FirstFailureAt: seconds(first), LastFailureAt: seconds(last), FailureCount: count}
	}
	for _, row := range []struct {
		rule  string
		steps []step
		want  health.Span
	}{
		{"failure_opens", []step{{F, 5}}, is(5, 5, 1)},
		{"failure_extends", []step{{F, 5}, {F, 9}, {F, 9}}, is(5, 9, 3)},
		{"success_clears", []step{{F, 5}, {F, 9}, {S, 9}}, health.Span{}},
		{"success_without_a_span", []step{{S, 9}}, health.Span{}},
		{"next_failure_opens_a_new_one", []step{{F, 5}, {S, 9}, {F, 11}}, is(11, 11, 1)},
		{"our_fault_leaves_it_untouched", []step{{F, 5}, {N, 9}}, is(5, 5, 1)},
		{"late_failure_moves_the_first_back", []step{{F, 9}, {F, 5}}, is(5, 9, 2)},
		{"late_success_before_the_span_is_no_news", []step{{F, 9}, {S, 5}}, is(9, 9, 1)},
		{"late_success_within_leaves_the_last_failure", []step{{F, 5}, {F, 7}, {F, 11}, {S, 9}}, is(11, 11, 1)},
	} {
		t.Run(row.rule, func(t *testing.T) {
			var sp health.Span
			for _, s := range row.steps {
				sp = sp.After(s.o, seconds(s.second))
			}
			if diff := cmp.Diff(row.want, sp); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// The verdict against the sentence of the rule, on the whole list of outcomes;
// and a later look sees exactly what WouldTripAt said.
func TestSpan_is_the_unbroken_run_of_failures(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var sp health.Span
		var run []time.Time // failures since the last success
		now := start
		for range rapid.IntRange(0, 30).Draw(t, "outcomes") {
			now = now.Add(time.Duration(rapid.Int64Range(0, 40*3600).Draw(t, "seconds")) * time.Second)
			o := rapid.SampledFrom([]health.Outcome{health.Failed, health.Failed, health.Failed, health.Neutral, health.Succeeded}).Draw(t, "outcome")
			sp = sp.After(o, now)
			switch o {
			case health.Failed:
				run = append(run, now)
			case health.Succeeded:
				run = nil
			}
		}
		if sp.FailureCount != int64(len(run)) {
			t.Fatalf("%d failures, want %d", sp.FailureCount, len(run))
		}
		trips := func(at time.Time) bool {
			return len(run) > 0 && at.Sub(run[0]) >= 120*time.Hour && run[len(run)-1].Sub(run[0]) >= 12*time.Hour
		}
		later := now.Add(time.Duration(rapid.Int64Range(0, 200*3600).Draw(t, "later")) * time.Second)
		v := sp.Verdict(later, health.DefaultSpan())
		if v.Trips != trips(later) {
			t.Fatalf("Verdict = %+v, want trips %v", v, trips(later))
		}
		if v.WouldTripAt.IsZero() {
			if trips(now.Add(10_000 * time.Hour)) {
				t.Fatal("it trips some day, and the verdict says never")
			}
			return
		}
		if v.Trips == v.WouldTripAt.After(later) || !trips(v.WouldTripAt) || trips(v.WouldTripAt.Add(-1)) {
			t.Fatalf("WouldTripAt = %v at %v", v.WouldTripAt, later)
		}
	})
}

func TestSpanSettings_Validate(t *testing.T) {
	const h = time.Hour
	for _, row := range []struct {
		rule     string
		settings health.SpanSettings
		ok       bool
	}{
		{"preset", health.DefaultSpan(), true},
		{"zero", health.SpanSettings{}, false},
		{"spread_0", health.SpanSettings{Window: h}, true},
		{"spread_is_the_window", health.SpanSettings{Window: h, Spread: h}, true},
		{"spread_above_the_window", health.SpanSettings{Window: h, Spread: h + 1}, false},
		{"negative_window", health.SpanSettings{Window: -h, Spread: -2 * h}, false},
		{"negative_spread", health.SpanSettings{Window: h, Spread: -1}, false},
	} {
		t.Run(row.rule, func(t *testing.T) {
			if err := row.settings.Validate(); (err == nil) != row.ok {
				t.Errorf("Validate = %v", err)
			}
		})
	}
}

func TestOutcomeOf(t *testing.T) {
	for _, row := range []struct {
		rule   string
		class  hub.ErrorClass
		replay bool
		want   health.Outcome
	}{
		{"success", "", false, health.Succeeded},
		{"any_status_fails", hub.ErrStatus, false, health.Failed},
		{"timeout", hub.ErrTimeout, false, health.Failed},
		{"dns", hub.ErrDNS, false, health.Failed},
		{"connect", hub.ErrConnect, false, health.Failed},
		{"tls", hub.ErrTLS, false, health.Failed},
		{"protocol", hub.ErrProtocol, false, health.Failed},
		{"reset", hub.ErrReset, false, health.Failed},
		{"refused_address_counts_nowhere", hub.ErrBlocked, false, health.Neutral},
		{"no_key_counts_nowhere", hub.ErrNoSecret, false, health.Neutral},
		{"shutdown_counts_nowhere", hub.ErrCancelled, false, health.Neutral},
		{"replay_that_fails_feeds_nothing", hub.ErrStatus, true, health.Neutral},
		{"replay_that_succeeds_counts", "", true, health.Succeeded},
	} {
		t.Run(row.rule, func(t *testing.T) {
			if got := health.OutcomeOf(row.class, row.replay); got != row.want {
				t.Errorf("OutcomeOf = %v, want %v", got, row.want)
			}
		})
	}
}
