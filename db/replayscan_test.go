package db_test

import (
	"slices"
	"testing"
	"time"

	"github.com/streaming-hub/streaming-hub/hub"
)

func deliveryTexts(lists ...[]hub.DeliveryID) (all []string) {
	for _, list := range lists {
		for _, id := range list {
			all = append(all, text(id))
		}
	}
	return all
}

func TestScanReplay_counts_what_it_freezes(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	s, stranger := l.opened("acme"), l.opened("stranger")
	other := s.subscribed("{loan.*}")
	twice := s.died(1)
	died := s.died(3)
	timedOut := s.ended(other, s.stored(2, "loan.approved"), lost)
	s.ended(s.sub, s.stored(2, "loan.approved"), arrived)
	stranger.died(4)

	// One that died, was redelivered and is under way again is none.
	under := s.died(1)[0]
	l.begin(&hub.Delivery{ID: under, Tenant: "acme"})
	// One that was delivered before it died again.
	l.exec(`UPDATE attempts SET number = 2, run = 2 WHERE delivery_id = $1`, text(twice[0]))
	l.exec(`UPDATE delivery_results SET run = 2 WHERE delivery_id = $1`, text(twice[0]))
	l.exec(`INSERT INTO attempts SELECT $2, tenant_id, delivery_id, event_id, subscription_id, destination_id, 1, 1, now(), 1, 200, '', 'DELIVERED', NULL, ''
		FROM attempts WHERE delivery_id = $1`, text(twice[0]), text(newID()))
	// Those of a subscription that is disabled, one whose event is gone, and a
	// test send.
	off := s.subscribed("{*}")
	s.ended(off, s.stored(2, "loan.approved"), refused)
	l.exec(`UPDATE event_subscriptions SET enabled = false, disabled_by = 'USER' WHERE id = $1`, text(off))
	gone := s.stored(1, "loan.approved")
	s.ended(s.sub, gone, refused)
	l.exec(`DELETE FROM events WHERE id = $1`, text(gone[0]))
	test := s.stored(1, "loan.approved")
	s.ended(s.sub, test, refused)
	l.exec(`UPDATE events SET seq = 0 WHERE id = $1`, text(test[0]))

	id := l.job("acme", hub.ReplayFilter{})
	s.died(2) // too late
	if j := l.jobOf(id); j.State != hub.JobPreviewing || j.Total != 0 || j.Version != 1 {
		t.Errorf("before: %+v", j)
	}
	j := l.previewed(id, 2)
	if j.State != hub.JobReady || j.PreviewedAt.IsZero() || !j.FinishedAt.IsZero() {
		t.Errorf("state %s, previewed at %s", j.State, j.PreviewedAt)
	}
	if j.Total != 6 || j.AlreadyDelivered != 1 || j.PossibleDuplicates != 3 || j.Undeliverable != 3 {
		t.Errorf("total %d, delivered before %d, possible duplicates %d, undeliverable %d; want 6, 1, 3, 3",
			j.Total, j.AlreadyDelivered, j.PossibleDuplicates, j.Undeliverable)
	}
	if want := []hub.DestinationShare{{Destination: s.lane.Destination, Count: 6}}; !slices.Equal(j.Shares, want) {
		t.Errorf("shares %v", j.Shares)
	}
	if got, want := l.itemsOf(id), deliveryTexts(twice, died, timedOut); !slices.Equal(got, want) {
		t.Errorf("items %v,\nwant %v", got, want)
	}
	l.wantItems(id, hub.ItemPending, 6)
	l.wantCount("rows in the queue", 1, `SELECT count(*) FROM delivery_queue`)
	if more, err := l.db.ScanReplay(t.Context(), id, 2, newID()); more || err != nil {
		t.Errorf("again: %t, %v", more, err)
	}
	feed := l.feed()
	last := feed[len(feed)-1]
	if n := last.Notice; n == nil || n.Kind != hub.NoticeReplayProgress || n.Replay == nil || n.Replay.Job != id || n.Replay.State != hub.JobReady || n.Replay.Total != 6 || last.Tenant != "acme" {
		t.Errorf("the feed tells %+v", last)
	}
}

