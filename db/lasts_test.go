package db_test

import (
	"bytes"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/streaming-hub/streaming-hub/db"
	"github.com/streaming-hub/streaming-hub/hub"
)

func TestStaleLasts_and_FixLasts(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	lane := laneOf("acme")
	now := kept()
	list := l.queue(lane, 8)
	slices.SortFunc(list, func(a, b db.NewDelivery) int { return bytes.Compare(a.Delivery.ID.ID[:], b.Delivery.ID.ID[:]) })
	at := func(i int) string { return text(list[i].Delivery.ID) }
	failed := now.Add(-time.Hour)
	l.exec("UPDATE delivery_queue SET run_attempts = 2, first_failed_at = $2, due_at = $3 WHERE id = $1", at(0), failed, now)
	l.exec("UPDATE delivery_queue SET last_at = now() WHERE id = $1", at(1))
	l.exec("UPDATE delivery_queue SET due_at = 'infinity' WHERE id = $1", at(2))
	l.exec("UPDATE delivery_queue SET leased_until = now() + interval '1 min', lease_token = 5 WHERE id = $1", at(3))
	l.exec("UPDATE delivery_queue SET leased_until = now() - interval '1 min', lease_token = 5 WHERE id = $1", at(4))

	all, err := l.db.StaleLasts(t.Context(), hub.DeliveryID{}, time.Now().Add(time.Hour), 100)
	if err != nil {
		t.Fatal(err)
	}
	want := []int{0, 3, 4, 5, 6, 7}
	if len(all) != len(want) {
		t.Fatalf("%d found, want %d", len(all), len(want))
	}
	for i, n := range want {
		if all[i].ID != list[n].Delivery.ID || all[i].Tenant != "acme" || all[i].Subscription != list[n].Delivery.Subscription || all[i].ReceivedAt.IsZero() {
			t.Errorf("%d: %+v, want delivery %d", i, all[i], n)
		}
	}
	if first := all[0]; first.RunAttempts != 2 || !first.FirstFailedAt.Equal(failed) || !first.DueAt.Equal(now) || !all[1].FirstFailedAt.IsZero() {
		t.Errorf("the first is %+v", first)
	}
	page, err := l.db.StaleLasts(t.Context(), all[1].ID, time.Now().Add(time.Hour), 2)
	if err != nil || len(page) != 2 || page[0].ID != all[2].ID || page[1].ID != all[3].ID {
		t.Errorf("the page behind the second is %+v, %v", page, err)
	}
	if young, err := l.db.StaleLasts(t.Context(), hub.DeliveryID{}, now.Add(-time.Hour), 100); err != nil || len(young) > 0 {
		t.Errorf("%d were made before the test began, %v", len(young), err)
	}

	var ids []hub.DeliveryID
	var from []time.Time
	for i := range list {
		ids = append(ids, list[i].Delivery.ID)
		from = append(from, now.Add(time.Duration(i+1)*time.Hour))
	}
	if err := l.db.FixLasts(t.Context(), ids, from); err != nil {
		t.Fatal(err)
	}
	for i := range list {
		fixed := 1
		switch i {
		case 1, 2, 3: // said already, held, leased
			fixed = 0
		}
		l.wantCount(fmt.Sprintf("fixed of delivery %d", i), fixed, "SELECT count(*) FROM delivery_queue WHERE id = $1 AND last_at = $2", at(i), from[i])
	}
}
