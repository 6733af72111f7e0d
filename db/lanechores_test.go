package db_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/streaming-hub/streaming-hub/db"
	"github.com/streaming-hub/streaming-hub/hub"
	"github.com/streaming-hub/streaming-hub/hub/health"
)

func TestDoChore_without_any_there_is_nothing_to_do(t *testing.T) {
	t.Parallel()
	if newDepot(t, 1, 0).step(10) {
		t.Error("it did something")
	}
}

func TestDoChore_holds_what_is_not_deliverable(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ rule, change string }{
		{"disabled", "UPDATE event_subscriptions SET enabled = false, disabled_by = 'USER' WHERE id = $1"},
		{"verification_pending", "UPDATE event_subscriptions SET verification_state = 'PENDING' WHERE id = $1"},
		{"verification_failed", "UPDATE event_subscriptions SET verification_state = 'FAILED' WHERE id = $1"},
	} {
		t.Run(row.rule, func(t *testing.T) {
			t.Parallel()
			d := newDepot(t, 5, 3)
			d.exec("UPDATE delivery_queue SET last_at = now()")
			d.exec(row.change, text(d.sub))
			d.chore(d.lane)
			d.finish()
			d.wantHeld(5)
			d.wantOthers()
			d.wantNothingWritten()
			if claims := d.claim(d.lane, 100, time.Minute); len(claims) != 3 {
				t.Errorf("%d were claimed, want the 3 of the other subscription", len(claims))
			}
		})
	}
	t.Run("destination_frozen", func(t *testing.T) {
		t.Parallel()
		d := newDepot(t, 5, 3)
		d.becomesPolicy(d.lane, ratePolicy, kept())
		d.changeRates(judged(health.Frozen, kept()), d.lane)
		d.finish()
		d.wantCount("held deliveries of both subscriptions", 8, "SELECT count(*) FROM delivery_queue WHERE due_at = 'infinity'")
		d.changeRates(judged(health.Active, kept()), d.lane)
		d.finish()
		d.wantCount("resumed deliveries", 8, "SELECT count(*) FROM delivery_queue WHERE due_at <= now()")
	})
}

func TestDoChore_leaves_alone(t *testing.T) {
	t.Parallel()
	t.Run("leased", func(t *testing.T) {
		t.Parallel()
		for _, change := range []string{
			"UPDATE event_subscriptions SET enabled = false, disabled_by = 'USER' WHERE id = $1",
			"UPDATE event_subscriptions SET deleted_at = now() WHERE id = $1",
		} {
			d := newDepot(t, 3, 0)
			c := d.claim(d.lane, 1, time.Minute)[0]
			d.exec(change, text(d.sub))
			d.chore(d.lane)
			d.finish()
			d.wantCount("rows under their lease", 1, "SELECT count(*) FROM delivery_queue WHERE id = $1 AND lease_token = $2 AND due_at <= now()",
				text(c.Delivery.ID), c.LeaseToken)
			d.wantCount("rows without a lease that wait", 0, "SELECT count(*) FROM delivery_queue WHERE lease_token IS NULL AND due_at <= now()")
			if recorded := d.record(outcome(c, hub.Delivered)); len(recorded) != 1 {
				t.Error("the one in flight could not end")
			}
		}
	})
	t.Run("leased_while_its_subscription_moves", func(t *testing.T) {
		t.Parallel()
		d := newDepot(t, 2, 0)
		d.claim(d.lane, 1, time.Minute)
		to := laneOf("acme")
		d.destination(to, kept())
		d.exec("UPDATE event_subscriptions SET destination_id = $2 WHERE id = $1", text(d.sub), text(to.Destination))
		d.chore(d.lane)
		d.finish()
		d.wantCount("leased rows in their lane", 1, "SELECT count(*) FROM delivery_queue WHERE destination_id = $1 AND lease_token IS NOT NULL", text(d.lane.Destination))
		d.wantCount("moved rows", 1, "SELECT count(*) FROM delivery_queue WHERE destination_id = $1 AND lease_token IS NULL", text(to.Destination))
	})
	t.Run("test_sends", func(t *testing.T) {
		t.Parallel()
		d := newDepot(t, 3, 0)
		d.exec("UPDATE delivery_queue SET test = true WHERE id = $1", text(d.mine[1]))
		d.disable()
		d.chore(d.lane)
		d.finish()
		d.wantHeld(2)
		d.wantCount("test sends that are due", 1, "SELECT count(*) FROM delivery_queue WHERE test AND due_at <= now()")
	})
	t.Run("what_waits_where_it_belongs", func(t *testing.T) {
		t.Parallel()
		d := newDepot(t, 3, 1)
		d.exec("UPDATE delivery_queue SET due_at = now() + interval '1 h', last_at = now() + interval '2 h' WHERE id = $1", text(d.mine[1]))
		d.chore(d.lane)
		d.finish()
		d.wantCount("rows that are due", 2, "SELECT count(*) FROM delivery_queue WHERE subscription_id = $1 AND due_at <= now()", text(d.sub))
		d.wantCount("rows that wait for later", 1, "SELECT count(*) FROM delivery_queue WHERE due_at > now() + interval '59 min' AND last_at > due_at")
		d.wantOthers()
	})
}

