package dispatch

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/streaming-hub/streaming-hub/dataplane/sink"
	"github.com/streaming-hub/streaming-hub/db"
	"github.com/streaming-hub/streaming-hub/hub"
	"github.com/streaming-hub/streaming-hub/hub/breaker"
)

// opened makes the circuit of the first lane open, without a retry that could
// be a probe.
func (r *rig) opened() {
	r.Helper()
	r.store.change(func(c *db.TenantConfig) {
		for i := range c.Subscriptions {
			c.Subscriptions[i].RetryPolicy = hub.RetryPolicy{Kind: hub.RetrySchedule, StepsMillis: []int64{0}}
		}
	})
	r.after(time.Second)
	r.ingest(r.deliveries(0, breaker.OpenRow))
	r.after(2 * time.Second)
	if s := r.boards.State(r.lanes[0]); s.Phase != breaker.Open {
		r.Fatalf("circuit = %s", s.Phase)
	}
}

// lasts are deliveries of the first lane whose next attempt is the last.
func (r *rig) lasts(n int) []db.NewDelivery {
	list := r.deliveries(0, n)
	for i := range list {
		list[i].Last = true
	}
	return list
}

// wantAtMost says where more than so many attempts began within a second.
func wantAtMost(t *testing.T, most int, log []sent) {
	t.Helper()
	for i := range log {
		n := 0
		for _, s := range log[i:] {
			if s.at.Sub(log[i].at) < time.Second {
				n++
			}
		}
		if n > most {
			t.Errorf("%d attempts within a second, want at most %d", n, most)
			return
		}
	}
}

func TestPool_last_attempts_behind_an_open_circuit(t *testing.T) {
	for rule, took := range map[string]time.Duration{"of_a_receiver_that_refuses": 0, "of_a_receiver_that_answers_in_50_ms": 50 * time.Millisecond} {
		t.Run(rule+"_end_within_minutes_and_not_at_once", func(t *testing.T) {
			receiver := &broken{took: took}
			bubble(t, 1, func(r *rig, _ *Deps) { r.sink.do = receiver.answer }, func(r *rig) {
				r.opened()
				r.sink.mu.Lock()
				before := len(r.sink.sent)
				r.sink.most[r.lanes[0].Destination] = 0
				r.sink.mu.Unlock()
				r.ingest(r.lasts(600))
				r.after(75 * time.Second)
				if n := len(r.sink.log()) - before; n != 600 || len(r.queue.left()) != 0 {
					t.Errorf("%d of 600 were made in 75 s, %d wait", n, len(r.queue.left()))
				}
				if most := r.sink.peak(r.lanes[0].Destination); most != 1 {
					t.Errorf("%d at once", most)
				}
				wantAtMost(t, 15, r.sink.log()[before:]) // five of each of three looks
			})
		})
	}
	t.Run("of_a_receiver_that_hangs_take_one_worker_and_hold_little", func(t *testing.T) {
		bubble(t, 2, func(r *rig, _ *Deps) {
			r.sink.do = func(ctx context.Context, job sink.Job) hub.Failure {
				if job.Delivery.Destination == r.lanes[0].Destination {
					return (&broken{took: 15 * time.Second}).answer(ctx, job)
				}
				return hub.Failure{}
			}
		}, func(r *rig) {
			r.store.change(func(c *db.TenantConfig) {
				c.Subscriptions[0].RetryPolicy = hub.RetryPolicy{Kind: hub.RetrySchedule, StepsMillis: []int64{0}}
			})
			r.after(time.Second)
			r.ingest(r.deliveries(0, 6))
			r.after(2 * time.Minute)
			if s := r.boards.State(r.lanes[0]); s.Phase == breaker.Closed {
				t.Fatalf("circuit = %s", s.Phase)
			}
			r.sink.mu.Lock()
			r.sink.most[r.lanes[0].Destination] = 0
			r.sink.mu.Unlock()
			claims := r.queue.claims()
			r.ingest(r.lasts(200))
			r.after(5 * time.Minute)
			if most := r.sink.peak(r.lanes[0].Destination); most != 1 {
				t.Errorf("%d at once", most)
			}
			if held, _ := r.pool.Held(); held > 2 {
				t.Errorf("%d are held", held)
			}
			if n := r.queue.claims() - claims; n > 25 {
				t.Errorf("%d claims for 20 attempts", n)
			}
			before := len(r.sink.log())
			r.ingest(r.deliveries(1, 50))
			r.after(time.Second)
			if n := len(r.sink.log()) - before; n < 50 {
				t.Errorf("%d of 50 of the neighbour were sent", n)
			}
		})
	})
	t.Run("obey_the_rate_limit_and_use_it", func(t *testing.T) {
		bubble(t, 2, func(r *rig, _ *Deps) {
			r.sink.do = func(ctx context.Context, job sink.Job) hub.Failure {
				if job.Delivery.Destination == r.lanes[0].Destination {
					return refusing(ctx, job)
				}
				return hub.Failure{}
			}
		}, func(r *rig) {
			r.opened()
			r.store.change(func(c *db.TenantConfig) {
				dest := c.Destinations[r.lanes[0].Destination]
				dest.Destination.RateLimit = 2
				c.Destinations = map[hub.DestinationID]db.DestinationConfig{
					r.lanes[0].Destination: dest, r.lanes[1].Destination: c.Destinations[r.lanes[1].Destination],
				}
			})
			r.after(2 * time.Second)
			before := len(r.sink.log())
			r.ingest(r.lasts(60))
			for range 20_000 / 70 { // others make the pool look for work all the time
				r.pool.Moved(r.lanes[0])
				r.after(70 * time.Millisecond)
			}
			log := r.sink.log()[before:]
			wantAtMost(t, 2, log)
			if len(log) < 30 {
				t.Errorf("%d in 20 s", len(log))
			}
		})
	})
	t.Run("of_a_process_that_just_started_obey_it_too", func(t *testing.T) {
		bubble(t, 1, func(r *rig, _ *Deps) {
			r.sink.do = refusing
			dest := r.store.config.Destinations[r.lanes[0].Destination]
			dest.Destination.RateLimit = 1
			r.store.config.Destinations[r.lanes[0].Destination] = dest
			now := time.Now()
			if _, err := r.boards.ChangeBreakers(r.Context(), r.lanes, newID(), func(int, breaker.State) (breaker.State, []hub.Notice) {
				s := breaker.Restart(breaker.State{}, now)
				s.NextProbeAt = now.Add(10 * time.Minute)
				return s, nil
			}); err != nil {
				r.Fatal(err)
			}
			r.queue.insert(r.lasts(30), time.Minute)
		}, func(r *rig) {
			r.after(10 * time.Second)
			log := r.sink.log()
			wantAtMost(t, 1, log)
			if len(log) < 5 {
				t.Errorf("%d in 10 s", len(log))
			}
		})
	})
}

