package dispatch

import (
	"context"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/streaming-hub/streaming-hub/dataplane/sink"
	"github.com/streaming-hub/streaming-hub/db"
	"github.com/streaming-hub/streaming-hub/hub"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func sleeping(d time.Duration) func(context.Context, sink.Job) hub.Failure {
	return func(ctx context.Context, _ sink.Job) hub.Failure {
		select {
		case <-time.After(d):
			return hub.Failure{}
		case <-ctx.Done():
			return hub.Failure{Class: hub.ErrCancelled}
		}
	}
}

func refusing(context.Context, sink.Job) hub.Failure {
	return hub.Failure{Class: hub.ErrConnect, Phase: hub.PhaseConnect, Detail: "refused"}
}

func TestPool_born_claimed_is_sent_at_once_without_a_claim(t *testing.T) {
	bubble(t, 2, nil, func(r *rig) {
		r.proven()
		list := append(r.deliveries(0, 3), r.deliveries(1, 2)...)
		r.ingest(list)
		r.after(0)
		if r.queue.claims() != 0 {
			t.Errorf("%d were claimed through the queue", r.queue.claims())
		}
		r.wantSettled(5)
		for _, s := range r.sink.log() {
			if s.number != 1 {
				t.Errorf("attempt number %d", s.number)
			}
		}
		for _, o := range r.queue.history() {
			if o.Token == 0 || o.EventType != "loan.approved" || o.Source != "lender" || o.Decision.State != hub.Delivered {
				t.Errorf("outcome = %+v", o)
			}
		}
	})
}

func TestPool_reserves_only_what_it_can_take(t *testing.T) {
	bubble(t, 3, func(_ *rig, d *Deps) { d.Workers = 4 }, func(r *rig) {
		reserved := func(list []db.NewDelivery) (n int) {
			r.pool.Reserve(list)
			for _, d := range list {
				if d.LeaseToken != 0 {
					n++
				}
			}
			return n
		}
		r.proven()
		_, room := r.pool.Held()
		later := r.deliveries(0, 1)
		later[0].DueIn = time.Second
		if n := reserved(later); n != 0 {
			t.Error("a delivery that is due later was reserved")
		}
		one, two, three := r.deliveries(0, 100), r.deliveries(1, 100), r.deliveries(2, 100)
		if n := reserved(one); n != LaneShare(room, false, 2) {
			t.Errorf("one lane got %d of a room of %d", n, room)
		}
		if n := reserved(two); n != room-LaneShare(room, false, 2) {
			t.Errorf("the second lane got %d of a room of %d", n, room)
		}
		if n := reserved(three); n != 1 {
			t.Errorf("a lane of which nothing is held got %d, want one beyond the room", n)
		}
		r.pool.Cancel(three)
		r.pool.Cancel(one)
		r.pool.Cancel(two)
		if held, _ := r.pool.Held(); held != 0 || one[0].LeaseToken != 0 {
			t.Errorf("%d held after all was cancelled", held)
		}
		// A lane with a backlog goes through the queue, so that none is overtaken.
		r.queue.setAway(true)
		r.pool.Submit(r.deliveries(0, 1), nil, time.Now())
		if n := reserved(r.deliveries(0, 1)); n != 0 {
			t.Error("a delivery overtook the backlog of its lane")
		}
		if list := r.deliveries(1, 1); reserved(list) != 1 {
			t.Error("a lane without backlog got nothing")
		} else {
			r.pool.Cancel(list)
		}
	})
}

func TestPool_overflow_goes_through_the_backlog(t *testing.T) {
	bubble(t, 3, func(r *rig, _ *Deps) { r.sink.do = sleeping(20 * time.Millisecond) }, func(r *rig) {
		for lane := range 3 {
			r.ingest(r.deliveries(lane, 200))
		}
		r.after(10 * time.Second)
		if r.queue.claims() == 0 {
			t.Error("nothing was claimed")
		}
		r.wantSettled(600)
	})
}

func TestPool_what_comes_during_a_claim_is_not_forgotten(t *testing.T) {
	bubble(t, 1, nil, func(r *rig) {
		late := r.deliveries(0, 1)
		claims := 0
		r.queue.onClaim = func() {
			if claims++; claims == 1 { // the claim has seen one delivery, and here is the next
				r.queue.insert(late, 0)
				r.pool.Submit(late, nil, time.Now())
			}
		}
		first := r.deliveries(0, 1)
		r.queue.insert(first, 0)
		r.pool.Submit(first, nil, time.Now())
		r.after(0) // not at the next look only
		r.wantSettled(2)
	})
}

func TestPool_takes_what_others_left(t *testing.T) {
	bubble(t, 2, nil, func(r *rig) {
		list := append(r.deliveries(0, 50), r.deliveries(1, 50)...)
		list[0].LeaseToken = 77 // of a process that died
		r.queue.insert(list, 10*time.Second)
		r.after(time.Second)
		if got := len(r.sink.log()); got != 99 {
			t.Errorf("%d sent within a second, want all but the one under a lease", got)
		}
		r.after(10 * time.Second)
		r.wantSettled(100)
	})
}

func TestPool_destination_takes_half_of_the_workers(t *testing.T) {
	bubble(t, 2, func(r *rig, _ *Deps) {
		r.sink.do = func(ctx context.Context, job sink.Job) hub.Failure {
			if job.Delivery.Destination == r.lanes[0].Destination {
				return sleeping(14*time.Second)(ctx, job)
			}
			return sleeping(time.Millisecond)(ctx, job)
		}
	}, func(r *rig) {
		r.proven()                    // it was fast until now
		r.ingest(r.deliveries(0, 60)) // more than all workers
		r.after(time.Second)
		r.ingest(r.deliveries(1, 10))
		r.after(time.Second)
		healthy := 0
		for _, o := range r.queue.history() {
			if o.Delivery.Destination == r.lanes[1].Destination {
				healthy++
			}
		}
		if healthy != 10 {
			t.Errorf("%d of the neighbour's 10 deliveries got through", healthy)
		}
		if most := r.sink.peak(r.lanes[0].Destination); most != 4 {
			t.Errorf("the slow destination had %d workers at once, want 4 of 8", most)
		}
		r.after(5 * time.Minute)
		if most := r.sink.peak(r.lanes[0].Destination); most != 4 {
			t.Errorf("the slow destination had %d workers at once, want 4 of 8", most)
		}
		r.wantSettled(70)
	})
}

func TestPool_too_short_a_lease_is_given_back_not_sent(t *testing.T) {
	bubble(t, 1, nil, func(r *rig) {
		list := r.deliveries(0, 1)
		r.pool.Reserve(list)
		r.queue.insert(list, r.pool.Lease())
		stood := time.Now()
		r.after(r.pool.Lease() - hub.DefaultTimeout - leaseMargin + time.Millisecond) // a commit that hung
		if len(r.sink.log()) != 0 {
			t.Fatal("sent before it was submitted")
		}
		r.pool.Submit(list, map[hub.EventID]*hub.Event{list[0].Delivery.Event: {}}, stood)
		r.after(0)
		if len(r.sink.log()) != 0 || len(r.queue.givenBack()) != 1 || r.queue.givenBack()[0].putOff != 0 {
			t.Fatalf("sent %d, released %+v", len(r.sink.log()), r.queue.givenBack())
		}
		r.after(time.Second) // claimed anew, with a whole lease
		r.wantSettled(1)
	})
}

func TestPool_whole_curve_ends_exhausted(t *testing.T) {
	bubble(t, 1, func(r *rig, _ *Deps) { r.sink.do = refusing }, func(r *rig) {
		begun := time.Now()
		r.ingest(r.deliveries(0, 1))
		for len(r.queue.left()) > 0 && time.Since(begun) < 48*time.Hour {
			r.after(10 * time.Minute)
		}
		if len(r.sink.log()) != 8 || len(r.queue.history()) != 8 {
			t.Fatalf("%d sent, %d recorded, want 8 attempts", len(r.sink.log()), len(r.queue.history()))
		}
		for i, s := range r.sink.log() {
			if s.number != int32(i+1) {
				t.Errorf("attempt %d has number %d", i+1, s.number)
			}
		}
		last := r.queue.history()[7].Decision
		if last.State != hub.Dead || last.DeadReason != hub.DeadExhausted {
			t.Errorf("end = %+v", last)
		}
		const latest = 27*time.Hour + 35*time.Minute + 5*time.Second
		// A retry starts at most one look after it came due.
		if took := r.sink.log()[7].at.Sub(begun); took < latest-time.Second || took > latest+7*lookEvery {
			t.Errorf("the last attempt came after %s, want %s", took, latest)
		}
		if held, _ := r.pool.Held(); held != 0 {
			t.Errorf("%d held", held)
		}
	})
}
