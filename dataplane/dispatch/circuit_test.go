package dispatch

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/streaming-hub/streaming-hub/dataplane/sink"
	"github.com/streaming-hub/streaming-hub/db"
	"github.com/streaming-hub/streaming-hub/hub"
	"github.com/streaming-hub/streaming-hub/hub/breaker"
)

// broken is a receiver that can be mended, and counts.
type broken struct {
	mended atomic.Bool
	took   time.Duration
}

func (b *broken) answer(ctx context.Context, job sink.Job) hub.Failure {
	if b.took > 0 {
		if f := sleeping(b.took)(ctx, job); f.Failed() {
			return f
		}
	}
	if b.mended.Load() {
		return hub.Failure{}
	}
	return refusing(ctx, job)
}

func TestPool_open_circuit(t *testing.T) {
	t.Run("opens_after_five_failures_and_lets_one_probe_through", func(t *testing.T) {
		receiver := &broken{}
		bubble(t, 1, func(r *rig, _ *Deps) { r.sink.do = receiver.answer }, func(r *rig) {
			r.ingest(r.deliveries(0, 100))
			r.after(20 * time.Second)
			sent := len(r.sink.log())
			if sent < breaker.OpenRow || sent > breaker.OpenRow+DestinationCap(8) {
				t.Fatalf("%d sent before the circuit was open", sent)
			}
			if s := r.boards.State(r.lanes[0]); s.Phase != breaker.Open || s.Cause != breaker.CauseRow {
				t.Fatalf("stored circuit = %+v", s)
			}
			r.after(11 * time.Second) // the first probe is due after 30 s
			if got := len(r.sink.log()) - sent; got != 1 {
				t.Errorf("%d sent in the second before 31 s, want the probe", got)
			}
			// The next ones come after 60, 120, 240, 480 and then 600 s each.
			for i, wait := range []time.Duration{60, 120, 240, 480, 600, 600} {
				before := len(r.sink.log())
				r.after(wait*time.Second + 2*time.Second)
				if got := len(r.sink.log()) - before; got != 1 {
					t.Errorf("wait %d of %d s saw %d attempts, want 1", i, wait, got)
				}
			}
		})
	})
	t.Run("a_wait_behind_it_uses_up_no_attempt", func(t *testing.T) {
		receiver := &broken{}
		bubble(t, 1, func(r *rig, _ *Deps) { r.sink.do = receiver.answer }, func(r *rig) {
			r.store.change(func(c *db.TenantConfig) {
				c.Subscriptions[0].RetryPolicy = hub.RetryPolicy{Kind: hub.RetrySchedule, StepsMillis: []int64{0, 1000, 1000}}
			})
			r.after(time.Second)
			r.ingest(r.deliveries(0, 40))
			r.after(3 * time.Hour)
			dead := 0
			for _, o := range r.queue.history() {
				if o.Decision.State == hub.Dead {
					dead++
				}
			}
			tried := map[hub.DeliveryID]int32{}
			for _, s := range r.sink.log() {
				tried[s.id]++
			}
			receiver.mended.Store(true)
			r.after(15 * time.Minute)
			if left := len(r.queue.left()); left != 0 {
				t.Fatalf("%d wait after the recovery", left)
			}
			delivered := 0
			for _, o := range r.queue.history() {
				if o.Decision.State != hub.Delivered {
					continue
				}
				delivered++
				if o.Attempt.Number != tried[o.Delivery.ID]+1 {
					t.Errorf("delivered by attempt %d after %d requests", o.Attempt.Number, tried[o.Delivery.ID])
				}
			}
			if dead+delivered != 40 || delivered < 20 {
				t.Errorf("%d dead and %d delivered of 40", dead, delivered)
			}
		})
	})
	t.Run("a_last_attempt_runs_behind_it", func(t *testing.T) {
		receiver := &broken{}
		bubble(t, 2, func(r *rig, _ *Deps) { r.sink.do = receiver.answer }, func(r *rig) {
			r.store.change(func(c *db.TenantConfig) {
				c.Subscriptions[0].RetryPolicy = hub.RetryPolicy{Kind: hub.RetrySchedule, StepsMillis: []int64{0, 3000}}
			})
			r.after(time.Second)
			list := r.deliveries(0, 4)
			r.ingest(list)
			r.after(20 * time.Second) // well before the probe
			history := r.queue.history()
			if len(history) != 8 || len(r.queue.left()) != 0 {
				t.Fatalf("%d attempts recorded, %d left: last attempts waited for the circuit", len(history), len(r.queue.left()))
			}
			for _, o := range history[4:] {
				if o.Decision.DeadReason != hub.DeadExhausted {
					t.Errorf("end = %+v", o.Decision)
				}
			}
			if s := r.boards.State(r.lanes[0]); s.Phase != breaker.Open {
				t.Errorf("circuit = %+v notices %+v", s, r.boards.Notices())
			}
		})
	})
	t.Run("a_success_of_a_last_attempt_closes_it", func(t *testing.T) {
		receiver := &broken{}
		bubble(t, 1, func(r *rig, _ *Deps) { r.sink.do = receiver.answer }, func(r *rig) {
			r.ingest(r.deliveries(0, 6))
			r.after(10 * time.Second)
			if s := r.boards.State(r.lanes[0]); s.Phase != breaker.Open {
				t.Fatalf("circuit = %s", s.Phase)
			}
			receiver.mended.Store(true)
			last := r.deliveries(0, 1)
			last[0].Last = true
			r.ingest(last)
			r.after(3 * time.Second)
			if s := r.boards.State(r.lanes[0]); s.Phase != breaker.Closed {
				t.Errorf("circuit = %s after a success", s.Phase)
			}
		})
	})
	t.Run("first_new_event_after_a_silence_is_the_probe_at_once", func(t *testing.T) {
		receiver := &broken{}
		bubble(t, 1, func(r *rig, _ *Deps) { r.sink.do = receiver.answer }, func(r *rig) {
			r.store.change(func(c *db.TenantConfig) {
				c.Subscriptions[0].RetryPolicy = hub.RetryPolicy{Kind: hub.RetrySchedule, StepsMillis: []int64{0}}
			})
			r.after(time.Second)
			r.ingest(r.deliveries(0, 6))
			r.after(time.Hour) // the queue is empty, nothing to probe with
			if len(r.queue.left()) != 0 {
				t.Fatalf("%d left", len(r.queue.left()))
			}
			receiver.mended.Store(true)
			begun := time.Now()
			r.store.change(func(c *db.TenantConfig) { c.Subscriptions[0].RetryPolicy = hub.RetryPolicy{} })
			r.after(time.Second)
			before := len(r.sink.log())
			begun = time.Now()
			r.ingest(r.deliveries(0, 1))
			r.after(time.Second)
			if log := r.sink.log(); len(log) != before+1 || log[before].at.Sub(begun) > lookEvery {
				t.Errorf("sent %+v, want the event within a look", log[before:])
			}
		})
	})
	t.Run("one_probe_in_the_cluster", func(t *testing.T) {
		receiver := &broken{took: 5 * time.Second}
		bubble(t, 1, func(r *rig, _ *Deps) { r.sink.do = receiver.answer }, func(r *rig) {
			r.replica()
			r.replica()
			r.ingest(r.deliveries(0, 200))
			r.after(2 * time.Minute)
			if s := r.boards.State(r.lanes[0]); !s.IsOpen() {
				t.Fatalf("circuit = %s", s.Phase)
			}
			r.sink.mu.Lock()
			r.sink.most[r.lanes[0].Destination] = 0
			r.sink.mu.Unlock()
			before := len(r.sink.log())
			r.after(time.Hour)
			if most := r.sink.peak(r.lanes[0].Destination); most != 1 {
				t.Errorf("%d probes at once", most)
			}
			// After 10 minutes at the latest, each probe waits for the next.
			if n := len(r.sink.log()) - before; n < 5 || n > 9 {
				t.Errorf("%d probes in an hour", n)
			}
		})
	})
	t.Run("new_deliveries_are_left_to_the_queue", func(t *testing.T) {
		bubble(t, 1, func(r *rig, _ *Deps) { r.sink.do = refusing }, func(r *rig) {
			r.store.change(func(c *db.TenantConfig) {
				c.Subscriptions[0].RetryPolicy = hub.RetryPolicy{Kind: hub.RetrySchedule, StepsMillis: []int64{0}}
			})
			r.after(time.Second)
			r.ingest(r.deliveries(0, 6))
			r.after(2 * time.Second)
			list := r.deliveries(0, 1)
			if r.pool.Reserve(list); list[0].LeaseToken != 0 {
				t.Error("a delivery behind an open circuit was reserved")
			}
		})
	})
	t.Run("subscriptions_of_one_destination_share_it", func(t *testing.T) {
		receiver := &broken{}
		bubble(t, 1, func(r *rig, _ *Deps) { r.sink.do = receiver.answer }, func(r *rig) {
			another := hub.SubscriptionID{ID: newID()}
			r.store.change(func(c *db.TenantConfig) {
				c.Subscriptions[0].RetryPolicy = hub.RetryPolicy{Kind: hub.RetrySchedule, StepsMillis: []int64{0}}
				s := c.Subscriptions[0]
				s.ID = another
				c.Subscriptions = append(slices.Clone(c.Subscriptions), s)
			})
			r.after(time.Second)
			ofAnother := func(n int) []db.NewDelivery {
				list := r.deliveries(0, n)
				for i := range list {
					list[i].Delivery.Subscription = another
				}
				return list
			}
			receiver.mended.Store(true)
			r.ingest(r.deliveries(0, 10))
			r.after(time.Second)
			// Four failures of one, successes of the other, and so on: no row.
			for range 2 {
				receiver.mended.Store(false)
				r.ingest(r.deliveries(0, 4))
				r.after(time.Second)
				receiver.mended.Store(true)
				r.ingest(ofAnother(6))
				r.after(time.Second)
			}
			if s := r.boards.State(r.lanes[0]); s.IsOpen() || len(r.sink.log()) != 30 {
				t.Fatalf("%d sent, circuit = %+v", len(r.sink.log()), s)
			}
			receiver.mended.Store(false)
			r.ingest(append(r.deliveries(0, 3), ofAnother(2)...))
			r.after(2 * time.Second)
			if s := r.boards.State(r.lanes[0]); s.Phase != breaker.Open || s.Cause != breaker.CauseRow {
				t.Fatalf("five failures in a row of both: circuit = %+v", s)
			}
			before := len(r.sink.log())
			r.ingest(ofAnother(5))
			r.after(5 * time.Second)
			if n := len(r.sink.log()) - before; n != 0 {
				t.Errorf("%d of the other were sent behind it", n)
			}
			receiver.mended.Store(true)
			r.after(time.Minute)
			if left := len(r.queue.left()); left != 0 || r.boards.State(r.lanes[0]).IsOpen() {
				t.Errorf("%d wait, circuit = %+v", left, r.boards.State(r.lanes[0]))
			}
		})
	})
	t.Run("neighbours_notice_nothing", func(t *testing.T) {
		bubble(t, 2, func(r *rig, _ *Deps) {
			r.sink.do = func(ctx context.Context, job sink.Job) hub.Failure {
				if job.Delivery.Destination == r.lanes[0].Destination {
					return refusing(ctx, job)
				}
				return hub.Failure{}
			}
		}, func(r *rig) {
			r.ingest(r.deliveries(0, 50))
			r.after(time.Second)
			begun := time.Now()
			r.ingest(r.deliveries(1, 20))
			r.after(time.Second)
			n := 0
			for _, s := range r.sink.log() {
				if s.to == r.lanes[1].Destination {
					n++
					if s.at.Sub(begun) > lookEvery {
						t.Errorf("one came after %s", s.at.Sub(begun))
					}
				}
			}
			if n != 20 {
				t.Errorf("%d of 20 arrived", n)
			}
		})
	})
}