func TestDoChore_a_lease_that_ended_is_none(t *testing.T) {
	t.Parallel()
	d := newDepot(t, 2, 0)
	d.claim(d.lane, 2, time.Minute)
	d.exec("UPDATE delivery_queue SET leased_until = now() - interval '1 ms'")
	d.disable()
	d.chore(d.lane)
	d.finish()
	d.wantHeld(2)
}

func TestDoChore_resumes(t *testing.T) {
	t.Parallel()
	d := newDepot(t, 4, 2)
	d.disable()
	d.chore(d.lane)
	d.finish()
	d.wantHeld(4)
	// Where the subscription went meanwhile.
	to := laneOf("acme")
	d.destination(to, kept())
	d.enable()
	d.exec("UPDATE event_subscriptions SET destination_id = $2 WHERE id = $1", text(d.sub), text(to.Destination))
	d.chore(to)
	d.finish()
	d.wantHeld(0)
	d.wantCount("due now in the lane of the present destination", 4, `SELECT count(*) FROM delivery_queue WHERE subscription_id = $1
		AND destination_id = $2 AND due_at BETWEEN now() - interval '1 min' AND now()`, text(d.sub), text(to.Destination))
	d.wantOthers()
	if claims := d.claim(to, 10, time.Minute); len(claims) != 4 {
		t.Errorf("%d were claimed, want 4", len(claims))
	}
}

func TestDoChore_moves_what_waits_and_keeps_its_time(t *testing.T) {
	t.Parallel()
	d := newDepot(t, 4, 2)
	d.exec("UPDATE delivery_queue SET due_at = now() + interval '1 h', last_at = now() + interval '1 h', attempts = 3 WHERE id = $1", text(d.mine[0]))
	to := laneOf("acme")
	d.destination(to, kept())
	d.exec("UPDATE event_subscriptions SET destination_id = $2 WHERE id = $1", text(d.sub), text(to.Destination))
	d.chore(d.lane)
	d.finish()
	d.wantCount("moved", 4, "SELECT count(*) FROM delivery_queue WHERE subscription_id = $1 AND destination_id = $2", text(d.sub), text(to.Destination))
	d.wantCount("moved with their time", 1, `SELECT count(*) FROM delivery_queue WHERE id = $1 AND attempts = 3
		AND due_at > now() + interval '59 min' AND last_at = due_at`, text(d.mine[0]))
	d.wantOthers()
}

