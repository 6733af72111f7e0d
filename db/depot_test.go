package db_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/streaming-hub/streaming-hub/db"
	"github.com/streaming-hub/streaming-hub/hub"
)

// depot is a lane with deliveries of two event subscriptions, of which one is
// about to change.
type depot struct {
	*lab
	lane         db.Lane
	sub, another hub.SubscriptionID
	mine, others []hub.DeliveryID
}

func newDepot(t *testing.T, mine, others int) *depot {
	t.Helper()
	d := &depot{lab: newLab(t), lane: laneOf("acme")}
	d.destination(d.lane, kept())
	d.sub, d.another = d.subscription(d.lane), d.subscription(d.lane)
	d.mine, d.others = d.waiting(d.sub, mine), d.waiting(d.another, others)
	return d
}

// waiting stores n due deliveries of a subscription, with their events.
func (d *depot) waiting(sub hub.SubscriptionID, n int) (ids []hub.DeliveryID) {
	d.Helper()
	list := born(d.lane, n)
	for i := range list {
		list[i].Delivery.Subscription = sub
		ids = append(ids, list[i].Delivery.ID)
	}
	d.store(db.IngestWrites{Deliveries: list, Lease: time.Minute}, d.lane.Tenant)
	d.exec(`INSERT INTO events (id, tenant_id, seq, source, ce_id, event_type, schema_version, schema_major, received_at, topic, kafka_partition, kafka_offset, context, body)
		SELECT q.event_id, 'acme', 1, 'lender', 'x', 'loan.approved', '1', 1, now(), 't', 0, 0, '{}', ''
		FROM delivery_queue q WHERE q.subscription_id = $1 ON CONFLICT DO NOTHING`, text(sub))
	return ids
}

// chore asks for the deliveries of the subscription in a lane to be brought in
// line.
func (d *depot) chore(lane db.Lane) {
	d.Helper()
	d.exec("INSERT INTO lane_chores (id, tenant_id, subscription_id, destination_id) VALUES ($1, $2, $3, $4)",
		text(newID()), string(lane.Tenant), text(d.sub), text(lane.Destination))
}

// disable switches the subscription off.
func (d *depot) disable() {
	d.Helper()
	d.exec("UPDATE event_subscriptions SET enabled = false, disabled_by = 'USER' WHERE id = $1", text(d.sub))
}

func (d *depot) enable() {
	d.Helper()
	d.exec("UPDATE event_subscriptions SET enabled = true, disabled_by = NULL WHERE id = $1", text(d.sub))
}

// ended is the end of a delivery, as the data plane makes it.
func ended(d hub.Delivery) db.Dead {
	return db.Dead{Delivery: d, ID: newID(), Reason: hub.DeadSubscriptionDeleted, Text: "the event subscription was deleted", Fingerprint: bytes.Repeat([]byte{7}, 16)}
}

// step does one part of a chore.
func (d *depot) step(batch int) bool {
	d.Helper()
	did, err := d.db.DoChore(d.Context(), batch, newID(), ended)
	if err != nil {
		d.Fatal(err)
	}
	return did
}

// work does all that there is to do now, and counts the parts.
func (d *depot) work(batch int) (steps int) {
	d.Helper()
	for ; d.step(batch); steps++ {
		if steps > 1000 {
			d.Fatal("a chore does not end")
		}
	}
	return steps
}

// rested lets the rest between the rounds pass.
func (d *depot) rested() {
	d.Helper()
	d.exec("UPDATE lane_chores SET not_before = now()")
}

// finish does both rounds of all chores.
func (d *depot) finish() {
	d.Helper()
	d.work(500)
	d.rested()
	d.work(500)
	d.wantCount("chores after both rounds", 0, "SELECT count(*) FROM lane_chores")
}

func (d *depot) wantHeld(want int) {
	d.Helper()
	d.wantCount("held deliveries of the subscription", want, `SELECT count(*) FROM delivery_queue
		WHERE subscription_id = $1 AND due_at = 'infinity' AND last_at IS NULL AND lease_token IS NULL AND leased_until IS NULL`, text(d.sub))
}

// wantOthers says that the other subscription goes on as before.
func (d *depot) wantOthers() {
	d.Helper()
	d.wantCount("deliveries of the other subscription", len(d.others), `SELECT count(*) FROM delivery_queue
		WHERE subscription_id = $1 AND due_at <= now() AND destination_id = $2`, text(d.another), text(d.lane.Destination))
}
