package db_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/streaming-hub/streaming-hub/db"
	"github.com/streaming-hub/streaming-hub/hub"
)

// eventsOf are the events of a job's items in the order of their release.
func (l *lab) eventsOf(id hub.JobID) []string {
	l.Helper()
	return l.names(`SELECT event_id::text FROM replay_items WHERE job_id = $1::text::uuid ORDER BY ordinal`, text(id))
}

func eventTexts(lists ...[]hub.EventID) (all []string) {
	for _, list := range lists {
		for _, id := range list {
			all = append(all, text(id))
		}
	}
	return all
}

func TestScanReplay_backfill_takes_what_the_subscription_wants_and_never_got(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	s, stranger := l.opened("acme"), l.opened("stranger")
	s.exec(`UPDATE event_subscriptions SET event_types = '{loan.*}' WHERE id = $1`, text(s.sub))
	other := s.subscribed("{*}")
	first := s.stored(3, "loan.approved")
	s.stored(2, "card.issued")
	got := s.stored(2, "loan.approved")
	s.ended(s.sub, got[:1], arrived)
	s.ended(other, got[1:], arrived) // another's delivery of it
	last := s.stored(2, "loan.rejected")
	stranger.stored(5, "loan.approved")
	want := eventTexts(first, got[1:], last)

	id := s.backfill(hub.BackfillRange{})
	j := l.previewed(id, 2)
	if got := l.eventsOf(id); !slices.Equal(got, want) || j.Total != 6 || j.State != hub.JobReady || j.AlreadyDelivered != 0 {
		t.Errorf("%s with %d items %v,\nwant %v", j.State, j.Total, got, want)
	}
	if want := []hub.DestinationShare{{Destination: s.lane.Destination, Count: 6}}; !slices.Equal(j.Shares, want) {
		t.Errorf("shares %v", j.Shares)
	}
	if ids := l.itemsOf(id); !slices.IsSorted(ids) {
		t.Errorf("the deliveries %v are not in the order of the events", ids)
	}
	l.wantCount("deliveries of them", 0, `SELECT count(*) FROM deliveries d JOIN replay_items i ON i.delivery_id = d.id`)

	for _, c := range []struct {
		name  string
		alter string
		r     hub.BackfillRange
		want  []string
	}{
		{"by_seq", "", hub.BackfillRange{FirstSeq: 2, LastSeq: 7}, eventTexts(first[1:], got[1:])},
		{"one_seq", "", hub.BackfillRange{FirstSeq: 3, LastSeq: 3}, eventTexts(first[2:])},
		{"beyond_the_last_seq", "", hub.BackfillRange{FirstSeq: 1000}, nil},
		{"while_disabled_and_unverified", `enabled = false, disabled_by = 'USER', verification_state = 'PENDING'`, hub.BackfillRange{}, want},
		{"of_another_origin", `origin = 'card'`, hub.BackfillRange{}, nil},
		{"of_another_major", `schema_major = 2`, hub.BackfillRange{}, nil},
		{"of_a_pull_subscription", `kind = 'PULL'`, hub.BackfillRange{}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.alter != "" {
				l.exec(`CREATE TABLE was AS SELECT * FROM event_subscriptions`)
				l.exec(`UPDATE event_subscriptions SET `+c.alter+` WHERE id = $1`, text(s.sub))
				defer l.exec(`UPDATE event_subscriptions s SET origin = w.origin, schema_major = w.schema_major, kind = w.kind, enabled = w.enabled,
					disabled_by = w.disabled_by, verification_state = w.verification_state FROM was w WHERE w.id = s.id; DROP TABLE was`)
			}
			id := s.backfill(c.r)
			j := l.previewed(id, 2)
			if got := l.eventsOf(id); !slices.Equal(got, c.want) || j.State != hub.JobReady {
				t.Errorf("%s with %v,\nwant %v", j.State, got, c.want)
			}
		})
	}
	t.Run("deleted", func(t *testing.T) {
		l.exec(`UPDATE event_subscriptions SET deleted_at = now() WHERE id = $1`, text(s.sub))
		if j := l.previewed(s.backfill(hub.BackfillRange{}), 2); j.State != hub.JobFailed || !strings.Contains(j.Reason, "deleted") {
			t.Errorf("%s: %s", j.State, j.Reason)
		}
	})
}

