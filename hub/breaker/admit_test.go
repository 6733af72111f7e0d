package breaker_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/streaming-hub/streaming-hub/hub"
	"github.com/streaming-hub/streaming-hub/hub/breaker"
)

var start = time.Date(2026, 11, 2, 12, 4, 0, 0, time.UTC)

func attemptNo(n int) hub.AttemptID {
	return hub.AttemptID{ID: hub.ID{1, byte(n >> 8), byte(n)}}
}

// fail gives a state n failures at a moment, one by one.
func fail(s breaker.State, n int, now time.Time) breaker.State {
	for range n {
		s = breaker.After(s, breaker.Outcome{Kind: breaker.Failed, Generation: s.Generation}, now)
	}
	return s
}

// tripped opened at start, after 5 failures in a row.
func tripped() breaker.State { return fail(breaker.State{}, 5, start) }

// probing is tripped with attempt 1 as its probe since 30 s after start.
func probing(t *testing.T) breaker.State {
	t.Helper()
	s, ok := breaker.TakeProbe(tripped(), attemptNo(1), start.Add(30*time.Second))
	if !ok {
		t.Fatal("no probe is due after 30 s")
	}
	return s
}

func TestAdmit(t *testing.T) {
	const s = time.Second
	open, half := tripped(), probing(t)
	future := open
	future.NextProbeAt = start.Add(10_000 * time.Hour)
	wrongLease := half
	wrongLease.Probe.StartedAt = start.Add(10_000 * time.Hour)
	nobody := half
	nobody.Probe = breaker.Probe{}
	unknown := open
	unknown.Phase = "AJAR"
	const since = "the circuit is open since 12:04:00 UTC, after 5 failures in a row; "
	for _, row := range []struct {
		rule  string
		state breaker.State
		after time.Duration // start
		last  bool
		want  breaker.Admission
	}{
		{"zero_state_is_closed", breaker.State{}, 0, false, breaker.Admission{Allow: true}},
		{"unknown_phase_is_closed", unknown, 0, false, breaker.Admission{Allow: true, Generation: 1}},
		{"open_puts_off_to_the_probe", open, 29 * s, false, breaker.Admission{PutOff: start.Add(30 * s), Generation: 1, Reason: since + "the next probe is due at 12:04:30 UTC"}},
		{"open_lets_last_attempts_run", open, 29 * s, true, breaker.Admission{Allow: true, Generation: 1, Reason: since + "the last attempt of a delivery still runs"}},
		{"first_one_after_the_wait_is_the_probe", open, 30 * s, false, breaker.Admission{Allow: true, Probe: true, Generation: 1, Reason: since + "this attempt is the probe"}},
		{"hours_later_too", open, 7 * time.Hour, false, breaker.Admission{Allow: true, Probe: true, Generation: 1, Reason: since + "this attempt is the probe"}},
		{"last_attempt_may_be_the_probe", open, 30 * s, true, breaker.Admission{Allow: true, Probe: true, Generation: 1, Reason: since + "this attempt is the probe"}},
		{"half_open_admits_no_second_probe", half, 31 * s, false, breaker.Admission{PutOff: start.Add(90 * s), Generation: 1, Reason: since + "a probe is under way since 12:04:30 UTC"}},
		{"half_open_lets_last_attempts_run", half, 31 * s, true, breaker.Admission{Allow: true, Generation: 1, Reason: since + "the last attempt of a delivery still runs"}},
		{"probe_of_a_dead_worker_is_replaced_after_60s", half, 90 * s, false, breaker.Admission{Allow: true, Probe: true, Generation: 1, Reason: since + "this attempt is the probe"}},
		{"probe_without_a_holder_is_replaced", nobody, 31 * s, false, breaker.Admission{Allow: true, Probe: true, Generation: 1, Reason: since + "this attempt is the probe"}},
		{"impossible_wait_is_over", future, 0, false, breaker.Admission{Allow: true, Probe: true, Generation: 1, Reason: since + "this attempt is the probe"}},
		{"impossible_lease_is_over", wrongLease, 31 * s, false, breaker.Admission{Allow: true, Probe: true, Generation: 1, Reason: since + "this attempt is the probe"}},
	} {
		t.Run(row.rule, func(t *testing.T) {
			now := start.Add(row.after)
			if diff := cmp.Diff(row.want, breaker.Admit(row.state, now, row.last)); diff != "" {
				t.Error(diff)
			}
			// The store says the same as the question before it.
			taken, ok := breaker.TakeProbe(row.state, attemptNo(2), now)
			if ok != row.want.Probe || ok && taken.Probe != (breaker.Probe{Attempt: attemptNo(2), StartedAt: now}) || !ok && taken != row.state {
				t.Errorf("TakeProbe = %+v, %v", taken, ok)
			}
			if ok && !breaker.Moved(row.state, taken) {
				t.Error("a taken probe can wait for the next flush")
			}
		})
	}
}

func TestRestart_begins_with_one_probe(t *testing.T) {
	now := start.Add(time.Hour)
	for rule, s := range map[string]breaker.State{"closed": fail(breaker.State{Version: 7}, 4, start), "open": tripped(), "half_open": probing(t)} {
		t.Run(rule, func(t *testing.T) {
			r := breaker.Restart(s, now)
			if r.Version != s.Version || r.Generation <= s.Generation || r.Failures != 0 || r.Window != (breaker.Window{}) || r.OpenFor != breaker.FirstOpen || !breaker.Moved(s, r) {
				t.Errorf("Restart = %+v", r)
			}
			if a := breaker.Admit(r, now, false); !a.Probe || a.Reason != "the circuit is open since 13:04:00 UTC, when the destination was enabled again; this attempt is the probe" {
				t.Errorf("Admit = %+v", a)
			}
			r, _ = breaker.TakeProbe(r, attemptNo(9), now)
			if a := breaker.Admit(r, now, false); a.Allow {
				t.Errorf("a second one runs: %+v", a)
			}
			r = breaker.After(r, breaker.Outcome{Kind: breaker.Succeeded, Generation: r.Generation, Probe: attemptNo(9)}, now)
			if r.Phase != breaker.Closed || breaker.Ramp(r) != 1 {
				t.Errorf("after its success: %+v", r)
			}
		})
	}
}