func TestScanReplay_filters(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	s, stranger := l.opened("acme"), l.opened("stranger")
	sub := s.subscribed("{*}")
	card := s.ended(s.sub, s.stored(2, "card.issued"), refused)
	loan := s.ended(sub, s.stored(2, "loan.approved"), lost)
	between := nextMilli()
	delivered := s.ended(s.sub, s.stored(2, "loan.approved"), arrived)
	dropped := s.ended(s.sub, s.stored(1, "loan.approved"), refused)
	l.exec(`UPDATE delivery_results SET state = 'DISCARDED', dead_reason = NULL WHERE delivery_id = $1`, text(dropped[0]))
	foreign := stranger.died(1)
	cause := []byte("0123456789abcdef")
	l.exec(`UPDATE delivery_results SET fingerprint = $2 WHERE delivery_id = $1`, text(loan[1]), cause)

	type ids = []hub.DeliveryID
	for _, c := range []struct {
		name   string
		tenant hub.TenantID
		filter hub.ReplayFilter
		want   []string
	}{
		{"of_a_tenant", "acme", hub.ReplayFilter{}, deliveryTexts(card, loan)},
		{"of_all", "", hub.ReplayFilter{}, deliveryTexts(card, loan, foreign)},
		{"of_another_tenants_subscription", "stranger", hub.ReplayFilter{Subscription: s.sub}, nil},
		{"subscription", "acme", hub.ReplayFilter{Subscription: sub}, deliveryTexts(loan)},
		{"subscription_of_all", "", hub.ReplayFilter{Subscription: sub}, deliveryTexts(loan)},
		{"destination", "", hub.ReplayFilter{Destination: stranger.lane.Destination}, deliveryTexts(foreign)},
		{"event_type", "acme", hub.ReplayFilter{EventType: "card.*"}, deliveryTexts(card)},
		{"reason", "acme", hub.ReplayFilter{Reasons: []hub.DeadReason{hub.DeadExpired}}, deliveryTexts(loan)},
		{"cause", "acme", hub.ReplayFilter{Fingerprint: cause}, deliveryTexts(loan[1:])},
		{"cause_of_another_tenant", "stranger", hub.ReplayFilter{Fingerprint: cause}, nil},
		{"delivered", "acme", hub.ReplayFilter{States: []hub.State{hub.Delivered}}, deliveryTexts(delivered)},
		{"delivered_of_a_subscription", "acme", hub.ReplayFilter{Subscription: s.sub, States: []hub.State{hub.Delivered, hub.Dead}}, deliveryTexts(card, delivered)},
		{"every_state_of_all", "", hub.ReplayFilter{States: []hub.State{hub.Delivered, hub.Dead, hub.Discarded}}, deliveryTexts(card, loan, delivered, dropped, foreign)},
		{"a_reason_is_of_dead_letters", "acme", hub.ReplayFilter{Reasons: []hub.DeadReason{hub.DeadExpired}, States: []hub.State{hub.Delivered, hub.Dead}}, deliveryTexts(loan)},
		{"created_before", "", hub.ReplayFilter{CreatedBefore: between}, deliveryTexts(card, loan)},
		{"created_after", "", hub.ReplayFilter{CreatedAfter: between}, deliveryTexts(foreign)},
		{"created_after_in_states", "acme", hub.ReplayFilter{CreatedAfter: between, States: []hub.State{hub.Delivered, hub.Dead}}, deliveryTexts(delivered)},
		{"ended_before", "", hub.ReplayFilter{EndedBefore: between}, deliveryTexts(card, loan)},
		{"ended_after", "", hub.ReplayFilter{EndedAfter: between}, deliveryTexts(foreign)},
		{"one_by_one", "acme", hub.ReplayFilter{Deliveries: ids{loan[0], card[1], card[1], foreign[0], delivered[0], {ID: newID()}}}, deliveryTexts(card[1:], loan[:1])},
		{"one_by_one_in_states", "acme", hub.ReplayFilter{Deliveries: ids{delivered[0], card[0]}, States: []hub.State{hub.Delivered}}, deliveryTexts(delivered[:1])},
		{"one_by_one_narrowed_down", "acme", hub.ReplayFilter{Deliveries: ids{loan[0], card[1]}, EventType: "loan.approved"}, deliveryTexts(loan[:1])},
	} {
		t.Run(c.name, func(t *testing.T) {
			id := l.job(c.tenant, c.filter)
			j := l.previewed(id, 2)
			if got := l.itemsOf(id); !slices.Equal(got, c.want) || j.Total != int64(len(c.want)) || j.State != hub.JobReady {
				t.Errorf("%s with %d items %v,\nwant %v", j.State, j.Total, got, c.want)
			}
		})
	}
}

func TestScanReplay_more_than_a_million_is_refused(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.opened("acme").died(3)
	id := l.job("acme", hub.ReplayFilter{})
	l.exec(`UPDATE replay_jobs SET total = 999998`)
	if j := l.previewed(id, 2); j.State != hub.JobFailed || j.Reason == "" || j.FinishedAt.IsZero() || j.Total != 1_000_001 {
		t.Errorf("%s with %d items: %q", j.State, j.Total, j.Reason)
	}
	id = l.job("acme", hub.ReplayFilter{})
	l.exec(`UPDATE replay_jobs SET total = 999997 WHERE id = $1`, text(id))
	if j := l.previewed(id, 2); j.State != hub.JobReady {
		t.Errorf("%s with %d items: %q", j.State, j.Total, j.Reason)
	}
}

// While one replica is at a job the others leave it alone, and a part that is
// broken off is as if it had not begun.
func TestScanReplay_one_at_a_time_and_whole_parts_only(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	died := l.opened("acme").died(5)
	id := l.job("acme", hub.ReplayFilter{})
	tx, err := l.raw.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), `SELECT FROM replay_jobs FOR UPDATE`); err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	if more, err := l.db.ScanReplay(t.Context(), id, 2, newID()); more || err != nil || time.Since(begun) > 5*time.Second {
		t.Errorf("while another is at it: %t, %v", more, err)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	l.exec(`CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'no commit today'; END $$;
		CREATE CONSTRAINT TRIGGER refuse AFTER UPDATE ON replay_jobs DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION refuse()`)
	if _, err := l.db.ScanReplay(t.Context(), id, 2, newID()); err == nil {
		t.Error("a commit that fails was taken for one that does not")
	}
	l.wantItems(id, hub.ItemPending, 0)
	l.exec(`DROP TRIGGER refuse ON replay_jobs`)
	l.previewed(id, 2)
	if got := l.itemsOf(id); !slices.Equal(got, deliveryTexts(died)) {
		t.Errorf("items %v", got)
	}
}
