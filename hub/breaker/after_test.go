package breaker_test

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/streaming-hub/streaming-hub/hub"
	"github.com/streaming-hub/streaming-hub/hub/breaker"
)

// play gives a state outcomes of its own generation, one a second: F, S and
// N for a failure, a success and a neutral one.
func play(s breaker.State, word string, from time.Time) breaker.State {
	kinds := map[rune]breaker.Kind{'F': breaker.Failed, 'S': breaker.Succeeded, 'N': breaker.Neutral}
	for i, c := range word {
		s = breaker.After(s, breaker.Outcome{Kind: kinds[c], Generation: s.Generation}, from.Add(time.Duration(i)*time.Second))
	}
	return s
}

func TestAfter_opens(t *testing.T) {
	for _, row := range []struct {
		rule, outcomes string
		want           breaker.Cause
	}{
		{"row_of_4", "FFFF", ""},
		{"row_of_5", "FFFFF", breaker.CauseRow},
		{"success_ends_the_row", "FFFFSFFFF", ""},
		{"neutral_does_not_end_it", "FFFFNF", breaker.CauseRow},
		{"neutral_does_not_count", "NNNNNNNNNN", ""},
		{"half_of_9", "FSFSFSFSF", ""},
		{"half_of_10", "SFSFSFSFSF", breaker.CauseRatio},
		{"4_of_10", "SFSFSFSFSS", ""},
		{"success_as_the_10th_opens_nothing", "FSFSFSFSFS", ""},
		{"next_failure_then_does", "FSFSFSFSFSF", breaker.CauseRatio},
		{"neutral_is_no_10th", "FSFSFSFSFN", ""},
		{"ratio_before_row", "FFFFSFFFFF", breaker.CauseRatio},
	} {
		t.Run(row.rule, func(t *testing.T) {
			s := play(breaker.State{}, row.outcomes, start)
			if s.Cause != row.want || (s.Phase == breaker.Open) != (row.want != "") {
				t.Errorf("%s, cause %q, want %q", s.Phase, s.Cause, row.want)
			}
		})
	}
}

func TestAfter_opens_for_30s(t *testing.T) {
	s := tripped()
	want := breaker.State{Phase: breaker.Open, Generation: 1, Failures: 5, Window: s.Window, Cause: breaker.CauseRow,
		OpenedAt: start, OpenFor: 30 * time.Second, NextProbeAt: start.Add(30 * time.Second)}
	if diff := cmp.Diff(want, s); diff != "" {
		t.Error(diff)
	}
}

