package dispatch

import (
	"cmp"
	"testing"
	"time"
)

func TestPool_AwaitRoom(t *testing.T) {
	for _, row := range []struct {
		name    string
		n       int
		timed   bool
		manner  *manner
		pace    float64
		held    int
		backlog bool
		want    time.Duration
	}{
		{name: "returns_at_once_with_room", n: 20, timed: true, pace: 1e6, held: 12},
		{name: "returns_at_once_while_nothing_is_held_however_large_the_batch"},
		{name: "does_not_wait_for_slow_destinations", timed: true, held: 32},
		{name: "waits_while_the_pace_is_unknown_but_not_long", held: 32, want: maxYield},
		{name: "waits_for_fast_workers_but_not_long", timed: true, pace: 1e6, held: 32, want: maxYield},
		{name: "does_not_wait_for_the_backlog_of_slow_ones", timed: true, pace: 1e6, backlog: true, manner: &manner{Slow: true}},
		{name: "does_not_wait_for_the_backlog_of_unknown_ones", timed: true, pace: 1e6, backlog: true, manner: &manner{}},
		{name: "waits_for_the_backlog_but_not_long", timed: true, pace: 1e6, backlog: true, want: maxYield},
	} {
		t.Run(row.name, func(t *testing.T) {
			bubble(t, 1, nil, func(r *rig) {
				r.proven()
				r.queue.setAway(true) // nobody claims the backlog
				r.pool.mu.Lock()
				r.pool.timed, r.pool.pace, r.pool.held = row.timed, row.pace, row.held
				if row.manner != nil {
					r.pool.conductOf(r.lanes[0]).manner = *row.manner
				}
				if row.backlog {
					r.pool.addBacklog(r.lanes[0])
				}
				r.pool.mu.Unlock()
				begun := time.Now()
				defer r.pool.AwaitRoom(r.Context(), cmp.Or(row.n, 100))()
				if took := time.Since(begun); took != row.want {
					t.Errorf("it took %s, want %s", took, row.want)
				}
				r.pool.mu.Lock()
				r.pool.held = 0
				r.pool.mu.Unlock()
			})
		})
	}
}

func TestPool_AwaitRoom_promises_room_to_one_batch_only(t *testing.T) {
	bubble(t, 1, nil, func(r *rig) {
		r.pool.mu.Lock()
		r.pool.timed, r.pool.pace, r.pool.room = true, 1e6, 100
		r.pool.mu.Unlock()
		taken := r.pool.AwaitRoom(r.Context(), 60)
		begun := time.Now()
		time.AfterFunc(10*time.Millisecond, taken)
		defer r.pool.AwaitRoom(r.Context(), 60)()
		if took := time.Since(begun); took < 10*time.Millisecond || took >= maxYield {
			t.Errorf("the second batch waited %s for the first one to take its room", took)
		}
	})
}
