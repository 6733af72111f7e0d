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
	"github.com/streaming-hub/streaming-hub/hub/replay"
)

func TestStepReplay_releases_in_order_as_fresh_runs(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	s := l.opened("acme")
	died := s.died(5)
	id := l.job("acme", hub.ReplayFilter{})
	l.started(id)
	// The subscription has another destination by now.
	moved := laneOf("acme")
	l.destination(moved, time.Now())
	l.exec(`UPDATE event_subscriptions SET destination_id = $1`, text(moved.Destination))

	workers := l.listenDue(t.Context())
	workers.wantWoken(t, "it listens")
	if !l.release(id, 3) {
		t.Error("nothing was done")
	}
	workers.wantWoken(t, "items were released")
	l.wantItems(id, hub.ItemReleased, 3)
	l.wantItems(id, hub.ItemPending, 2)
	queued := l.names(`SELECT id::text FROM delivery_queue WHERE job_id = $1::text::uuid ORDER BY id`, text(id))
	if want := deliveryTexts(died[:3]); !slices.Equal(queued, want) {
		t.Errorf("queued %v, want %v", queued, want)
	}
	l.wantCount("runs as if born now", 3, `SELECT count(*) FROM delivery_queue WHERE due_at <= now() AND received_at > now() - interval '1 minute'
		AND run = 2 AND attempts = 1 AND run_attempts = 0 AND first_failed_at IS NULL AND lease_token IS NULL AND body_bytes = 7 AND destination_id = $1`, text(moved.Destination))
	if j := l.jobOf(id); j.Released != 3 || j.Skipped != 0 || j.Pending() != 2 || j.Version != 2 || j.PacedTo.IsZero() || !j.CanaryPassed {
		t.Errorf("%+v", j)
	}
	claims := l.claim(moved, 10, time.Minute)
	for _, c := range claims {
		if c.Delivery.Job != id || c.Delivery.Run != 2 || c.Delivery.Attempts != 1 {
			t.Errorf("claimed %+v", c.Delivery)
		}
	}
	if standing, err := l.db.DeliveriesByID(t.Context(), died[:1]); err != nil || standing[0].Job != id || standing[0].State != hub.InFlight {
		t.Errorf("stands %+v, %v", standing, err)
	}
	l.release(id, 10)
	l.wantItems(id, hub.ItemReleased, 5)
	if j := l.jobOf(id); j.Released != 5 || j.Pending() != 0 || j.State != hub.JobRunning {
		t.Errorf("%+v", j)
	}
	feed := l.feed()
	if n := feed[len(feed)-1].Notice; n == nil || n.Replay == nil || n.Replay.Released != 5 || n.Replay.State != hub.JobRunning {
		t.Errorf("the feed tells %+v", n)
	}
	told := len(feed)
	if l.release(id, 10) {
		t.Error("something was done where nothing is left")
	}
	if feed = l.feed(); len(feed) != told {
		t.Errorf("the feed tells of nothing: %+v", feed[len(feed)-1].Notice)
	}
}

