package breaker_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/streaming-hub/streaming-hub/hub/breaker"
)

// seen is a closed state whose window has one failure, at a moment.
func seen(at time.Time) breaker.State { return fail(breaker.State{}, 1, at) }

func TestWindow_Totals(t *testing.T) {
	const s = time.Second
	for _, row := range []struct {
		rule     string
		end, now time.Duration // after start, which begins a bucket
		want     int64
	}{
		{"counts_at_once", 0, 0, 1},
		{"counts_for_110s_at_least", 10*s - 1, 120*s - 1, 1},
		{"first_of_a_bucket_counts_for_120s", 0, 120*s - 1, 1},
		{"not_at_120s", 0, 120 * s, 0},
		{"last_of_a_bucket_leaves_with_it", 10*s - 1, 120 * s, 0},
		{"ahead_of_a_slow_clock", 60 * s, 0, 1},
		{"a_clock_2_minutes_ahead_was_wrong", 120 * s, 0, 0},
		{"years_later", 0, 100_000 * time.Hour, 0},
	} {
		t.Run(row.rule, func(t *testing.T) {
			attempts, failures := seen(start.Add(row.end)).Window.Totals(start.Add(row.now))
			if attempts != row.want || failures != row.want {
				t.Errorf("Totals = %d, %d, want %d", attempts, failures, row.want)
			}
		})
	}
}

func TestWindow_bad_input(t *testing.T) {
	for _, w := range []breaker.Window{{Newest: -5}, {Newest: 1<<63 - 1}, {Newest: -1 << 63}} {
		for _, now := range []time.Time{{}, start, time.Unix(-1<<40, 0), time.Unix(1<<40, 0)} {
			s := breaker.State{Window: w}
			s = breaker.After(s, breaker.Outcome{Kind: breaker.Failed}, now)
			if attempts, failures := s.Window.Totals(now); attempts != 1 || failures != 1 {
				t.Errorf("window %d at %v: %d, %d", w.Newest, now, attempts, failures)
			}
		}
	}
}

// Two processes' outcomes, merged at any moments, are the plain count over the
// list of them.
func TestWindow_is_the_count_of_the_last_12_buckets(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		type outcome struct {
			failed bool
			at     time.Time
		}
		var stored breaker.State
		var all []outcome
		var deltas [2]breaker.Delta
		now := start
		for range rapid.IntRange(0, 40).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(0, 25_000).Draw(t, "ms")) * time.Millisecond)
			i := rapid.IntRange(0, 1).Draw(t, "process")
			// Mostly successes, so that nothing opens.
			kind := breaker.Succeeded
			if rapid.IntRange(0, 4).Draw(t, "kind") == 0 {
				kind = breaker.Failed
			}
			deltas[i] = deltas[i].Add(breaker.Outcome{Kind: kind}, now)
			all = append(all, outcome{kind == breaker.Failed, now})
			if rapid.Bool().Draw(t, "flush") {
				stored = breaker.Apply(stored, deltas[i], now)
				deltas[i] = breaker.Delta{}
			}
		}
		for i := range deltas {
			stored = breaker.Apply(stored, deltas[i], now)
		}
		if stored.Generation != 0 {
			return
		}
		later := now.Add(time.Duration(rapid.IntRange(0, 200).Draw(t, "later")) * time.Second)
		var attempts, failures int64
		for _, o := range all {
			if later.Unix()/10-o.at.Unix()/10 < 12 {
				attempts++
				if o.failed {
					failures++
				}
			}
		}
		if a, f := stored.Window.Totals(later); a != attempts || f != failures {
			t.Fatalf("Totals = %d, %d, want %d, %d", a, f, attempts, failures)
		}
	})
}

// A replica whose clock is ahead moves the window; what falls out of it there
// is dropped from the other's sum and lands in no other bucket.
func TestWindow_a_clock_ahead_moves_it(t *testing.T) {
	failed := breaker.Outcome{Kind: breaker.Failed}
	early := breaker.Delta{}.Add(failed, start)
	sameSlot := breaker.Delta{}.Add(failed, start.Add(49*time.Second))
	ahead := seen(start.Add(165 * time.Second))
	now := start.Add(60 * time.Second)
	for _, row := range []struct {
		rule  string
		delta breaker.Delta
		want  int64
	}{
		{"within_the_moved_window", breaker.Delta{}.Add(failed, now), 2},
		{"fallen_out_of_it", early, 1},
		{"fallen_out_by_one_bucket", sameSlot, 1},
		{"just_within", breaker.Delta{}.Add(failed, start.Add(50*time.Second)), 2},
	} {
		t.Run(row.rule, func(t *testing.T) {
			if attempts, _ := breaker.Apply(ahead, row.delta, now).Window.Totals(now); attempts != row.want {
				t.Errorf("%d attempts, want %d", attempts, row.want)
			}
		})
	}
}
