package dispatch

import (
	"context"
	"testing"
	"time"

	"github.com/streaming-hub/streaming-hub/dataplane/sink"
	"github.com/streaming-hub/streaming-hub/hub"
)

// hanging answers for the first n destinations only when time is up, and for
// the others within 20 ms.
func hanging(r *rig, n int) func(context.Context, sink.Job) hub.Failure {
	return func(ctx context.Context, job sink.Job) hub.Failure {
		for _, l := range r.lanes[:n] {
			if l.Destination == job.Delivery.Destination {
				if f := sleeping(job.Timeout)(ctx, job); f.Failed() {
					return f
				}
				return hub.Failure{Class: hub.ErrTimeout, Phase: hub.PhaseAnswer, Detail: "no answer"}
			}
		}
		return sleeping(20*time.Millisecond)(ctx, job)
	}
}

// arrived counts what destinations got since a moment.
func (r *rig) arrived(from, to int, since time.Time) (n int) {
	ours := map[hub.DestinationID]bool{}
	for _, l := range r.lanes[from:to] {
		ours[l.Destination] = true
	}
	for _, s := range r.sink.log() {
		if ours[s.to] && !s.at.Before(since) {
			n++
		}
	}
	return n
}

func TestPool_hanging_destinations(t *testing.T) {
	const hung, healthy = 50, 10
	t.Run("leave_half_of_the_workers_to_the_others", func(t *testing.T) {
		bubble(t, hung+healthy, func(r *rig, _ *Deps) { r.sink.do = hanging(r, hung) }, func(r *rig) {
			for lane := hung; lane < hung+healthy; lane++ {
				r.ingest(r.deliveries(lane, 5)) // the others are known
			}
			r.after(5 * time.Second)
			for lane := range hung {
				r.ingest(r.deliveries(lane, 20))
			}
			r.after(10 * time.Second)
			// 4 workers at 20 ms make 200 in a second.
			begun := time.Now()
			for range 60 {
				for lane := hung; lane < hung+healthy; lane++ {
					r.ingest(r.deliveries(lane, 18))
				}
				r.pool.mu.Lock()
				if r.pool.suspectRunning > SuspectCap(8) {
					t.Errorf("%d workers are held by destinations that hang", r.pool.suspectRunning)
				}
				r.pool.mu.Unlock()
				r.after(time.Second)
			}
			if got, want := r.arrived(hung, hung+healthy, begun), 60*healthy*18; got < want*9/10 {
				t.Errorf("%d of %d deliveries to the others within their minute", got, want)
			}
			if r.arrived(0, hung, begun) == 0 {
				t.Error("the hanging ones got nothing at all")
			}
		})
	})
	t.Run("do_not_fill_the_memory", func(t *testing.T) {
		bubble(t, hung+1, func(r *rig, _ *Deps) { r.sink.do = hanging(r, hung) }, func(r *rig) {
			for lane := range hung {
				r.ingest(r.deliveries(lane, 100))
			}
			r.after(30 * time.Second)
			r.pool.mu.Lock()
			if r.pool.suspectHeld > SuspectRoom(8) {
				t.Errorf("%d deliveries of hanging destinations are held, want at most %d", r.pool.suspectHeld, SuspectRoom(8))
			}
			r.pool.mu.Unlock()
		})
	})
	t.Run("one_that_begins_to_hang_gives_its_waiting_ones_back", func(t *testing.T) {
		bubble(t, 2, func(r *rig, _ *Deps) { r.sink.do = hanging(r, 1) }, func(r *rig) {
			r.proven()
			r.ingest(r.deliveries(0, 16))
			r.after(2 * time.Second)
			r.pool.mu.Lock()
			held := r.pool.lanes[r.lanes[0]].held
			r.pool.mu.Unlock()
			if most := 4 + LaneShare(32, true, 4); held > most {
				t.Errorf("%d held, want at most %d", held, most)
			}
		})
	})
}
