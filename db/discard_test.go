package db_test

import (
	"slices"
	"testing"
	"time"

	"github.com/streaming-hub/streaming-hub/db"
	"github.com/streaming-hub/streaming-hub/hub"
)

// discarding gives up deliveries of acme.
func discarding(ids []hub.DeliveryID) db.DiscardRequest {
	return db.DiscardRequest{
		Deliveries: ids, Tenant: "acme", Reason: "not wanted any more", FeedID: newID(),
		Audit: func(done []db.Discarded) []db.AuditEntry {
			return []db.AuditEntry{{ID: newID(), Tenant: "acme", ActorName: "test", Action: "discard_dead_letters", Object: "some", Before: len(done)}}
		},
	}
}

func doneIDs(done []db.Discarded) (ids []hub.DeliveryID) {
	for i := range done {
		ids = append(ids, done[i].After.Delivery.ID)
	}
	return ids
}

func TestDiscardDeliveries(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	s, stranger := l.opened("acme"), l.opened("stranger")
	dead := s.died(2)
	delivered := s.ended(s.sub, s.stored(1, "loan.approved"), arrived)
	unfinished := s.died(3) // one waits, one is held, one is in flight
	for _, id := range unfinished {
		l.begin(&hub.Delivery{ID: id, Tenant: "acme"})
	}
	l.exec(`UPDATE delivery_queue SET due_at = 'infinity' WHERE id = $1`, text(unfinished[1]))
	l.exec(`UPDATE delivery_queue SET due_at = now() - interval '1 hour' WHERE id = $1`, text(unfinished[2]))
	flying := l.claim(s.lane, 1, time.Minute)[0]
	foreign := stranger.died(1)
	told := len(l.feed())

	all := slices.Concat(foreign, unfinished, delivered, dead, dead, []hub.DeliveryID{{ID: newID()}})
	done, err := l.db.DiscardDeliveries(t.Context(), discarding(all))
	want := slices.Concat(dead, unfinished[:2])
	if err != nil || !slices.Equal(doneIDs(done), want) {
		t.Fatalf("gave up %v, %v;\nwant %v", doneIDs(done), err, want)
	}
	for i, before := range []hub.State{hub.Dead, hub.Dead, hub.Waiting, hub.Held} {
		d := done[i]
		if d.Before.State != before || d.After.State != hub.Discarded || d.After.LastError != "not wanted any more" || d.After.DeadReason != "" || d.After.FinishedAt.IsZero() {
			t.Errorf("%+v\nbecame %+v", d.Before, d.After)
		}
	}
	l.wantCount("rows in the queue", 1, `SELECT count(*) FROM delivery_queue`)
	l.wantCount("results of others", 1, `SELECT count(*) FROM delivery_results WHERE tenant_id = 'stranger'`)
	l.wantCount("audit entries", 1, `SELECT count(*) FROM audit_log WHERE action = 'discard_dead_letters' AND before = '4'`)
	feed := l.feed()[told:]
	if len(feed) != 4 || feed[0].State != hub.Discarded || feed[0].Delivery != dead[0] || feed[0].EventType != "loan.approved" || feed[0].Source != "lender" || feed[0].Attempted() || feed[0].Number != 1 {
		t.Errorf("the feed tells %+v", feed)
	}

	if done, err := l.db.DiscardDeliveries(t.Context(), discarding(all)); err != nil || len(done) != 0 {
		t.Errorf("again: gave up %v, %v", doneIDs(done), err)
	}
	l.wantCount("audit entries", 1, `SELECT count(*) FROM audit_log WHERE action = 'discard_dead_letters'`)
	if n := len(l.feed()); n != told+4 {
		t.Errorf("%d items in the feed for nothing", n-told-4)
	}
	// What was given up can be delivered after all; what was in flight goes on.
	l.begin(&done[0].After.Delivery)
	if recorded := l.record(outcome(flying, hub.Delivered)); len(recorded) != 1 {
		t.Error("the delivery in flight lost its lease")
	}
}

// The clock that gave the end its time may be ahead of this one.
func TestDiscardDeliveries_is_later_than_the_end(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	s := l.opened("acme")
	dead := s.died(1)
	ahead := hub.FloorID(time.Now().Add(20 * time.Minute))
	ahead[15] = 1
	l.exec(`UPDATE delivery_results SET id = $1`, text(ahead))
	if done, err := l.db.DiscardDeliveries(t.Context(), discarding(dead)); err != nil || len(done) != 1 || done[0].After.State != hub.Discarded {
		t.Errorf("%+v, %v", done, err)
	}
}

func TestDiscardDeliveries_ends_items_of_replay_jobs(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	s := l.opened("acme")
	dead := s.died(3)
	id, wide := l.job("acme", hub.ReplayFilter{Deliveries: dead[:2]}), l.job("", hub.ReplayFilter{Deliveries: dead[2:]})
	for _, job := range []hub.JobID{id, wide} {
		l.started(job)
		l.release(job, 10)
	}
	failed := outcome(l.claim(s.lane, 1, time.Minute)[0], hub.Waiting)
	l.record(failed)
	// As the API does it, which sees no job over all tenants.
	done, err := l.walled(2).DiscardDeliveries(db.OfTenant(t.Context(), "acme"), discarding(dead))
	if err != nil || len(done) != 3 {
		t.Fatalf("%+v, %v", done, err)
	}
	l.wantCount("items that are dead", 3, `SELECT count(*) FROM replay_items WHERE state = 'DEAD'`)
	l.wantCounted(id, 2, 2, 0, 2)
	l.wantCounted(wide, 1, 1, 0, 1)
	l.release(id, 10)
	if j := l.jobOf(id); j.State != hub.JobCompleted {
		t.Errorf("%+v", j)
	}
}

func TestDiscardDeliveries_is_one_transaction(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	s := l.opened("acme")
	dead := s.died(2)
	l.begin(&hub.Delivery{ID: dead[1], Tenant: "acme"})
	l.exec(`CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'no commit today'; END $$;
		CREATE CONSTRAINT TRIGGER refuse AFTER INSERT ON audit_log DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION refuse()`)
	if done, err := l.db.DiscardDeliveries(t.Context(), discarding(dead)); err == nil || len(done) > 0 {
		t.Errorf("%+v, %v", done, err)
	}
	if list, err := l.db.DeliveriesByID(t.Context(), dead[1:]); err != nil || list[0].State != hub.Waiting {
		t.Errorf("%+v, %v", list, err)
	}
	l.wantCount("discards", 0, `SELECT count(*) FROM delivery_results WHERE state = 'DISCARDED'`)
}

func TestDiscardDeliveries_shows_in_every_read(t *testing.T) {
	t.Parallel()
	for name, waits := range map[string]bool{"dead": false, "waiting": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			lane, d := l.owed("acme")
			l.record(outcome(l.claim(lane, 1, time.Minute)[0], hub.Dead))
			run := int32(1)
			if waits {
				l.begin(&d)
				run = 2
			}
			if _, err := l.db.DiscardDeliveries(t.Context(), discarding([]hub.DeliveryID{d.ID})); err != nil {
				t.Fatal(err)
			}
			l.wantEverywhere(&d, hub.Discarded, run, 1)
		})
	}
}
