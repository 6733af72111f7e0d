package db_test

import (
	"testing"
	"time"

	"github.com/streaming-hub/streaming-hub/db"
	"github.com/streaming-hub/streaming-hub/hub"
)

func TestReleaseLeases(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	lane := laneOf("acme")
	l.queue(lane, 2)
	claims := l.claim(lane, 2, time.Minute)
	l.exec("UPDATE delivery_queue SET due_at = now() - interval '1 min'")

	stale := claims[0]
	stale.LeaseToken++
	if err := l.db.ReleaseLeases(t.Context(), []db.Release{{Claim: stale, PutOff: time.Hour}}); err != nil {
		t.Fatal(err)
	}
	l.wantCount("leases after a release with a stale token", 2,
		"SELECT count(*) FROM delivery_queue WHERE lease_token IS NOT NULL AND due_at < now()")

	if err := l.db.ReleaseLeases(t.Context(), []db.Release{{Claim: claims[0]}}); err != nil {
		t.Fatal(err)
	}
	l.wantCount("released that kept their due time", 1, `SELECT count(*) FROM delivery_queue
		WHERE id = $1 AND lease_token IS NULL AND leased_until IS NULL AND due_at < now() - interval '50 s'`, text(claims[0].Delivery.ID))
	if err := l.db.ReleaseLeases(t.Context(), []db.Release{{Claim: claims[1], PutOff: time.Hour}}); err != nil {
		t.Fatal(err)
	}
	l.wantCount("released that were put off", 1, `SELECT count(*) FROM delivery_queue
		WHERE id = $1 AND lease_token IS NULL AND due_at > now() + interval '59 min'`, text(claims[1].Delivery.ID))
	l.wantCount("attempts used up", 0, "SELECT sum(attempts + run_attempts)::int FROM delivery_queue")
	if again := l.claim(lane, 2, time.Minute); len(again) != 1 || again[0].Reclaims != 0 {
		t.Errorf("claimed again %+v, want one that counts no reclaim", again)
	}
}

// A subscription may have come back since the worker looked.
func TestReleaseLeases_holds_only_what_is_not_deliverable(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		rule, change string
		held         bool
	}{
		{"deliverable_is_due_in_a_second", "SELECT $1::uuid", false},
		{"disabled_is_held", "UPDATE event_subscriptions SET enabled = false, disabled_by = 'USER' WHERE id = $1", true},
		{"pending_is_held", "UPDATE event_subscriptions SET verification_state = 'PENDING' WHERE id = $1", true},
		{"failed_is_held", "UPDATE event_subscriptions SET verification_state = 'FAILED' WHERE id = $1", true},
		{"deleted_is_held", "UPDATE event_subscriptions SET deleted_at = now() WHERE id = $1", true},
		{"unknown_is_held", "DELETE FROM event_subscriptions WHERE id = $1", true},
	} {
		t.Run(row.rule, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			lane, d := l.owed("acme")
			c := l.claim(lane, 1, time.Minute)[0]
			l.exec("UPDATE delivery_queue SET last_at = now()")
			l.exec(row.change, text(d.Subscription))
			if err := l.db.ReleaseLeases(t.Context(), []db.Release{{Claim: c, Hold: true}}); err != nil {
				t.Fatal(err)
			}
			held, soon := 1, 0
			if !row.held {
				held, soon = 0, 1
			}
			l.wantCount("held", held, `SELECT count(*) FROM delivery_queue WHERE due_at = 'infinity' AND last_at IS NULL
				AND lease_token IS NULL AND leased_until IS NULL`)
			l.wantCount("due in a second", soon, `SELECT count(*) FROM delivery_queue WHERE lease_token IS NULL AND leased_until IS NULL
				AND due_at > now() - interval '1 min' AND due_at <= now() + interval '1 s' AND due_at > received_at + interval '900 ms'`)
			if claims := l.claim(lane, 1, time.Minute); row.held && len(claims) > 0 {
				t.Error("a held delivery was claimed")
			}
		})
	}
}

func TestReleaseLeases_moves_to_the_lane_of_another_destination(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	from, to := laneOf("acme"), laneOf("acme")
	l.queue(from, 2)
	claims := l.claim(from, 2, time.Minute)
	l.exec("UPDATE delivery_queue SET last_at = now()")
	if err := l.db.ReleaseLeases(t.Context(), []db.Release{{Claim: claims[0], To: to.Destination}, {Claim: claims[1]}}); err != nil {
		t.Fatal(err)
	}
	for lane, want := range map[db.Lane]hub.DeliveryID{to: claims[0].Delivery.ID, from: claims[1].Delivery.ID} {
		if got := l.claim(lane, 2, time.Minute); len(got) != 1 || got[0].Delivery.ID != want || got[0].Delivery.LastAt.IsZero() {
			t.Errorf("in the lane %+v, want one due as before", got)
		}
	}
}

func TestSubscriptionExists(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	_, d := l.owed("acme")
	exists := func(id hub.SubscriptionID) bool {
		t.Helper()
		ok, err := l.db.SubscriptionExists(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		return ok
	}
	l.exec("UPDATE event_subscriptions SET enabled = false, disabled_by = 'USER', verification_state = 'FAILED'")
	if !exists(d.Subscription) {
		t.Error("a disabled one does not exist")
	}
	l.exec("UPDATE event_subscriptions SET deleted_at = now()")
	if exists(d.Subscription) || exists(hub.SubscriptionID{ID: newID()}) {
		t.Error("a deleted or unknown one exists")
	}
}

func TestReleaseLeases_what_is_not_held_after_all_keeps_its_last_attempt(t *testing.T) {
	t.Parallel()
	d := newDepot(t, 2, 0)
	d.exec("UPDATE delivery_queue SET last_at = now()")
	claims := d.claim(d.lane, 2, time.Minute)
	release := func(c db.Claim) {
		t.Helper()
		if err := d.db.ReleaseLeases(t.Context(), []db.Release{{Claim: c, Hold: true}}); err != nil {
			t.Fatal(err)
		}
	}
	release(claims[0]) // the subscription is deliverable
	d.disable()
	release(claims[1])
	d.wantCount("put off with its last attempt", 1, "SELECT count(*) FROM delivery_queue WHERE due_at < 'infinity' AND last_at IS NOT NULL AND id = $1", text(claims[0].Delivery.ID))
	d.wantCount("held without", 1, "SELECT count(*) FROM delivery_queue WHERE due_at = 'infinity' AND last_at IS NULL AND id = $1", text(claims[1].Delivery.ID))
}
