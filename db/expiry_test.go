package db_test

import (
	"testing"
	"time"

	"github.com/streaming-hub/streaming-hub/hub"
)

// made gives deliveries ids of an age, as if they had been born then.
func (d *depot) made(ids []hub.DeliveryID, age time.Duration) (aged []hub.DeliveryID) {
	d.Helper()
	floor := text(hub.FloorID(time.Now().Add(-age)))
	for _, id := range ids {
		to := floor[:14] + text(id)[14:]
		d.exec("UPDATE delivery_queue SET id = $2, received_at = now() - $3 * interval '1 s' WHERE id = $1", text(id), to, age.Seconds())
		parsed, err := hub.ParseID(to)
		if err != nil {
			d.Fatal(err)
		}
		aged = append(aged, hub.DeliveryID{ID: parsed})
	}
	return aged
}

func TestExpireWaiting(t *testing.T) {
	t.Parallel()
	d := newDepot(t, 5, 3)
	d.made(d.mine[:4], 31*24*time.Hour)
	old := d.made(d.others[:1], 40*24*time.Hour)
	d.exec("UPDATE delivery_queue SET leased_until = now() + interval '1 min', lease_token = 7 WHERE id = $1", text(old[0]))
	month := time.Now().Add(-30 * 24 * time.Hour)
	expire := func() int {
		t.Helper()
		n, err := d.db.ExpireWaiting(t.Context(), month, 3, newID(), ended)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	if first, second, third := expire(), expire(), expire(); first != 3 || second != 1 || third != 0 {
		t.Errorf("%d, %d and %d ended, want 3, 1 and none", first, second, third)
	}
	d.wantCount("dead letters", 4, "SELECT count(*) FROM delivery_results")
	d.wantCount("what is young, or under a lease", 4, "SELECT count(*) FROM delivery_queue")
	d.wantCount("notable rows of the feed", 2, "SELECT count(*) FROM outcome_feed WHERE notable")
}

func TestHoldLane(t *testing.T) {
	t.Parallel()
	d := newDepot(t, 4, 2)
	d.exec("UPDATE delivery_queue SET leased_until = now() + interval '1 min', lease_token = 7 WHERE id = $1", text(d.mine[0]))
	d.exec("UPDATE delivery_queue SET test = true WHERE id = $1", text(d.mine[1]))
	d.exec("UPDATE delivery_queue SET due_at = now() + interval '5 h', last_at = now() WHERE id = $1", text(d.mine[2]))
	for _, want := range []int{3, 1, 0} {
		n, err := d.db.HoldLane(t.Context(), d.lane, 3)
		if err != nil || n != want {
			t.Fatalf("%d held, %v; want %d", n, err, want)
		}
	}
	d.wantCount("what is under a lease, and the test send", 2, "SELECT count(*) FROM delivery_queue WHERE due_at < 'infinity'")
}

func TestEndHeld(t *testing.T) {
	t.Parallel()
	d := newDepot(t, 4, 2)
	aged := d.made(d.mine[:3], 72*time.Hour)
	others := d.made(d.others[:1], 72*time.Hour)
	d.exec("UPDATE delivery_queue SET due_at = 'infinity'")
	// One of them failed first an hour ago: its limit counts from then.
	d.exec("UPDATE delivery_queue SET first_failed_at = now() - interval '1 h' WHERE id = $1", text(aged[0]))
	// One is not held any more.
	d.exec("UPDATE delivery_queue SET due_at = now() WHERE id = $1", text(aged[1]))
	n, err := d.db.EndHeld(t.Context(), d.sub, time.Now().Add(-48*time.Hour), 100, newID(), ended)
	if err != nil || n != 1 {
		t.Fatalf("%d ended, %v; want 1", n, err)
	}
	d.wantCount("the one that was held for too long", 0, "SELECT count(*) FROM delivery_queue WHERE id = $1", text(aged[2]))
	d.wantCount("the other subscription's", 1, "SELECT count(*) FROM delivery_queue WHERE id = $1", text(others[0]))
	d.wantCount("all others", 5, "SELECT count(*) FROM delivery_queue")
}
