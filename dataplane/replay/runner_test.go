package replay

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/streaming-hub/streaming-hub/hub"
)

func TestRunner_10000_items_at_50_per_second_take_200_seconds(t *testing.T) {
	bubble(t, func(t *testing.T, m *memory) {
		p := startProcess(t, m)
		j := m.add(10_000, hub.ReplayPace{RatePerSecond: 50, PauseAbovePercent: 100})
		await(t, m, j, hub.JobCompleted, time.Hour)
		p.stop()
		j.check(t, 50)
		if last := j.out[len(j.out)-1].at.Sub(j.StartedAt); last < 200*time.Second || last > 200*time.Second+2*stepEvery {
			t.Errorf("took %v", last)
		}
		if n := testutil.ToFloat64(p.items); n != 10_000 {
			t.Errorf("%v items are counted", n)
		}
	})
}

func TestRunner_10000_per_second_in_small_steps(t *testing.T) {
	bubble(t, func(t *testing.T, m *memory) {
		p := startProcess(t, m)
		j := m.add(100_000, hub.ReplayPace{RatePerSecond: 10_000, PauseAbovePercent: 100})
		await(t, m, j, hub.JobCompleted, time.Hour)
		p.stop()
		// A step that is followed by others takes the time of their calls as well.
		j.check(t, 10_000+10_000*15/1000)
		for _, r := range j.out {
			if r.n > 500 {
				t.Errorf("a step released %d items", r.n)
			}
		}
		if took := j.out[len(j.out)-1].at.Sub(j.StartedAt); took > 11*time.Second {
			t.Errorf("took %v", took)
		}
	})
}

func TestRunner_canary_that_fails_pauses(t *testing.T) {
	bubble(t, func(t *testing.T, m *memory) {
		p := startProcess(t, m)
		j := m.add(1000, hub.ReplayPace{RatePerSecond: 100, Canary: 30, PauseAbovePercent: 20})
		j.answers = func(item int) hub.ItemState {
			if item < 7 {
				return hub.ItemDead
			}
			return hub.ItemDelivered
		}
		await(t, m, j, hub.JobPaused, time.Minute)
		time.Sleep(time.Minute)
		m.do(func() {
			if j.Released != 30 || j.PausedBy != hub.DisabledByAuto ||
				j.Reason != "the canary failed: of the 30 first items that were tried 7 failed at first, which is more than 20 %" {
				t.Errorf("paused as %+v", j.ReplayJob)
			}
		})
		p.stop()
	})
}

func TestRunner_failures_behind_the_canary_pause(t *testing.T) {
	bubble(t, func(t *testing.T, m *memory) {
		p := startProcess(t, m)
		j := m.add(1000, hub.ReplayPace{RatePerSecond: 100, Canary: 10, PauseAbovePercent: 50})
		j.answers = func(item int) hub.ItemState {
			if item >= 10 {
				return hub.ItemDead
			}
			return hub.ItemDelivered
		}
		await(t, m, j, hub.JobPaused, time.Minute)
		p.stop()
		m.do(func() {
			if j.Released < 20 || j.Released > 60 || !j.CanaryPassed {
				t.Errorf("paused as %+v", j.ReplayJob)
			}
		})
	})
}

// A process dies at any of its calls, before the transaction is committed or
// before it hears of that; the next one goes on.
func TestRunner_killed_at_any_call(t *testing.T) {
	for call, alive := 1, true; alive; call++ {
		for _, committed := range []bool{false, true} {
			bubble(t, func(t *testing.T, m *memory) {
				alive = false
				var p *process
				m.kill = func(n int, late bool) bool {
					if n != call || late != committed {
						return false
					}
					alive = true
					p.kill()
					return true
				}
				j := m.add(1200, hub.ReplayPace{RatePerSecond: 200, Canary: 20, PauseAbovePercent: 10})
				p = startProcess(t, m)
				// The process that follows, unless the first one survives its work.
				for !m.ended(j) {
					select {
					case <-p.ended:
						m.kill = nil
						p = startProcess(t, m)
					case <-time.After(50 * time.Millisecond):
					}
				}
				p.stop()
				if j.check(t, 200+100); j.State != hub.JobCompleted || j.scans != 3 {
					t.Errorf("killed at call %d: %s after %d scans", call, j.State, j.scans)
				}
			})
		}
		if t.Failed() {
			t.Fatalf("killed at call %d", call)
		}
	}
}

