package dispatch

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/streaming-hub/streaming-hub/dataplane/sink"
	"github.com/streaming-hub/streaming-hub/db"
	"github.com/streaming-hub/streaming-hub/hub"
	"github.com/streaming-hub/streaming-hub/hub/retry"
)

// The waits of the workfront policy, end to end: the pool starts each attempt
// when the table says, at most one look later.
func TestPool_workfront_tables(t *testing.T) {
	seconds := func(list ...float64) (waits []time.Duration) {
		for _, s := range list {
			waits = append(waits, time.Duration(s*float64(time.Second)))
		}
		return waits
	}
	for _, row := range []struct {
		name    string
		elapsed bool
		// waits before attempts 2…N; at is when they start, counted from the
		// first failure, where elapsed.
		waits, at []time.Duration
		reason    hub.DeadReason
	}{
		{
			name:   "waits",
			waits:  seconds(84.8, 254.4, 593.6, 1272, 2628.8, 5342.4, 10769.6, 21624, 43332.8, 86750.4),
			reason: hub.DeadExhausted,
		},
		{
			name: "elapsed", elapsed: true,
			at:     seconds(84.8, 254.4, 593.6, 1272, 2628.8, 5342.4, 10769.6, 21624, 43332.8, 86750.4, 172800),
			reason: hub.DeadExhausted,
		},
	} {
		t.Run(row.name, func(t *testing.T) {
			bubble(t, 1, func(r *rig, _ *Deps) { r.sink.do = refusing }, func(r *rig) {
				r.store.change(func(c *db.TenantConfig) { c.Subscriptions[0].RetryPolicy = retry.Workfront(row.elapsed) })
				r.after(time.Second)
				r.ingest(r.deliveries(0, 1))
				begun := time.Now()
				for len(r.queue.left()) > 0 && time.Since(begun) < 60*time.Hour {
					r.after(5 * time.Minute)
				}
				log := r.sink.log()
				var sum time.Duration
				for i, wait := range row.waits {
					if i+1 >= len(log) {
						break
					}
					sum += wait
					got := log[i+1].at.Sub(log[i].at)
					if got < wait || got > wait+lookEvery {
						t.Errorf("wait before attempt %d is %s, want %s", i+2, got, wait)
					}
				}
				if row.waits != nil && sum != 47*time.Hour+57*time.Minute+32*time.Second+800*time.Millisecond && len(log) == 11 {
					// 84.8 s × (2^11 − 12) = 172 652.8 s
					t.Errorf("the table's waits sum to %s", sum)
				}
				for i, at := range row.at {
					if i+1 >= len(log) {
						break
					}
					if got := log[i+1].at.Sub(log[0].at); got < at || got > at+lookEvery {
						t.Errorf("attempt %d starts %s after the first failure, want %s", i+2, got, at)
					}
				}
				if want := max(len(row.waits), len(row.at)) + 1; len(log) != want {
					t.Fatalf("%d attempts, want %d", len(log), want)
				}
				end := r.queue.history()[len(log)-1].Decision
				if end.State != hub.Dead || end.DeadReason != row.reason {
					t.Errorf("end = %+v", end)
				}
			})
		})
	}
}

