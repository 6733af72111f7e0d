package db_test

import (
	"testing"
	"time"

	"github.com/streaming-hub/streaming-hub/db"
	"github.com/streaming-hub/streaming-hub/hub"
)

// wantCounted says what outcomes have counted of a job.
func (l *lab) wantCounted(id hub.JobID, tried, failed, delivered, dead int64) {
	l.Helper()
	if j := l.jobOf(id); j.Tried != tried || j.Failed != failed || j.Delivered != delivered || j.Dead != dead {
		l.Errorf("tried %d, failed %d, delivered %d, dead %d; want %d, %d, %d, %d", j.Tried, j.Failed, j.Delivered, j.Dead, tried, failed, delivered, dead)
	}
}

func TestRecordOutcomes_move_the_items_of_jobs(t *testing.T) {
	t.Parallel()
	// running is a job whose items wait in the queue.
	running := func(t *testing.T, n int) (*shop, hub.JobID) {
		t.Parallel()
		s := newLab(t).opened("acme")
		s.died(n)
		id := s.job("acme", hub.ReplayFilter{})
		s.started(id)
		s.release(id, n)
		return s, id
	}
	soon := func(o hub.Outcome) hub.Outcome {
		o.Decision.NextAt = time.Now().Add(-time.Second)
		return o
	}
	t.Run("delivered_at_once", func(t *testing.T) {
		s, id := running(t, 1)
		s.record(outcome(s.claim(s.lane, 1, time.Minute)[0], hub.Delivered))
		s.wantItems(id, hub.ItemDelivered, 1)
		s.wantCounted(id, 1, 0, 1, 0)
	})
	t.Run("failed_first_counts_once_whatever_follows", func(t *testing.T) {
		s, id := running(t, 1)
		for range 3 {
			s.record(soon(outcome(s.claim(s.lane, 1, time.Minute)[0], hub.Waiting)))
			s.wantItems(id, hub.ItemFailing, 1)
			s.wantCounted(id, 1, 1, 0, 0)
		}
		s.record(outcome(s.claim(s.lane, 1, time.Minute)[0], hub.Delivered))
		s.wantItems(id, hub.ItemDelivered, 1)
		s.wantCounted(id, 1, 1, 1, 0)
	})
	t.Run("dead_at_once_and_later", func(t *testing.T) {
		s, id := running(t, 2)
		claims := s.claim(s.lane, 2, time.Minute)
		s.record(outcome(claims[0], hub.Dead), soon(outcome(claims[1], hub.Waiting)))
		s.wantCounted(id, 2, 2, 0, 1)
		s.record(outcome(s.claim(s.lane, 1, time.Minute)[0], hub.Dead))
		s.wantItems(id, hub.ItemDead, 2)
		s.wantCounted(id, 2, 2, 0, 2)
	})
	t.Run("what_used_up_no_attempt_leaves_the_item", func(t *testing.T) {
		s, id := running(t, 1)
		o := soon(outcome(s.claim(s.lane, 1, time.Minute)[0], hub.Waiting))
		o.Decision.Counted = false
		s.record(o)
		s.wantItems(id, hub.ItemReleased, 1)
		s.wantCounted(id, 0, 0, 0, 0)
	})
	t.Run("a_lost_lease_moves_nothing", func(t *testing.T) {
		s, id := running(t, 1)
		late := s.claim(s.lane, 1, 0)[0]
		now := s.claim(s.lane, 1, time.Minute)[0]
		s.record(outcome(late, hub.Delivered))
		s.wantCounted(id, 0, 0, 0, 0)
		s.record(outcome(late, hub.Delivered), outcome(now, hub.Dead))
		s.wantItems(id, hub.ItemDead, 1)
		s.wantCounted(id, 1, 1, 0, 1)
	})
	t.Run("the_last_attempt_behind_an_open_circuit", func(t *testing.T) {
		s, id := running(t, 1)
		s.exec(`UPDATE delivery_queue SET last_at = now()`)
		claims, err := s.db.ClaimLast(t.Context(), []db.LaneQuota{{Lane: s.lane, Quota: 1}}, time.Minute)
		if err != nil || len(claims) != 1 || claims[0].Delivery.Job != id {
			t.Fatalf("claimed %+v, %v", claims, err)
		}
		s.record(outcome(claims[0], hub.Dead))
		s.wantCounted(id, 1, 1, 0, 1)
	})
	t.Run("several_jobs_in_one_flush", func(t *testing.T) {
		s, id := running(t, 1)
		claims := s.claim(s.lane, 1, time.Minute)
		s.died(2)
		second := s.job("acme", hub.ReplayFilter{})
		s.started(second)
		s.release(second, 2)
		s.queue(s.lane, 1)
		claims = append(claims, s.claim(s.lane, 9, time.Minute)...)
		var outcomes []hub.Outcome
		for _, c := range claims {
			outcomes = append(outcomes, outcome(c, hub.Delivered))
		}
		if n := len(s.record(outcomes...)); n != 4 {
			t.Fatalf("recorded %d", n)
		}
		s.wantCounted(id, 1, 0, 1, 0)
		s.wantCounted(second, 2, 0, 2, 0)
	})
	t.Run("item_and_outcome_are_one_transaction", func(t *testing.T) {
		s, id := running(t, 1)
		claim := s.claim(s.lane, 1, time.Minute)[0]
		s.failCommits("replay_progress")
		if _, err := s.db.RecordOutcomes(t.Context(), newID(), []hub.Outcome{outcome(claim, hub.Delivered)}); err == nil {
			t.Fatal("a commit that fails was taken for one that does not")
		}
		s.wantItems(id, hub.ItemReleased, 1)
		s.wantCount("rows in the queue", 1, `SELECT count(*) FROM delivery_queue WHERE job_id IS NOT NULL`)
	})
	t.Run("the_end_of_a_delivery_that_waited", func(t *testing.T) {
		s, id := running(t, 3)
		s.record(soon(outcome(s.claim(s.lane, 1, time.Minute)[0], hub.Waiting)))
		s.exec(`UPDATE event_subscriptions SET deleted_at = now()`)
		s.exec("INSERT INTO lane_chores (id, tenant_id, subscription_id, destination_id) VALUES ($1, 'acme', $2, $3)", text(newID()), text(s.sub), text(s.lane.Destination))
		if _, err := s.db.DoChore(t.Context(), 10, newID(), ended); err != nil {
			t.Fatal(err)
		}
		s.wantItems(id, hub.ItemDead, 3)
		s.wantCounted(id, 3, 3, 0, 3)
	})
	t.Run("a_single_redelivery_is_of_no_job", func(t *testing.T) {
		s, id := running(t, 1)
		c := s.claim(s.lane, 1, time.Minute)[0]
		s.record(outcome(c, hub.Dead))
		s.begin(&c.Delivery)
		again := s.claim(s.lane, 1, time.Minute)[0]
		if !again.Delivery.Job.IsZero() {
			t.Errorf("it is of job %s", again.Delivery.Job)
		}
		s.record(outcome(again, hub.Delivered))
		s.wantItems(id, hub.ItemDead, 1)
		s.wantCounted(id, 1, 1, 0, 1)
	})
}

// Whoever records outcomes does not wait for whoever is at the job.
func TestRecordOutcomes_wait_for_no_job(t *testing.T) {
	t.Parallel()
	s := newLab(t).opened("acme")
	s.died(1)
	id := s.job("acme", hub.ReplayFilter{})
	s.started(id)
	s.release(id, 1)
	tx, err := s.raw.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(t.Context())
	if _, err := tx.Exec(t.Context(), `SELECT FROM replay_jobs FOR UPDATE`); err != nil {
		t.Fatal(err)
	}
	s.record(outcome(s.claim(s.lane, 1, time.Minute)[0], hub.Delivered))
	s.wantCounted(id, 1, 0, 1, 0)
}