func TestRunner_two_on_one_store(t *testing.T) {
	bubble(t, func(t *testing.T, m *memory) {
		j := m.add(3000, hub.ReplayPace{RatePerSecond: 300, Canary: 5, PauseAbovePercent: 10})
		one := startProcess(t, m)
		time.Sleep(stepEvery / 3)
		two := startProcess(t, m)
		await(t, m, j, hub.JobCompleted, time.Minute)
		one.stop()
		two.stop()
		// The two of them step four times a second each.
		j.check(t, 300+300/4)
		if took := j.out[len(j.out)-1].at.Sub(j.StartedAt); took > 12*time.Second {
			t.Errorf("took %v", took)
		}
		a, b := testutil.ToFloat64(one.items), testutil.ToFloat64(two.items)
		if a == 0 || b == 0 || a+b != 3000 {
			t.Errorf("one took up %v items, the other %v", a, b)
		}
	})
}

func TestRunner_no_job_waits_for_a_huge_one(t *testing.T) {
	bubble(t, func(t *testing.T, m *memory) {
		small := m.add(400, hub.ReplayPace{RatePerSecond: 100})
		p := startProcess(t, m)
		await(t, m, small, hub.JobRunning, time.Second)
		huge := m.add(1_000_000, hub.ReplayPace{})
		late := m.add(10, hub.ReplayPace{RatePerSecond: 100})
		await(t, m, late, hub.JobCompleted, time.Second)
		await(t, m, small, hub.JobCompleted, 5*time.Second)
		m.do(func() {
			if huge.State != hub.JobPreviewing {
				t.Errorf("the huge one is %s already; is it large enough?", huge.State)
			}
			small.check(t, 100+100/20)
		})
		// It does not wait for ticks either: 2 000 of them are 500 s.
		await(t, m, huge, hub.JobReady, 10*time.Second)
		p.stop()
	})
}

func TestRunner_ready_expires_and_is_left_alone_before(t *testing.T) {
	bubble(t, func(t *testing.T, m *memory) {
		p := startProcess(t, m)
		j := m.add(10, hub.ReplayPace{})
		await(t, m, j, hub.JobReady, time.Second)
		time.Sleep(24*time.Hour - 2*time.Second)
		m.do(func() {
			if j.State != hub.JobReady || j.steps > 0 {
				t.Errorf("%s after %d steps", j.State, j.steps)
			}
		})
		await(t, m, j, hub.JobExpired, 3*time.Second)
		p.stop()
	})
}

func TestRunner_preview_that_never_ends_expires(t *testing.T) {
	bubble(t, func(t *testing.T, m *memory) {
		j := m.add(10, hub.ReplayPace{})
		time.Sleep(24 * time.Hour)
		p := startProcess(t, m)
		await(t, m, j, hub.JobExpired, time.Second)
		p.stop()
	})
}

func TestRunner_errors_are_logged_once_per_cause(t *testing.T) {
	bubble(t, func(t *testing.T, m *memory) {
		p := startProcess(t, m)
		a, b := m.add(100, hub.ReplayPace{RatePerSecond: 10}), m.add(100, hub.ReplayPace{RatePerSecond: 10})
		set := func(err error) { m.do(func() { m.fail = err }) }
		set(fmt.Errorf("scan: %w", errors.New("no room")))
		time.Sleep(10 * time.Second)
		set(errors.New("no table"))
		time.Sleep(10 * time.Second)
		set(nil)
		await(t, m, a, hub.JobCompleted, time.Minute)
		await(t, m, b, hub.JobCompleted, time.Minute)
		p.stop()
		if text := p.log.String(); strings.Count(text, "\n") != 2 || !strings.Contains(text, "scan: no room") || !strings.Contains(text, "no table") {
			t.Errorf("logged:\n%s", text)
		}
	})
}

func TestRunner_metrics(t *testing.T) {
	bubble(t, func(t *testing.T, m *memory) {
		for range 2 {
			m.add(3, hub.ReplayPace{})
		}
		m.add(100, hub.ReplayPace{RatePerSecond: 1})
		p := startProcess(t, m)
		time.Sleep(10*time.Second + stepEvery)
		p.stop()
		want := `
# HELP streaming_hub_replay_items_total Items of replay jobs that this process took up: released into the delivery queue, or skipped.
# TYPE streaming_hub_replay_items_total counter
streaming_hub_replay_items_total 9
# HELP streaming_hub_replay_jobs Replay jobs of all replicas that have not ended and are not paused, by state.
# TYPE streaming_hub_replay_jobs gauge
streaming_hub_replay_jobs{state="PREVIEWING"} 0
streaming_hub_replay_jobs{state="READY"} 2
streaming_hub_replay_jobs{state="RUNNING"} 1
`
		if err := testutil.GatherAndCompare(p.registry, strings.NewReader(want)); err != nil {
			t.Error(err)
		}
	})
}