// An attempt that starts at or past the age limit is the last, whatever kept
// it: here the circuit, behind which it ran because of its age.
func TestPool_age_limit(t *testing.T) {
	for _, row := range []struct {
		name   string
		age    time.Duration // at the first attempt
		policy hub.RetryPolicy
		lastAt time.Duration // fixed for a delivery that waited without a try; 0 for not
		want   hub.State
		reason hub.DeadReason
	}{
		{name: "just_below_it_goes_on", age: 24*time.Hour - time.Millisecond, want: hub.Waiting},
		{name: "at_it_is_the_last", age: 24 * time.Hour, want: hub.Dead, reason: hub.DeadExpired},
		{name: "past_it_is_the_last", age: 30 * time.Hour, want: hub.Dead, reason: hub.DeadExpired},
		{name: "fixed_by_the_walk_over_old_ones", age: 49 * time.Hour, lastAt: 48 * time.Hour, policy: retry.Workfront(false), want: hub.Dead, reason: hub.DeadExpired},
		{name: "of_which_the_moment_has_not_come", age: 49 * time.Hour, lastAt: 50 * time.Hour, policy: retry.Workfront(false), want: hub.Waiting},
	} {
		t.Run(row.name, func(t *testing.T) {
			bubble(t, 1, func(r *rig, _ *Deps) { r.sink.do = refusing }, func(r *rig) {
				r.store.change(func(c *db.TenantConfig) { c.Subscriptions[0].RetryPolicy = row.policy })
				r.after(time.Second)
				list := r.deliveries(0, 1)
				list[0].Delivery.ReceivedAt = time.Now().Add(-row.age)
				if row.lastAt > 0 {
					list[0].Delivery.LastAt = list[0].Delivery.ReceivedAt.Add(row.lastAt)
				}
				r.ingest(list)
				r.after(0)
				history := r.queue.history()
				if len(history) != 1 || history[0].Decision.State != row.want || history[0].Decision.DeadReason != row.reason {
					t.Fatalf("history = %+v", history)
				}
				if row.want == hub.Waiting && row.lastAt == 0 {
					if want := list[0].Delivery.ReceivedAt.Add(24 * time.Hour); !history[0].Decision.LastAt.Equal(want) {
						t.Errorf("the next attempt is the last from %s on, want %s", history[0].Decision.LastAt, want)
					}
				}
			})
		})
	}
	t.Run("a_replay_counts_from_the_start_of_its_run", func(t *testing.T) {
		bubble(t, 1, func(r *rig, _ *Deps) { r.sink.do = refusing }, func(r *rig) {
			list := r.deliveries(0, 1)
			list[0].Delivery.Run, list[0].Delivery.Attempts = 2, 8 // its run began now
			r.ingest(list)
			r.after(0)
			if h := r.queue.history(); len(h) != 1 || h[0].Attempt.Number != 9 || h[0].Decision.State != hub.Waiting {
				t.Errorf("history = %+v", h)
			}
			if seen := r.health.observed(); len(seen) != 1 || !seen[0].Replay {
				t.Errorf("observed = %+v", seen)
			}
		})
	})
	t.Run("attempt_number_ten_thousand", func(t *testing.T) {
		bubble(t, 1, func(r *rig, _ *Deps) { r.sink.do = refusing }, func(r *rig) {
			r.store.change(func(c *db.TenantConfig) {
				c.Subscriptions[0].RetryPolicy = hub.RetryPolicy{Kind: hub.RetryExponential, UnitMillis: 36_000_000, Attempts: 100}
			})
			r.after(time.Second)
			list := r.deliveries(0, 1)
			list[0].Delivery.Run, list[0].Delivery.Attempts, list[0].Delivery.RunAttempts = 100, 9_999, 98
			list[0].Delivery.FirstFailedAt = time.Now()
			r.ingest(list)
			r.after(0)
			h := r.queue.history()
			if len(h) != 1 || h[0].Attempt.Number != 10_000 || h[0].Decision.State != hub.Waiting {
				t.Fatalf("history = %+v", h)
			}
			if wait := h[0].Decision.NextAt.Sub(h[0].Attempt.Started); wait <= 0 || wait > retry.ExponentialAgeLimit {
				t.Errorf("the next attempt is in %s", wait)
			}
		})
	})
}

func TestPool_test_sends_touch_nothing(t *testing.T) {
	bubble(t, 1, func(r *rig, _ *Deps) { r.sink.do = refusing }, func(r *rig) {
		r.store.change(func(c *db.TenantConfig) { c.Subscriptions[0].Enabled = false })
		r.health.set(true, false) // the destination is switched off as well
		r.after(time.Second)
		list := r.deliveries(0, 10)
		for i := range list {
			list[i].Delivery.Test, list[i].Delivery.LastAt = true, time.Now()
		}
		r.ingest(list)
		r.after(time.Minute)
		if n := len(r.sink.log()); n != 10 {
			t.Errorf("%d of 10 test sends went to a disabled subscription", n)
		}
		for _, o := range r.queue.history() {
			if o.Decision.State != hub.Dead || o.Decision.DeadReason != hub.DeadExhausted {
				t.Errorf("end of a test send = %+v", o.Decision)
			}
		}
		if s := r.boards.State(r.lanes[0]); s.Failures != 0 || len(r.health.observed()) != 0 {
			t.Errorf("circuit %+v, health %+v", s, r.health.observed())
		}
	})
}