func TestDoChore_ends_what_waits_for_a_deleted_subscription(t *testing.T) {
	t.Parallel()
	d := newDepot(t, 5, 2)
	d.exec("UPDATE delivery_queue SET due_at = 'infinity', attempts = 3, run = 2 WHERE id = $1", text(d.mine[0]))
	d.exec("UPDATE delivery_queue SET due_at = now() + interval '1 h' WHERE id = $1", text(d.mine[1]))
	d.exec("UPDATE delivery_queue SET test = true WHERE id = $1", text(d.mine[2]))
	d.exec("UPDATE event_subscriptions SET deleted_at = now() WHERE id = $1", text(d.sub))
	d.chore(d.lane)
	d.finish()
	d.wantCount("ends of test sends", 1, "SELECT count(*) FROM delivery_results WHERE test AND delivery_id = $1", text(d.mine[2]))
	d.wantCount("ends of others", 4, "SELECT count(*) FROM delivery_results WHERE NOT test")
	d.wantCount("rows that are left", 0, "SELECT count(*) FROM delivery_queue WHERE subscription_id = $1", text(d.sub))
	d.wantOthers()
	d.wantCount("dead letters", 5, `SELECT count(*) FROM delivery_results WHERE tenant_id = 'acme' AND state = 'DEAD' AND dead_reason = 'SUBSCRIPTION_DELETED'
		AND last_error = 'the event subscription was deleted' AND fingerprint = $1`, bytes.Repeat([]byte{7}, 16))
	d.wantCount("dead letters of a second run", 1, "SELECT count(*) FROM delivery_results WHERE delivery_id = $1 AND run = 2", text(d.mine[0]))
	d.wantCount("attempts", 0, "SELECT count(*) FROM attempts")
	told := map[hub.DeliveryID]db.FeedItem{}
	for _, item := range d.feed() {
		told[item.Delivery] = item
		if item.State != hub.Dead || item.DeadReason != hub.DeadSubscriptionDeleted || item.Tenant != "acme" || item.Subscription != d.sub ||
			item.Destination != d.lane.Destination || item.EventType != "loan.approved" || item.Source != "lender" || item.Attempted() ||
			!bytes.Equal(item.Fingerprint, bytes.Repeat([]byte{7}, 16)) || time.Since(item.Started()).Abs() > time.Minute {
			t.Errorf("feed item %+v", item)
		}
	}
	if len(told) != 5 || told[d.mine[0]].Number != 3 || told[d.mine[1]].Number != 0 || told[d.mine[1]].Test || !told[d.mine[2]].Test {
		t.Errorf("%d in the feed, want 5: %+v", len(told), told)
	}
	list, err := d.db.DeliveriesByID(t.Context(), d.mine)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range list {
		if s.State != hub.Dead || s.DeadReason != hub.DeadSubscriptionDeleted {
			t.Errorf("%s stands at %s", s.ID, s.State)
		}
	}
}

func TestDoChore_events_past_their_retention_have_no_name(t *testing.T) {
	t.Parallel()
	d := newDepot(t, 1, 0)
	d.exec("DELETE FROM events")
	d.exec("DELETE FROM event_subscriptions WHERE id = $1", text(d.sub)) // gone without a trace counts as deleted
	d.chore(d.lane)
	d.finish()
	d.wantCount("dead letters", 1, "SELECT count(*) FROM delivery_results WHERE dead_reason = 'SUBSCRIPTION_DELETED'")
	if items := d.feed(); len(items) != 1 || items[0].EventType != "" {
		t.Errorf("feed = %+v", items)
	}
}

func TestDoChore_a_part_that_fails_leaves_nothing(t *testing.T) {
	t.Parallel()
	d := newDepot(t, 3, 0)
	d.exec("UPDATE event_subscriptions SET deleted_at = now() WHERE id = $1", text(d.sub))
	d.chore(d.lane)
	_, err := d.db.DoChore(t.Context(), 500, newID(), func(h hub.Delivery) db.Dead {
		e := ended(h)
		e.ID = hub.ID{} // no partition holds it
		return e
	})
	if err == nil {
		t.Error("an end without a partition was stored")
	}
	d.wantCount("rows", 3, "SELECT count(*) FROM delivery_queue")
	d.wantNothingWritten()
	d.wantCount("chores as they were", 1, "SELECT count(*) FROM lane_chores WHERE round = 1 AND NOT held AND after_due = 'epoch'")
}

