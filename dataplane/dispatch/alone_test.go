package dispatch

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/streaming-hub/streaming-hub/dataplane/sink"
	"github.com/streaming-hub/streaming-hub/hub"
)

// A delivery whose attempts panic keeps its lease until that runs out, which
// is what a crash of the process looks like to the database.
func TestPool_poison(t *testing.T) {
	t.Run("ends_after_five_counted_reclaims_and_its_neighbours_do_not", func(t *testing.T) {
		var poison hub.DeliveryID
		var mu sync.Mutex
		bubble(t, 2, func(r *rig, _ *Deps) {
			r.sink.do = func(_ context.Context, job sink.Job) hub.Failure {
				mu.Lock()
				defer mu.Unlock()
				if job.Delivery.ID == poison {
					panic("a fault that this delivery provokes")
				}
				return hub.Failure{}
			}
		}, func(r *rig) {
			list := r.deliveries(0, 20)
			mu.Lock()
			poison = list[3].Delivery.ID
			mu.Unlock()
			// All were under way in a process that died.
			for i := range list {
				list[i].LeaseToken = int64(77 + i)
			}
			r.queue.insert(list, 10*time.Second)
			r.after(30 * time.Minute)
			delivered, tries := 0, 0
			for _, o := range r.queue.history() {
				if o.Decision.State == hub.Delivered {
					delivered++
				}
			}
			for _, s := range r.sink.log() {
				if s.id == poison {
					tries++
				}
			}
			if delivered != 19 {
				t.Errorf("%d of its 19 neighbours were delivered", delivered)
			}
			// The first reclaim makes it run alone, five more are counted, and
			// the next end of a lease is the last.
			if tries != 6 {
				t.Errorf("%d lone runs, want 6", tries)
			}
			last := r.queue.history()[len(r.queue.history())-1]
			if last.Delivery.ID != poison || last.Decision.DeadReason != hub.DeadPoison || last.Attempt.Number != 0 {
				t.Errorf("end = %+v", last)
			}
			if left := len(r.queue.left()); left != 0 {
				t.Errorf("%d left", left)
			}
		})
	})
	t.Run("one_at_a_time", func(t *testing.T) {
		bubble(t, 3, func(r *rig, _ *Deps) { r.sink.do = sleeping(50 * time.Millisecond) }, func(r *rig) {
			r.proven()
			for lane := range 3 {
				list := r.deliveries(lane, 5)
				for i := range list {
					list[i].LeaseToken = int64(77 + i)
				}
				r.queue.insert(list, time.Second)
			}
			r.after(5 * time.Second)
			r.wantSettled(15)
			log := r.sink.log()
			for i := 1; i < len(log); i++ {
				if log[i].at.Sub(log[i-1].at) < 50*time.Millisecond {
					t.Fatalf("two suspicious deliveries ran at once")
				}
			}
		})
	})
	t.Run("an_outcome_makes_it_innocent", func(t *testing.T) {
		bubble(t, 1, func(r *rig, _ *Deps) { r.sink.do = refusing }, func(r *rig) {
			list := r.deliveries(0, 1)
			list[0].LeaseToken = 77
			r.queue.insert(list, time.Second)
			r.after(3 * time.Second)
			if rows := r.queue.left(); len(rows) != 1 || rows[0].reclaims != 0 || rows[0].delivery.Attempts != 1 {
				t.Errorf("rows = %+v", rows)
			}
		})
	})
	t.Run("leases_given_back_are_not_counted", func(t *testing.T) {
		bubble(t, 1, nil, func(r *rig) {
			r.health.set(true, false)
			r.queue.insert(r.deliveries(0, 1), 0)
			r.after(time.Hour)
			if rows := r.queue.left(); len(rows) != 1 || rows[0].reclaims != 0 || len(r.sink.log()) != 0 {
				t.Errorf("rows = %+v", rows)
			}
		})
	})
	t.Run("while_the_database_is_away_nothing_is_counted_against_the_innocent", func(t *testing.T) {
		bubble(t, 1, nil, func(r *rig) {
			r.queue.insert(r.deliveries(0, 4), 0)
			r.after(0)
			r.queue.setAway(true)
			r.after(10 * time.Minute)
			r.queue.setAway(false)
			r.after(5 * time.Minute)
			r.wantSettled(4)
		})
	})
}