// What a person changed a moment ago is what a test send shows, although other
// deliveries go by what this process knew a second ago.
func TestPool_test_send_goes_by_what_is_now(t *testing.T) {
	bubble(t, 2, nil, func(r *rig) {
		r.ingest(r.deliveries(0, 1)) // the tenant is known from here on
		r.after(0)
		r.store.change(func(c *db.TenantConfig) { c.Subscriptions[0].Destination = r.lanes[1].Destination })
		list := r.deliveries(0, 1)
		list[0].Delivery.Test, list[0].Delivery.LastAt, list[0].Delivery.Destination = true, time.Now(), r.lanes[1].Destination
		r.ingest(list)
		r.after(100 * time.Millisecond)
		if sent := r.sink.log(); len(sent) != 2 || sent[1].id != list[0].Delivery.ID {
			t.Fatalf("sent %+v", sent)
		}
		if back := r.queue.givenBack(); len(back) != 0 {
			t.Errorf("released %+v", back)
		}
	})
}

func TestPool_failure_rate_policy(t *testing.T) {
	bubble(t, 1, nil, func(r *rig) {
		r.health.set(true, false)
		r.ingest(r.deliveries(0, 20))
		r.after(time.Hour)
		if n := len(r.sink.log()); n != 0 {
			t.Fatalf("%d sent to a destination that is switched off", n)
		}
		r.health.set(true, true)
		r.after(time.Minute)
		if n := len(r.sink.log()); n != 1 {
			t.Fatalf("%d sent, want the one try", n)
		}
		if seen := r.health.observed(); len(seen) != 1 || !seen[0].Try {
			t.Errorf("observed = %+v", seen)
		}
		r.health.set(false, false)
		r.after(time.Minute)
		r.wantSettled(20)
	})
}

func TestPool_shortened_policy_makes_the_next_attempt_the_last(t *testing.T) {
	bubble(t, 1, func(r *rig, _ *Deps) { r.sink.do = refusing }, func(r *rig) {
		steps := func(n int) {
			r.store.change(func(c *db.TenantConfig) {
				c.Subscriptions[0].RetryPolicy = hub.RetryPolicy{Kind: hub.RetrySchedule, StepsMillis: make([]int64, n)}
				for i := 1; i < n; i++ {
					c.Subscriptions[0].RetryPolicy.StepsMillis[i] = 600_000
				}
			})
			r.after(2 * time.Second)
		}
		steps(5)
		r.ingest(r.deliveries(0, 1))
		r.after(25 * time.Minute) // three attempts
		if n := len(r.sink.log()); n != 3 {
			t.Fatalf("%d attempts", n)
		}
		steps(2)
		r.after(time.Hour)
		steps(10)
		r.after(10 * time.Hour)
		history := r.queue.history()
		if len(history) != 4 || history[3].Decision.DeadReason != hub.DeadExhausted {
			t.Errorf("%d attempts, the last one %+v", len(history), history[len(history)-1].Decision)
		}
	})
}

func TestPool_a_retry_is_overtaken(t *testing.T) {
	failed := false
	bubble(t, 1, func(r *rig, d *Deps) {
		d.Workers = 1
		r.sink.do = func(ctx context.Context, job sink.Job) hub.Failure {
			if !failed {
				failed = true
				return refusing(ctx, job)
			}
			return hub.Failure{}
		}
	}, func(r *rig) {
		first, second := r.deliveries(0, 1), r.deliveries(0, 1)
		r.ingest(first)
		r.after(100 * time.Millisecond)
		r.ingest(second)
		r.after(10 * time.Minute)
		r.wantOrder(first[0].Delivery.ID, second[0].Delivery.ID, first[0].Delivery.ID)
	})
}

func (r *rig) wantOrder(ids ...hub.DeliveryID) {
	r.Helper()
	var got []hub.DeliveryID
	for _, s := range r.sink.log() {
		got = append(got, s.id)
	}
	if !slices.Equal(got, ids) {
		r.Errorf("sent %v, want %v", got, ids)
	}
}