func TestAfter_probe(t *testing.T) {
	const s = time.Second
	half, now := probing(t), start.Add(31*s)
	edit := func(change func(*breaker.State)) breaker.State {
		next := half
		next.Phase, next.Probe = breaker.Open, breaker.Probe{}
		change(&next)
		return next
	}
	failed := func(openFor, wait time.Duration) breaker.State {
		return edit(func(n *breaker.State) { n.Failures, n.OpenFor, n.NextProbeAt = 6, openFor, now.Add(wait) })
	}
	closed := breaker.State{Phase: breaker.Closed, Generation: 2, ClosedAt: now, RampLimit: 1}
	for _, row := range []struct {
		rule string
		o    breaker.Outcome
		want breaker.State
	}{
		{"success_closes", breaker.Outcome{Kind: breaker.Succeeded, Generation: 1, Probe: attemptNo(1)}, closed},
		{"failure_doubles_the_wait", breaker.Outcome{Kind: breaker.Failed, Generation: 1, Probe: attemptNo(1)}, failed(60*s, 60*s)},
		{"retry_after_is_a_lower_bound", breaker.Outcome{Kind: breaker.Failed, Generation: 1, Probe: attemptNo(1), RetryAfter: 90 * s}, failed(60*s, 90*s)},
		{"retry_after_does_not_shorten", breaker.Outcome{Kind: breaker.Failed, Generation: 1, Probe: attemptNo(1), RetryAfter: s}, failed(60*s, 60*s)},
		{"retry_after_has_a_cap", breaker.Outcome{Kind: breaker.Failed, Generation: 1, Probe: attemptNo(1), RetryAfter: 10 * time.Hour}, failed(60*s, 600*s)},
		{"neutral_frees_the_probe", breaker.Outcome{Generation: 1, Probe: attemptNo(1)}, edit(func(n *breaker.State) { n.NextProbeAt = now.Add(s) })},
		{"failure_of_a_replaced_probe_doubles_nothing", breaker.Outcome{Kind: breaker.Failed, Generation: 1, Probe: attemptNo(2)},
			func() breaker.State { n := half; n.Failures = 6; return n }()},
		{"neutral_replaced_probe_frees_nothing", breaker.Outcome{Generation: 1, Probe: attemptNo(2)}, half},
		{"success_of_a_replaced_probe_closes", breaker.Outcome{Kind: breaker.Succeeded, Generation: 1, Probe: attemptNo(2)}, closed},
		{"success_of_a_last_attempt_closes", breaker.Outcome{Kind: breaker.Succeeded, Generation: 1}, closed},
		{"failure_of_a_last_attempt_only_counts", breaker.Outcome{Kind: breaker.Failed, Generation: 1}, func() breaker.State { n := half; n.Failures = 6; return n }()},
	} {
		t.Run(row.rule, func(t *testing.T) {
			if diff := cmp.Diff(row.want, breaker.After(half, row.o, now)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestAfter_wait_doubles_to_10_minutes_and_begins_anew(t *testing.T) {
	s, now := tripped(), start
	for _, want := range []time.Duration{30, 60, 120, 240, 480, 600, 600, 600} {
		want *= time.Second
		if wait := s.NextProbeAt.Sub(now); wait != want {
			t.Errorf("wait %v, want %v", wait, want)
		}
		now = s.NextProbeAt
		s, _ = breaker.TakeProbe(s, attemptNo(1), now)
		s = breaker.After(s, breaker.Outcome{Kind: breaker.Failed, Generation: s.Generation, Probe: attemptNo(1)}, now)
	}
	if !s.OpenedAt.Equal(start) || s.Generation != 1 {
		t.Errorf("failed probes changed the opening: %+v", s)
	}
	s = breaker.After(s, breaker.Outcome{Kind: breaker.Succeeded, Generation: s.Generation}, now)
	if s = fail(s, 5, now); s.OpenFor != breaker.FirstOpen {
		t.Errorf("the next opening waits %v", s.OpenFor)
	}
}

// Twenty slow requests began before the circuit opened and fail after a probe
// has closed it again.
func TestAfter_old_failures_do_not_open_a_healed_circuit(t *testing.T) {
	s := breaker.After(probing(t), breaker.Outcome{Kind: breaker.Succeeded, Generation: 1, Probe: attemptNo(1)}, start.Add(31*time.Second))
	healed := s
	for range 20 {
		s = breaker.After(s, breaker.Outcome{Kind: breaker.Failed, Generation: 0}, start.Add(33*time.Second))
		s = breaker.After(s, breaker.Outcome{Kind: breaker.Failed, Generation: 1}, start.Add(33*time.Second))
	}
	if diff := cmp.Diff(healed, s); diff != "" {
		t.Error(diff)
	}
}

func TestApply(t *testing.T) {
	now := start.Add(time.Second)
	sum := func(outcomes ...breaker.Outcome) (d breaker.Delta) {
		for _, o := range outcomes {
			d = d.Add(o, now)
		}
		return d
	}
	F := func(generation int64) breaker.Outcome {
		return breaker.Outcome{Kind: breaker.Failed, Generation: generation}
	}
	S := func(generation int64) breaker.Outcome {
		return breaker.Outcome{Kind: breaker.Succeeded, Generation: generation}
	}
	byRow := tripped()
	byRatio := play(breaker.State{}, "SFSFSFSFSF", start)
	for _, row := range []struct {
		rule     string
		stored   breaker.State
		delta    breaker.Delta
		phase    breaker.Phase
		failures int32
	}{
		{"failures_of_replicas_add_up", fail(breaker.State{}, 3, start), sum(F(0), F(0)), breaker.Open, 5},
		{"success_of_any_replica_resets", fail(breaker.State{}, 4, start), sum(S(0), F(0)), "", 1},
		{"a_sum_is_judged_by_its_end", breaker.State{}, sum(F(0), F(0), F(0), F(0), F(0), S(0)), "", 0},
		{"a_sum_that_ends_with_5", breaker.State{}, sum(S(0), F(0), F(0), F(0), F(0), F(0)), breaker.Open, 5},
		{"empty_changes_nothing", byRow, breaker.Delta{}, breaker.Open, 5},
		{"failures_of_an_older_generation_are_nothing", fail(breaker.State{Generation: 3}, 4, start), sum(F(2)), "", 4},
		{"success_of_an_older_generation_resets", fail(breaker.State{Generation: 3}, 4, start), sum(S(2)), "", 0},
		{"old_success_breaks_a_row", byRow, sum(S(0)), breaker.Closed, 0},
		{"old_success_before_a_failure_breaks_none", byRow, sum(S(0), F(0)), breaker.Open, 5},
		{"old_success_proves_nothing_against_a_ratio", byRatio, sum(S(0)), breaker.Open, 1},
		{"new_success_closes_a_ratio", byRatio, sum(S(1)), breaker.Closed, 0},
		{"success_closes_whatever_failed_after_it", byRatio, sum(S(1), F(1)), breaker.Closed, 0},
		{"failures_while_open_are_counted", byRow, sum(F(1), F(1)), breaker.Open, 7},
		{"new_generation_forgets_the_old_failures", fail(breaker.State{Generation: 1}, 1, start), sum(F(0), F(0), F(0), F(0), F(1)), "", 2},
		{"late_old_failure_is_not_summed", fail(breaker.State{Generation: 1}, 1, start), sum(F(1), F(0), F(0), F(0), F(0)), "", 2},
	} {
		t.Run(row.rule, func(t *testing.T) {
			row.stored.Version = 12
			got := breaker.Apply(row.stored, row.delta, now)
			if got.Phase != row.phase || got.Failures != row.failures || got.Version != 12 {
				t.Errorf("Apply = %+v", got)
			}
			if breaker.Moved(row.stored, got) != (got.Phase != row.stored.Phase) {
				t.Errorf("Moved = %v", breaker.Moved(row.stored, got))
			}
		})
	}
	if !sum().Empty() || !sum(breaker.Outcome{}).Empty() || sum(F(0)).Empty() || sum(S(0)).Empty() {
		t.Error("Empty is wrong")
	}
}

func TestRamp(t *testing.T) {
	closed := breaker.State{Phase: breaker.Closed, Generation: 2, ClosedAt: start, RampLimit: 1}
	if got := breaker.Ramp(breaker.State{}); got != 0 {
		t.Errorf("a circuit that never opened allows %d", got)
	}
	if got := breaker.Ramp(tripped()); got != 1 {
		t.Errorf("an open circuit allows %d last attempts at a time", got)
	}
	// Rounds of as many successes as there may be attempts.
	s := closed
	for _, want := range []int{1, 2, 4, 8, 16, 32, 0, 0} {
		got := breaker.Ramp(s)
		if got != want {
			t.Fatalf("Ramp = %d, want %d", got, want)
		}
		for range max(got, 1) {
			s = breaker.After(s, breaker.Outcome{Kind: breaker.Succeeded, Generation: 2}, start)
		}
	}
	for _, row := range []struct {
		rule, outcomes string
		want           int
	}{
		{"success_adds_one", "SSS", 4},
		{"neutral_adds_none", "SSN", 3},
		{"failure_begins_anew", "SSSSSSF", 1},
		{"and_grows_again", "SSSSSSFSS", 3},
	} {
		t.Run(row.rule, func(t *testing.T) {
			if got := breaker.Ramp(play(closed, row.outcomes, start)); got != row.want {
				t.Errorf("Ramp = %d, want %d", got, row.want)
			}
		})
	}
}

func TestCounts(t *testing.T) {
	neutral := map[int32]bool{400: true, 405: true, 406: true, 409: true, 411: true, 412: true, 413: true, 414: true, 415: true,
		416: true, 417: true, 422: true, 423: true, 424: true, 425: true, 426: true, 427: true, 428: true, 431: true, 451: true}
	for status := int32(100); status < 1000; status++ {
		if status >= 200 && status < 300 {
			continue
		}
		if got := breaker.Counts(status, hub.ErrStatus); got == neutral[status] {
			t.Errorf("status %d counts: %v", status, got)
		}
	}
	for _, row := range []struct {
		rule   string
		status int32
		class  hub.ErrorClass
		want   breaker.Kind
	}{
		{"success", 204, "", breaker.Succeeded},
		{"server_error", 500, hub.ErrStatus, breaker.Failed},
		{"unauthorized", 401, hub.ErrStatus, breaker.Failed},
		{"unprocessable", 422, hub.ErrStatus, breaker.Neutral},
		{"timeout", 0, hub.ErrTimeout, breaker.Failed},
		{"dns", 0, hub.ErrDNS, breaker.Failed},
		{"connect", 0, hub.ErrConnect, breaker.Failed},
		{"tls", 0, hub.ErrTLS, breaker.Failed},
		{"protocol", 0, hub.ErrProtocol, breaker.Failed},
		{"reset", 0, hub.ErrReset, breaker.Failed},
		{"refused_address_counts_nowhere", 0, hub.ErrBlocked, breaker.Neutral},
		{"no_key_counts_nowhere", 0, hub.ErrNoSecret, breaker.Neutral},
		{"shutdown_counts_nowhere", 0, hub.ErrCancelled, breaker.Neutral},
	} {
		t.Run(row.rule, func(t *testing.T) {
			if got := breaker.KindOf(row.status, row.class); got != row.want {
				t.Errorf("KindOf = %v, want %v", got, row.want)
			}
		})
	}
}

// A circuit that stays open counts the last attempts that fail behind it.
func TestAfter_counts_end_at_the_largest_number(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for _, probe := range []hub.AttemptID{{}, {ID: hub.ID{1}}} {
		s := breaker.State{Phase: breaker.HalfOpen, Generation: 3, Failures: math.MaxInt32, Cause: breaker.CauseRow, OpenedAt: now, OpenFor: time.Minute}
		s.Probe.Attempt, s.Probe.StartedAt = hub.AttemptID{ID: hub.ID{1}}, now
		after := breaker.After(s, breaker.Outcome{Kind: breaker.Failed, Generation: 3, Probe: probe}, now)
		if after.Failures != math.MaxInt32 {
			t.Errorf("one failure more than %d is %d", s.Failures, after.Failures)
		}
	}
}