// 2 500 deliveries that are due at the same microsecond, with others between
// them, in parts of 500.
func TestDoChore_works_in_batches(t *testing.T) {
	t.Parallel()
	d := newDepot(t, 1250, 250)
	d.mine = append(d.mine, d.waiting(d.sub, 1250)...)
	d.exec("UPDATE delivery_queue SET due_at = now() - interval '1 s'")
	parts := func(round, want int, held func() int) {
		t.Helper()
		before := held()
		steps := 0
		for ; d.step(500); steps++ {
			after := held()
			if n := max(after-before, before-after); n > 500 {
				t.Errorf("round %d: one part changed %d", round, n)
			}
			before = after
		}
		if steps != want {
			t.Errorf("round %d took %d parts, want %d", round, steps, want)
		}
	}
	held := func() int { return d.count("SELECT count(*) FROM delivery_queue WHERE due_at = 'infinity'") }
	d.disable()
	d.chore(d.lane)
	parts(1, 6+6, held) // 2 750 in the lane, then 2 500 that are held
	d.wantHeld(2500)
	d.wantOthers()
	d.rested()
	parts(2, 1+6, held)
	d.wantHeld(2500)

	d.enable()
	d.chore(d.lane)
	parts(3, 1+6, held)
	d.wantHeld(0)
	d.wantCount("rows that are due", 2500, "SELECT count(*) FROM delivery_queue WHERE subscription_id = $1 AND due_at <= now()", text(d.sub))
	d.rested()
	d.work(500)

	d.exec("UPDATE event_subscriptions SET deleted_at = now() WHERE id = $1", text(d.sub))
	d.chore(d.lane)
	parts(4, 6+1, func() int { return d.count("SELECT count(*) FROM delivery_results") })
	d.wantCount("dead letters", 2500, "SELECT count(DISTINCT delivery_id) FROM delivery_results")
	d.wantOthers()
}

func TestDoChore_second_round_catches_what_was_put_back_in_between(t *testing.T) {
	t.Parallel()
	d := newDepot(t, 6, 2)
	d.disable()
	d.chore(d.lane)
	d.exec("CREATE TABLE began AS SELECT now() AS at")
	d.work(2)
	d.wantHeld(6)
	d.wantCount("chores that rest for 5 s", 1, `SELECT count(*) FROM lane_chores, began WHERE round = 2 AND NOT held AND after_due = 'epoch'
		AND not_before BETWEEN began.at + interval '5 s' AND now() + interval '5 s'`)
	d.exec("UPDATE lane_chores SET not_before = now() + interval '1 min'")
	if d.step(2) {
		t.Error("the second round began without a rest")
	}
	// A replica that had not heard of it puts two back: one due long ago.
	d.exec("UPDATE delivery_queue SET due_at = now() WHERE id = $1", text(d.mine[4]))
	d.exec("UPDATE delivery_queue SET due_at = now() - interval '1 day' WHERE id = $1", text(d.mine[1]))
	d.rested()
	d.work(2)
	d.wantHeld(6)
	d.wantOthers()
	d.wantCount("chores", 0, "SELECT count(*) FROM lane_chores")
}

func TestDoChore_replicas_do_not_wait_for_each_other(t *testing.T) {
	t.Parallel()
	d := newDepot(t, 1, 0)
	other := laneOf("acme")
	d.disable()
	d.chore(other)
	d.chore(d.lane)
	busy, err := d.raw.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = busy.Rollback(t.Context()) }()
	if _, err := busy.Exec(t.Context(), "SELECT FROM lane_chores WHERE destination_id = $1 FOR UPDATE", text(other.Destination)); err != nil {
		t.Fatal(err)
	}
	d.work(10)
	d.wantHeld(1)
	d.wantCount("chores in their first round", 1, "SELECT count(*) FROM lane_chores WHERE round = 1")
}