func TestScanReplay_backfill_by_time(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	s := l.opened("acme")
	events := s.stored(6, "loan.approved")
	base := time.Now().UTC().Truncate(time.Second).Add(-time.Hour)
	for i, id := range events {
		l.exec(`UPDATE events SET received_at = $2 WHERE id = $1`, text(id), base.Add(time.Duration(i/2)*time.Second)) // in pairs
	}
	for _, c := range []struct {
		r    hub.BackfillRange
		want []hub.EventID
	}{
		{hub.BackfillRange{ReceivedAfter: base.Add(time.Second), ReceivedBefore: base.Add(2 * time.Second)}, events[2:4]},
		{hub.BackfillRange{ReceivedAfter: base.Add(time.Second)}, events[2:]},
		{hub.BackfillRange{ReceivedBefore: base.Add(time.Second)}, events[:2]},
		{hub.BackfillRange{ReceivedBefore: base}, nil},
		{hub.BackfillRange{ReceivedAfter: base.Add(time.Second), FirstSeq: 4, LastSeq: 5}, events[3:5]},
	} {
		id := s.backfill(c.r)
		l.previewed(id, 4)
		if got := l.eventsOf(id); !slices.Equal(got, eventTexts(c.want)) {
			t.Errorf("%+v takes %v,\nwant %v", c.r, got, eventTexts(c.want))
		}
	}
}

// The walk ends at what was there when it began, else it would never catch up
// with ingest.
func TestScanReplay_backfill_leaves_what_comes_later(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	s := l.opened("acme")
	events := s.stored(4, "loan.approved")
	id := s.backfill(hub.BackfillRange{})
	if more, err := l.db.ScanReplay(t.Context(), id, 2, newID()); !more || err != nil {
		t.Fatalf("%t, %v", more, err)
	}
	s.stored(4, "loan.approved")
	l.previewed(id, 2)
	if got := l.eventsOf(id); !slices.Equal(got, eventTexts(events)) {
		t.Errorf("items %v, want %v", got, eventTexts(events))
	}
}

func TestStepReplay_backfill_makes_each_delivery_once(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	s := l.opened("acme")
	events := s.stored(120, "loan.approved")
	first, second := s.backfill(hub.BackfillRange{}), s.backfill(hub.BackfillRange{LastSeq: 60})
	l.started(first)
	if j := l.started(second); j.Total != 60 {
		t.Fatalf("%d items", j.Total)
	}
	s.ended(s.sub, events[119:], arrived) // meanwhile
	l.exec(`DELETE FROM events WHERE id = $1`, text(events[118]))
	l.exec(`UPDATE events SET received_at = now() - interval '20 days'`)
	var wg sync.WaitGroup
	for _, id := range []hub.JobID{first, first, second, second} {
		wg.Go(func() {
			for range 40 {
				if _, err := l.db.StepReplay(context.Background(), id, newID(), releasing(5)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	for _, id := range []hub.JobID{first, second} {
		for l.release(id, 50) {
			continue
		}
	}
	l.wantCount("deliveries", 119, `SELECT count(*) FROM deliveries WHERE subscription_id = $1`, text(s.sub))
	l.wantCount("events with more than one", 0, `SELECT count(*) FROM (SELECT FROM deliveries GROUP BY event_id HAVING count(*) > 1) twice`)
	// Due at once as if stored now: the age of the event does not end it.
	l.wantCount("queue rows", 118, `SELECT count(*) FROM delivery_queue q JOIN deliveries d USING (id, tenant_id, event_id, subscription_id, destination_id)
		WHERE q.run = 1 AND q.attempts = 0 AND q.due_at <= now() AND q.received_at > now() - interval '1 minute' AND q.body_bytes = 7 AND q.job_id IS NOT NULL`)
	l.wantCount("items skipped", 61, `SELECT count(*) FROM replay_items WHERE state = 'SKIPPED' AND note = 'it got a delivery meanwhile'`)
	l.wantCount("items without an event", 1, `SELECT count(*) FROM replay_items WHERE state = 'SKIPPED' AND note = 'its event is past its retention'`)

	claims := l.claim(s.lane, 500, time.Minute)
	var outcomes []hub.Outcome
	for _, c := range claims {
		outcomes = append(outcomes, outcome(c, hub.Delivered))
	}
	l.record(outcomes...)
	a, b := l.jobOf(first), l.jobOf(second)
	if a.Delivered+b.Delivered != 118 || a.Released+b.Released != 118 || a.Open()+b.Open() != 0 {
		t.Errorf("first %+v\nsecond %+v", a, b)
	}
	pair := db.Pair{Event: events[0], Subscription: s.sub}
	if pairs, err := l.db.DeliveriesOfPairs(t.Context(), []db.Pair{pair}); err != nil || pairs[pair].State != hub.Delivered {
		t.Errorf("%+v, %v", pairs[pair], err)
	}
}

func TestStepReplay_backfill_of_a_subscription_that_is_disabled(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	s := l.opened("acme")
	s.stored(4, "loan.approved")
	id := s.backfill(hub.BackfillRange{})
	l.started(id)
	l.release(id, 2)
	l.exec(`UPDATE event_subscriptions SET enabled = false, disabled_by = 'USER'`)
	l.release(id, 2)
	l.wantItems(id, hub.ItemReleased, 2)
	l.wantCount("items skipped", 2, `SELECT count(*) FROM replay_items WHERE state = 'SKIPPED' AND note = 'its subscription is disabled'`)
	l.wantCount("deliveries", 2, `SELECT count(*) FROM deliveries`)
}