func TestStepReplay_skips_what_changed_meanwhile(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	s := l.opened("acme")
	off, deleted, unverified := s.subscribed("{*}"), s.subscribed("{*}"), s.subscribed("{*}")
	d := s.died(6)
	d = append(d, s.ended(off, s.stored(1, "loan.approved"), refused)...)
	d = append(d, s.ended(deleted, s.stored(1, "loan.approved"), refused)...)
	d = append(d, s.ended(unverified, s.stored(1, "loan.approved"), refused)...)
	id := l.job("acme", hub.ReplayFilter{})
	if j := l.started(id); j.Total != 9 {
		t.Fatalf("%d items", j.Total)
	}
	// 0 is fine; the others were delivered, given up, redelivered, claimed, or
	// lost their event meanwhile.
	of := func(i int) *hub.Delivery { return &hub.Delivery{ID: d[i], Tenant: "acme"} }
	finish := func(i int, state hub.State) {
		l.begin(of(i))
		for _, c := range l.claim(s.lane, 10, time.Minute) {
			l.record(outcome(c, state))
		}
	}
	finish(1, hub.Delivered)
	l.exec(`INSERT INTO delivery_results (id, tenant_id, delivery_id, run, state) VALUES ($1, 'acme', $2, 1, 'DISCARDED')`, text(newID()), text(d[2]))
	l.begin(of(3))
	l.claim(s.lane, 1, time.Minute)
	l.begin(of(4))
	l.exec(`DELETE FROM events WHERE id = (SELECT event_id FROM deliveries WHERE id = $1)`, text(d[5]))
	l.exec(`UPDATE event_subscriptions SET enabled = false, disabled_by = 'USER' WHERE id = $1`, text(off))
	l.exec(`UPDATE event_subscriptions SET deleted_at = now() WHERE id = $1`, text(deleted))
	l.exec(`UPDATE event_subscriptions SET verification_state = 'PENDING' WHERE id = $1`, text(unverified))
	before := l.count(`SELECT count(*) FROM delivery_queue`)

	l.release(id, 100)
	got := l.names(`SELECT state || ' ' || note FROM replay_items WHERE job_id = $1::text::uuid ORDER BY ordinal`, text(id))
	want := []string{
		"RELEASED ", "SKIPPED delivered meanwhile", "SKIPPED discarded meanwhile", "SKIPPED unfinished: in flight", "SKIPPED unfinished: waiting",
		"SKIPPED its event is past its retention", "SKIPPED its subscription is disabled", "SKIPPED its subscription was deleted", "SKIPPED its subscription is not verified",
	}
	if !slices.Equal(got, want) {
		t.Errorf("items\n%s,\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if j := l.jobOf(id); j.Released != 1 || j.Skipped != 8 || j.Pending() != 0 {
		t.Errorf("%+v", j)
	}
	l.wantCount("queue rows more", 1, `SELECT count(*) - $1 FROM delivery_queue`, before)
}

func TestStepReplay_obeys_what_is_decided(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.opened("acme").died(3)
	id := l.job("acme", hub.ReplayFilter{})
	l.started(id)
	step := func(change func(*replay.Step)) (seen hub.ReplayJob, did bool) {
		t.Helper()
		did, err := l.db.StepReplay(t.Context(), id, newID(), func(j *hub.ReplayJob, now time.Time) replay.Step {
			seen = *j
			s := replay.Step{PacedTo: j.PacedTo, CanaryPassed: j.CanaryPassed, State: j.State, PausedBy: j.PausedBy, Reason: j.Reason}
			if now.Sub(time.Now()).Abs() > time.Minute {
				t.Errorf("the clock says %s", now)
			}
			change(&s)
			return s
		})
		if err != nil {
			t.Fatal(err)
		}
		return seen, did
	}
	told := len(l.feed())
	if _, did := step(func(*replay.Step) {}); did {
		t.Error("nothing counts as something")
	}
	paced := kept().Add(time.Hour)
	if _, did := step(func(s *replay.Step) { s.PacedTo = paced }); did {
		t.Error("a mere pace counts as something")
	}
	if n := len(l.feed()); n != told {
		t.Errorf("%d items in the feed for nothing", n-told)
	}
	if j, did := step(func(s *replay.Step) { s.State, s.PausedBy, s.Reason = hub.JobPaused, hub.DisabledByAuto, "too many" }); !did || !j.PacedTo.Equal(paced) {
		t.Errorf("did %t, paced to %s", did, j.PacedTo)
	}
	if j := l.jobOf(id); j.State != hub.JobPaused || j.PausedBy != hub.DisabledByAuto || j.Reason != "too many" || !j.FinishedAt.IsZero() || j.Version != 2 {
		t.Errorf("%+v", j)
	}
	step(func(s *replay.Step) { s.State, s.PausedBy, s.Reason = hub.JobExpired, "", "too late" })
	if j := l.jobOf(id); j.State != hub.JobExpired || j.FinishedAt.IsZero() {
		t.Errorf("%+v", j)
	}
	if n := len(l.feed()); n != told+2 {
		t.Errorf("%d items in the feed, want 2", n-told)
	}
	if did, err := l.db.StepReplay(t.Context(), hub.JobID{ID: newID()}, newID(), releasing(1)); did || err != nil {
		t.Errorf("of no job: %t, %v", did, err)
	}
}

// Items are gone with their partition; what is left of the job ends.
// Outcomes count without a word. A step that finds more counted than was told
// tells it, once.
func TestStepReplay_tells_what_outcomes_counted(t *testing.T) {
	t.Parallel()
	s := newLab(t).opened("acme")
	s.died(2)
	id := s.job("acme", hub.ReplayFilter{})
	s.started(id)
	s.release(id, 2)
	idle := func() (items int) {
		t.Helper()
		before := len(s.feed())
		did, err := s.db.StepReplay(t.Context(), id, newID(), func(j *hub.ReplayJob, _ time.Time) replay.Step {
			return replay.Step{PacedTo: j.PacedTo, CanaryPassed: j.CanaryPassed, State: j.State}
		})
		if did || err != nil {
			t.Fatalf("%t, %v", did, err)
		}
		return len(s.feed()) - before
	}
	if n := idle(); n != 0 {
		t.Errorf("%d items of the feed about nothing", n)
	}
	claims := s.claim(s.lane, 2, time.Minute)
	s.record(outcome(claims[0], hub.Delivered), outcome(claims[1], hub.Dead))
	if n := idle(); n != 1 {
		t.Fatalf("%d items of the feed, want 1", n)
	}
	feed := s.feed()
	if r := feed[len(feed)-1].Notice.Replay; r.Released != 2 || r.Tried != 2 || r.Failed != 1 || r.Delivered != 1 || r.Dead != 1 {
		t.Errorf("%+v", r)
	}
	if n := idle(); n != 0 {
		t.Errorf("%d items of the feed tell it again", n)
	}
}

func TestStepReplay_items_past_their_retention_are_skipped(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.opened("acme").died(7)
	id := l.job("acme", hub.ReplayFilter{})
	l.started(id)
	l.release(id, 2)
	l.exec(`DELETE FROM replay_items`)
	l.release(id, 3)
	if j := l.jobOf(id); j.Released != 2 || j.Skipped != 3 {
		t.Errorf("%d released, %d skipped", j.Released, j.Skipped)
	}
	l.release(id, 100)
	if j := l.jobOf(id); j.Pending() != 0 || j.Skipped != 5 {
		t.Errorf("%d released, %d skipped", j.Released, j.Skipped)
	}
}

func TestStepReplay_over_all_tenants(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	one, two := l.opened("acme"), l.opened("globex")
	one.died(2)
	two.died(3)
	id := l.job("", hub.ReplayFilter{})
	if j := l.started(id); j.Total != 5 || len(j.Shares) != 2 {
		t.Fatalf("%+v", j)
	}
	l.release(id, 100)
	l.record(outcome(l.claim(one.lane, 1, time.Minute)[0], hub.Delivered))
	l.record(outcome(l.claim(two.lane, 1, time.Minute)[0], hub.Dead), outcome(l.claim(two.lane, 1, time.Minute)[0], hub.Delivered))
	if j := l.jobOf(id); j.Released != 5 || j.Tried != 3 || j.Failed != 1 || j.Delivered != 2 || j.Dead != 1 {
		t.Errorf("%+v", j)
	}
	l.wantCount("rows of progress, each of its tenant", 2, `SELECT count(*) FROM replay_progress WHERE (tenant_id, tried) IN (('acme', 1), ('globex', 2))`)
}

// Two replicas at one job, and two jobs over the same deliveries.
func TestStepReplay_replicas_release_each_item_once(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.opened("acme").died(300)
	first, second := l.job("acme", hub.ReplayFilter{}), l.job("acme", hub.ReplayFilter{})
	l.started(first)
	l.started(second)
	other, err := db.Open(t.Context(), db.Config{DSN: l.dsn, MaxConns: 4})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	var wg sync.WaitGroup
	for n := range 6 {
		d, id := l.db, first
		if n%2 == 1 {
			d = other
		}
		if n >= 4 {
			id = second
		}
		wg.Go(func() {
			for range 60 {
				if _, err := d.StepReplay(context.Background(), id, newID(), releasing(7)); err != nil {
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
	l.wantCount("queue rows", 300, `SELECT count(*) FROM delivery_queue WHERE run = 2`)
	l.wantCount("items that are released", 300, `SELECT count(*) FROM replay_items WHERE state = 'RELEASED'`)
	l.wantCount("items skipped as unfinished", 300, `SELECT count(*) FROM replay_items WHERE state = 'SKIPPED' AND note LIKE 'unfinished: %'`)
	a, b := l.jobOf(first), l.jobOf(second)
	if a.Released+b.Released != 300 || a.Skipped+b.Skipped != 300 || a.Pending() != 0 || b.Pending() != 0 {
		t.Errorf("first %+v\nsecond %+v", a, b)
	}
}

func TestStepReplay_is_broken_off_as_a_whole(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.opened("acme").died(4)
	id := l.job("acme", hub.ReplayFilter{})
	l.started(id)
	for _, table := range []string{"delivery_queue", "replay_jobs", "replay_items"} {
		l.exec(`CREATE OR REPLACE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'not today'; END $$;
			CREATE TRIGGER refuse AFTER INSERT OR UPDATE ON ` + table + ` FOR EACH ROW EXECUTE FUNCTION refuse()`)
		if did, err := l.db.StepReplay(t.Context(), id, newID(), releasing(2)); did || err == nil {
			t.Errorf("%s: %t, %v", table, did, err)
		}
		l.exec(`DROP TRIGGER refuse ON ` + table)
	}
	l.wantItems(id, hub.ItemPending, 4)
	l.wantCount("queue rows", 0, `SELECT count(*) FROM delivery_queue`)
	l.release(id, 100)
	l.wantItems(id, hub.ItemReleased, 4)
}