func TestPool_recovery_is_a_ramp(t *testing.T) {
	receiver := &broken{took: 200 * time.Millisecond}
	bubble(t, 1, func(r *rig, d *Deps) {
		r.sink.do = receiver.answer
		d.Workers = 64
	}, func(r *rig) {
		r.ingest(r.deliveries(0, 2000))
		r.after(20 * time.Second)
		if s := r.boards.State(r.lanes[0]); s.Phase != breaker.Open {
			t.Fatalf("circuit = %s", s.Phase)
		}
		r.sink.mu.Lock()
		r.sink.most[r.lanes[0].Destination] = 0
		before := len(r.sink.sent)
		r.sink.mu.Unlock()
		receiver.mended.Store(true)
		r.after(25 * time.Minute)
		var starts []time.Time
		for _, s := range r.sink.log()[before:] {
			starts = append(starts, s.at)
		}
		slices.SortFunc(starts, time.Time.Compare)
		// A round takes 200 ms, and each may be twice the one before.
		begun := starts[0]
		for round, most := 0, 1; round < 6; round, most = round+1, most*2 {
			n := 0
			for _, s := range starts {
				if at := s.Sub(begun); at < time.Duration(round+1)*200*time.Millisecond {
					n++
				}
			}
			if n > 2*most {
				t.Errorf("%d attempts began within the first %d rounds", n, round+1)
			}
		}
		if left := len(r.queue.left()); left != 0 {
			t.Errorf("%d of 2000 wait still", left)
		}
		if most := r.sink.peak(r.lanes[0].Destination); most > DestinationCap(64) {
			t.Errorf("%d at once", most)
		}
	})
}
