package dispatch

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/streaming-hub/streaming-hub/db"
)

func TestPool_stop(t *testing.T) {
	t.Run("waiting_ones_go_back_and_running_ones_end", func(t *testing.T) {
		bubble(t, 3, func(r *rig, _ *Deps) { r.sink.do = sleeping(10 * time.Second) }, func(r *rig) {
			r.proven()
			r.ingest(r.deliveries(0, 10))
			r.ingest(r.deliveries(1, 10))
			r.after(time.Second)
			r.stop()
			r.after(0)
			if len(r.queue.givenBack()) != 12 {
				t.Errorf("%d leases were given back at once, want 12", len(r.queue.givenBack()))
			}
			select {
			case <-r.done:
				t.Fatal("Run returned with attempts under way")
			default:
			}
			// What ingest still brings is not kept either.
			late := r.deliveries(2, 1)
			r.pool.Reserve(late)
			if late[0].LeaseToken != 0 {
				t.Error("a stopping pool reserved a delivery")
			}
			stopped := time.Now()
			<-r.done
			if took := time.Since(stopped); took != 9*time.Second {
				t.Errorf("Run returned %s after the stop, the attempts had 9 s to go", took)
			}
			if len(r.queue.history()) != 8 || len(r.sink.log()) != 8 {
				t.Errorf("%d sent, %d recorded, want the 8 that were under way", len(r.sink.log()), len(r.queue.history()))
			}
			for _, row := range r.queue.left() {
				if row.token != 0 {
					t.Error("a lease was left behind")
				}
			}
		})
	})
	t.Run("reserved_before_and_stored_after_goes_back", func(t *testing.T) {
		bubble(t, 1, nil, func(r *rig) {
			r.proven()
			list := r.deliveries(0, 3)
			r.pool.Reserve(list)
			r.queue.insert(list, r.pool.Lease())
			r.stop()
			r.after(0)
			r.pool.Submit(list, nil, time.Now())
			r.after(0)
			if len(r.queue.givenBack()) != 3 || len(r.sink.log()) != 0 {
				t.Errorf("%d released, %d sent", len(r.queue.givenBack()), len(r.sink.log()))
			}
		})
	})
	t.Run("hard_end_records_nothing_of_what_it_cut_off", func(t *testing.T) {
		bubble(t, 1, func(r *rig, _ *Deps) { r.sink.do = sleeping(10 * time.Second) }, func(r *rig) {
			r.proven()
			r.ingest(r.deliveries(0, 2))
			r.after(time.Second)
			r.stop()
			r.hard()
			<-r.done
			if len(r.queue.history()) != 0 || len(r.queue.left()) != 2 {
				t.Errorf("%d recorded, %d left", len(r.queue.history()), len(r.queue.left()))
			}
			for _, row := range r.queue.left() {
				if row.delivery.Attempts != 0 || row.token == 0 {
					t.Errorf("row = %+v, want it to wait for the end of its lease", row)
				}
			}
		})
	})
	t.Run("outcomes_that_cannot_be_written_do_not_hold_it_past_the_hard_end", func(t *testing.T) {
		bubble(t, 1, nil, func(r *rig) {
			r.queue.setAway(true)
			r.proven()
			r.ingest(r.deliveries(0, 2))
			r.after(time.Second)
			r.stop()
			r.after(time.Minute)
			select {
			case <-r.done:
				t.Fatal("it gave up before the hard end")
			default:
			}
			r.hard()
			<-r.done
		})
	})
}

func TestPool_while_the_database_is_away(t *testing.T) {
	var said bytes.Buffer
	bubble(t, 4, func(_ *rig, d *Deps) {
		d.Unwritten, d.Log = 5, slog.New(slog.NewTextHandler(&said, nil))
	}, func(r *rig) {
		r.proven()
		r.queue.setAway(true)
		var all []db.NewDelivery
		for lane := range 4 {
			all = append(all, r.deliveries(lane, 5)...)
		}
		r.ingest(all)
		r.after(20 * time.Second)
		// One attempt of each of the 8 workers, and 5 outcomes that wait.
		if got := len(r.sink.log()); got != 8+5 {
			t.Errorf("%d requests were sent that nobody can record, want 13", got)
		}
		r.queue.setAway(false)
		r.after(10 * time.Second)
		r.wantSettled(20)
	})
	// However long it is away, each thing that cannot be done is said once, and
	// once that it can be done again.
	for _, what := range []string{"look for due deliveries", "write outcomes"} {
		if cannot, can := strings.Count(said.String(), "cannot "+what), strings.Count(said.String(), "can "+what+" again"); cannot != 1 || can != 1 {
			t.Errorf("%q was said %d times, its end %d times", what, cannot, can)
		}
	}
	if lines := strings.Count(said.String(), "\n"); lines > 12 {
		t.Errorf("%d lines:\n%s", lines, said.String())
	}
}
