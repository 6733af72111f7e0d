package dispatch

import (
	"testing"
	"time"

	"github.com/streaming-hub/streaming-hub/db"
)

// limited gives the first destination limits.
func (r *rig) limited(rate, inFlight int32) {
	r.store.change(func(c *db.TenantConfig) {
		d := c.Destinations[r.lanes[0].Destination]
		d.Destination.RateLimit, d.Destination.MaxInFlight = rate, inFlight
		c.Destinations[r.lanes[0].Destination] = d
	})
	r.after(time.Second)
}

func (r *rig) queued(lane, n int) {
	list := r.deliveries(lane, n)
	for i := range list {
		list[i].Limited = true
	}
	r.ingest(list)
}

func TestPool_rate_limit(t *testing.T) {
	t.Run("holds_in_every_second_over_two_processes", func(t *testing.T) {
		bubble(t, 2, func(r *rig, d *Deps) {
			d.Workers = 32
			r.sink.do = sleeping(10 * time.Millisecond)
		}, func(r *rig) {
			const rate, seconds = 50, 60
			r.limited(rate, 0)
			r.replica()
			r.queued(0, 10_000)
			begun := time.Now()
			r.after(seconds * time.Second)
			var starts []time.Time
			for _, s := range r.sink.log() {
				starts = append(starts, s.at)
			}
			for i := rate + 5; i < len(starts); i++ {
				if d := starts[i].Sub(starts[i-rate-5]); d < time.Second {
					t.Fatalf("%d attempts within %s at %s: more than %d a second", rate+6, d, starts[i].Sub(begun), rate)
				}
			}
			if n := len(starts); n < rate*seconds*9/10 || n > rate*(seconds+1) {
				t.Errorf("%d attempts in %d s at %d a second", n, seconds, rate)
			}
		})
	})
	t.Run("a_slow_one_waits_and_uses_up_no_attempt", func(t *testing.T) {
		bubble(t, 1, nil, func(r *rig) {
			r.limited(1, 0)
			r.queued(0, 20)
			r.after(30 * time.Second)
			r.wantSettled(20)
			for _, s := range r.sink.log() {
				if s.number != 1 {
					t.Errorf("attempt number %d", s.number)
				}
			}
		})
	})
	t.Run("after_a_recovery_too", func(t *testing.T) {
		receiver := &broken{}
		bubble(t, 1, func(r *rig, d *Deps) {
			d.Workers = 32
			r.sink.do = receiver.answer
		}, func(r *rig) {
			r.limited(50, 0)
			r.queued(0, 10_000)
			r.after(10 * time.Minute)
			receiver.mended.Store(true)
			before := len(r.sink.log())
			r.after(15 * time.Minute)
			starts := r.sink.log()[before:]
			if len(starts) < 9_000 {
				t.Fatalf("%d of 10 000 went out after the recovery", len(starts))
			}
			for i := 55; i < len(starts); i++ {
				if d := starts[i].at.Sub(starts[i-55].at); d < time.Second {
					t.Fatalf("56 attempts within %s, at a limit of 50 a second", d)
				}
			}
		})
	})
}

func TestPool_max_in_flight_holds_over_processes(t *testing.T) {
	bubble(t, 2, func(r *rig, d *Deps) {
		d.Workers = 32
		r.sink.do = sleeping(300 * time.Millisecond)
	}, func(r *rig) {
		r.limited(0, 3)
		r.replica()
		r.replica()
		r.queued(0, 300)
		r.ingest(r.deliveries(1, 200))
		r.after(time.Minute)
		if most := r.sink.peak(r.lanes[0].Destination); most != 3 {
			t.Errorf("%d attempts were under way at once, want 3", most)
		}
		if n := r.arrived(0, 1, time.Time{}); n < 300 {
			t.Errorf("%d of 300 arrived: slots stood idle", n)
		}
		if n := r.arrived(1, 2, time.Time{}); n != 200 {
			t.Errorf("%d of the neighbour's 200 arrived", n)
		}
	})
}