// A probe that makes no attempt, or whose attempt told nothing, does not keep
// the circuit waiting until its lease runs out.
func TestPool_probes_are_given_back(t *testing.T) {
	// probing gives the pool a delivery just before the probe is due.
	probing := func(r *rig) {
		r.opened()
		r.after(25 * time.Second)
		r.store.change(func(c *db.TenantConfig) { c.Subscriptions[0].RetryPolicy = hub.RetryPolicy{} })
		r.ingest(r.deliveries(0, 1))
	}
	// wantSoon says whether another probe closes the circuit before the first
	// one's lease ran out.
	wantSoon := func(r *rig) {
		r.Helper()
		if s := r.boards.State(r.lanes[0]); s.Phase != breaker.Open || !s.Probe.Attempt.IsZero() {
			r.Errorf("circuit = %+v", s)
		}
		r.after(15 * time.Second)
		if s := r.boards.State(r.lanes[0]); s.Phase != breaker.Closed {
			r.Errorf("circuit = %+v", s)
		}
	}
	t.Run("when_the_try_of_its_destination_is_refused", func(t *testing.T) {
		receiver := &broken{}
		bubble(t, 1, func(r *rig, _ *Deps) { r.sink.do = receiver.answer }, func(r *rig) {
			probing(r)
			receiver.mended.Store(true)
			r.health.taken()
			before := len(r.sink.log())
			r.after(8 * time.Second)
			if n := len(r.sink.log()) - before; n != 0 {
				t.Fatalf("%d sent though another process has the try", n)
			}
			r.health.set(false, false)
			wantSoon(r)
		})
	})
	t.Run("when_it_cannot_be_signed", func(t *testing.T) {
		var does answers
		bubble(t, 1, func(r *rig, _ *Deps) { r.sink.do = does.answer }, func(r *rig) {
			does.set(refusing)
			probing(r)
			does.set(func(context.Context, sink.Job) hub.Failure {
				return hub.Failure{Class: hub.ErrNoSecret, Detail: "no key"}
			})
			r.after(4 * time.Second)
			does.set(delivering)
			wantSoon(r)
		})
	})
	t.Run("when_its_process_ends_at_once", func(t *testing.T) {
		var does answers
		bubble(t, 1, func(r *rig, _ *Deps) { r.sink.do = does.answer }, func(r *rig) {
			does.set(refusing)
			probing(r)
			does.set(sleeping(20 * time.Second))
			r.after(8 * time.Second)
			if s := r.boards.State(r.lanes[0]); s.Phase != breaker.HalfOpen {
				t.Fatalf("circuit = %+v", s)
			}
			r.hard()
			r.after(time.Second)
			if s := r.boards.State(r.lanes[0]); s.Phase != breaker.Open || !s.Probe.Attempt.IsZero() {
				t.Errorf("circuit = %+v", s)
			}
		})
	})
}

// answers is a receiver whose manner a test changes while it is asked.
type answers struct {
	does atomic.Pointer[func(context.Context, sink.Job) hub.Failure]
}

func (a *answers) set(do func(context.Context, sink.Job) hub.Failure) { a.does.Store(&do) }

func (a *answers) answer(ctx context.Context, job sink.Job) hub.Failure {
	return (*a.does.Load())(ctx, job)
}

func delivering(context.Context, sink.Job) hub.Failure { return hub.Failure{} }
