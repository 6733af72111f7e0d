package dispatch

import (
	"testing"
	"time"
)

func TestManner(t *testing.T) {
	const workers = 16
	fast, slow := 20*time.Millisecond, 3*time.Second
	type step struct {
		took time.Duration
		ok   bool
	}
	for _, row := range []struct {
		name    string
		steps   []step
		suspect bool
		grown   int
	}{
		{"unknown_is_a_suspect_and_small", nil, true, 1},
		{"one_fast_success_proves_it", []step{{fast, true}}, false, 2},
		{"grows_by_doubling_up_to_the_cap", []step{{fast, true}, {fast, true}, {fast, true}, {fast, true}, {fast, true}}, false, 8},
		{"a_fast_failure_proves_it_too_but_earns_nothing", []step{{fast, false}}, false, 1},
		{"a_slow_success_earns_and_stays_a_suspect", []step{{slow, true}, {slow, true}}, true, 4},
		{"a_slow_failure_makes_it_small", []step{{fast, true}, {fast, true}, {fast, true}, {slow, false}, {slow, false}}, true, 2},
		{"fast_again_is_trusted_again", []step{{slow, false}, {fast, true}}, false, 2},
		{"exactly_one_second_is_not_slow", []step{{slowAfter, true}}, false, 2},
	} {
		t.Run(row.name, func(t *testing.T) {
			var m manner
			for _, s := range row.steps {
				m = m.After(s.took, s.ok, workers)
			}
			if m.Suspect() != row.suspect || m.Allowance(workers, 0) != row.grown {
				t.Errorf("suspect %v with %d, want %v with %d", m.Suspect(), m.Allowance(workers, 0), row.suspect, row.grown)
			}
		})
	}
	t.Run("one_that_runs_for_long_is_a_suspect", func(t *testing.T) {
		if m := (manner{Known: true, Grown: 8}); !m.Running().Suspect() {
			t.Error("it is trusted")
		}
	})
	t.Run("recovery_lets_fewer_through", func(t *testing.T) {
		m := manner{Known: true, Grown: 8}
		for ramp, want := range map[int]int{0: 8, 1: 1, 5: 5, 64: 8} {
			if got := m.Allowance(workers, ramp); got != want {
				t.Errorf("ramp %d: %d, want %d", ramp, got, want)
			}
		}
	})
	t.Run("one_worker", func(t *testing.T) {
		if got := (manner{}).After(fast, true, 1).Allowance(1, 0); got != 1 {
			t.Errorf("%d, want 1", got)
		}
	})
}
