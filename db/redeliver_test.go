package db_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/streaming-hub/streaming-hub/db"
	"github.com/streaming-hub/streaming-hub/hub"
	"github.com/streaming-hub/streaming-hub/hub/retry"
)

// owed stores a due delivery with its event and its event subscription.
func (l *lab) owed(tenant string) (db.Lane, hub.Delivery) {
	l.Helper()
	lane := laneOf(tenant)
	list := born(lane, 1)
	l.store(db.IngestWrites{Deliveries: list, Lease: time.Minute}, lane.Tenant)
	d := list[0].Delivery
	l.exec(`INSERT INTO events (id, tenant_id, seq, source, ce_id, event_type, schema_version, schema_major, received_at, topic, kafka_partition, kafka_offset, context, body)
		VALUES ($1, $2, 1, 'lender', 'x', 'loan.approved', '1', 1, now(), 't', 0, 0, '{}', '1234567')`, text(d.Event), tenant)
	l.exec(`INSERT INTO destinations (id, tenant_id, kind, url, created_at) VALUES ($1, $2, 'WEBHOOK', $1::uuid::text, now())`, text(lane.Destination), tenant)
	l.exec(`INSERT INTO event_subscriptions (id, tenant_id, name, event_types, destination_id, kind, verification_state, created_at, updated_at)
		VALUES ($1, $2, 'test', '{*}', $3, 'WEBHOOK', 'ACTIVE', now(), now())`, text(d.Subscription), tenant, text(lane.Destination))
	return lane, d
}

// runOf asks for a run of a settled delivery.
func runOf(d *hub.Delivery) db.RunRequest {
	return db.RunRequest{
		Delivery: d.ID, Tenant: d.Tenant, Action: "redeliver", Object: "dlv", ClickFrom: time.Now(),
		Judge: func(st *db.RunState) (bool, error) {
			return st.Standing.State.Settled() && st.Subscription != nil && st.Event != nil, nil
		},
		Audit: func(before, after *hub.Standing) db.AuditEntry {
			return db.AuditEntry{ID: newID(), Tenant: after.Tenant, ActorName: "test", Action: "redeliver", Object: "dlv", Before: before.State, After: after.State}
		},
	}
}

func (l *lab) begin(d *hub.Delivery) hub.Standing {
	l.Helper()
	s, err := l.db.BeginRun(l.Context(), runOf(d))
	if err != nil {
		l.Fatal(err)
	}
	return s
}

// wantEverywhere says where a delivery has to stand, in every read of it.
func (l *lab) wantEverywhere(d *hub.Delivery, state hub.State, run, attempts int32) {
	l.Helper()
	check := func(read string, s hub.Standing) {
		l.Helper()
		if s.State != state || s.Run != run || s.Attempts != attempts {
			l.Errorf("%s: %s, run %d, %d attempts; want %s, run %d, %d attempts", read, s.State, s.Run, s.Attempts, state, run, attempts)
		}
	}
	only := func(read string, list []hub.Standing, err error) {
		l.Helper()
		if err != nil || len(list) != 1 {
			l.Errorf("%s: %d deliveries, %v", read, len(list), err)
			return
		}
		check(read, list[0])
	}
	list, err := l.db.DeliveriesByID(l.Context(), []hub.DeliveryID{d.ID})
	only("by id", list, err)
	pair := db.Pair{Event: d.Event, Subscription: d.Subscription}
	pairs, err := l.db.DeliveriesOfPairs(l.Context(), []db.Pair{pair})
	if err != nil {
		l.Fatal(err)
	}
	check("by pair", pairs[pair])
	newest := hub.ID{0: 0xff}
	for read, f := range map[string]db.DeliveryFilter{
		"all": {}, "of tenant": {Tenant: d.Tenant}, "of subscription": {Subscription: d.Subscription}, "of event": {Event: d.Event},
	} {
		for _, s := range []hub.State{hub.Waiting, hub.InFlight, hub.Delivered, hub.Dead, hub.Discarded} {
			f.States = []hub.State{s}
			page, err := l.db.DeliveryPage(l.Context(), f, newest, 10)
			if s == state {
				only(read+" by state", page.Deliveries, err)
			} else if err != nil || len(page.Deliveries) > 0 {
				l.Errorf("%s: a delivery that is %s is listed as %s (%v)", read, state, s, err)
			}
		}
	}
	for read, f := range map[string]db.DeadLetterFilter{"dead letters": {}, "dead letters of tenant": {Tenant: d.Tenant, EventType: "loan.*"}} {
		page, err := l.db.DeadLetterPage(l.Context(), f, newest, 10)
		if state == hub.Dead {
			only(read, page.Deliveries, err)
		} else if err != nil || len(page.Deliveries) > 0 {
			l.Errorf("%s has one that is %s (%v)", read, state, err)
		}
	}
}

func TestBeginRun_is_a_fresh_run_of_the_same_delivery(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	lane, d := l.owed("acme")
	claim := func() db.Claim {
		t.Helper()
		claims := l.claim(lane, 10, time.Minute)
		if len(claims) != 1 || claims[0].Delivery.ID != d.ID {
			t.Fatalf("claimed %+v", claims)
		}
		return claims[0]
	}
	again := outcome(claim(), hub.Waiting)
	again.Decision.NextAt = time.Now().Add(-time.Second)
	l.record(again)
	l.record(outcome(claim(), hub.Dead))
	l.wantEverywhere(&d, hub.Dead, 1, 2)
	l.exec("UPDATE events SET received_at = now() - interval '100 hours'")

	if s := l.begin(&d); s.State != hub.Waiting || s.Run != 2 || s.Attempts != 2 || s.RunAttempts != 0 {
		t.Errorf("begun: %+v", s)
	}
	l.wantEverywhere(&d, hub.Waiting, 2, 2)
	l.wantCount("rows as if born now", 1, `SELECT count(*) FROM delivery_queue WHERE due_at <= now() AND received_at > now() - interval '1 minute'
		AND first_failed_at IS NULL AND run_attempts = 0 AND reclaims = 0 AND lease_token IS NULL AND body_bytes = 7`)
	c := claim()
	l.wantEverywhere(&d, hub.InFlight, 2, 2)
	// As dispatch asks: the policy sees the first attempt of a young delivery.
	if c.Delivery.Run != 2 || c.Delivery.Attempts != 2 || c.Delivery.RunAttempts != 0 || !c.Delivery.FirstFailedAt.IsZero() {
		t.Errorf("claimed %+v", c.Delivery)
	}
	for _, p := range []hub.RetryPolicy{{}, retry.Workfront(false)} {
		if step := retry.Next(p, retry.Failed{Attempt: c.Delivery.RunAttempts + 1, StartedAge: time.Since(c.Delivery.ReceivedAt)}); step.Dead != "" {
			t.Errorf("%s ends the fresh run: %+v", p.Kind, step)
		}
	}
	failed := outcome(c, hub.Waiting)
	failed.Decision.NextAt = time.Now().Add(-time.Second)
	l.record(failed)
	l.record(outcome(claim(), hub.Delivered))
	// A later success outranks the older end.
	l.wantEverywhere(&d, hub.Delivered, 2, 4)

	// And the reverse: a later end outranks the older success.
	l.begin(&d)
	l.record(outcome(claim(), hub.Dead))
	l.wantEverywhere(&d, hub.Dead, 3, 5)
	l.begin(&d)
	l.exec(`DELETE FROM delivery_queue`)
	l.exec(`INSERT INTO delivery_results (id, tenant_id, delivery_id, run, state) VALUES ($1, 'acme', $2, 4, 'DISCARDED')`, text(newID()), text(d.ID))
	l.wantEverywhere(&d, hub.Discarded, 4, 5)
	l.begin(&d)
	l.record(outcome(claim(), hub.Delivered))
	l.wantEverywhere(&d, hub.Delivered, 5, 6)

	attempts, err := l.db.AttemptsOf(t.Context(), []hub.DeliveryID{d.ID})
	if err != nil {
		t.Fatal(err)
	}
	runs := []int32{1, 1, 2, 2, 3, 5}
	for i, a := range attempts[d.ID] {
		if a.Number != int32(i+1) || a.Run != runs[i] {
			t.Errorf("attempt %d has number %d and run %d, want run %d", i+1, a.Number, a.Run, runs[i])
		}
	}
	l.wantCount("results by run", 3, `SELECT count(*) FROM delivery_results WHERE (run, state) IN ((1, 'DEAD'), (3, 'DEAD'), (4, 'DISCARDED'))`)
	l.wantCount("audit entries", 4, `SELECT count(*) FROM audit_log WHERE action = 'redeliver' AND after = '"WAITING"'`)
}

func TestBeginRun_calls_at_once_begin_one_run(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	lane, d := l.owed("acme")
	l.record(outcome(l.claim(lane, 1, time.Minute)[0], hub.Dead))
	var wg sync.WaitGroup
	errs := make(chan error, 8)
	for range cap(errs) {
		wg.Go(func() {
			_, err := l.db.BeginRun(context.Background(), runOf(&d))
			errs <- err
		})
	}
	wg.Wait()
	close(errs)
	for err := range errs {
		if err != nil {
			t.Error(err)
		}
	}
	l.wantCount("runs", 1, "SELECT count(*) FROM delivery_queue WHERE run = 2")
	l.wantCount("audit entries", 1, "SELECT count(*) FROM audit_log")
	l.wantEverywhere(&d, hub.Waiting, 2, 1)
}

// The outcome of a worker that stood still while its delivery died and was
// redelivered is of an old lease.
func TestBeginRun_a_late_worker_of_the_run_before_writes_nothing(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	lane, d := l.owed("acme")
	late := l.claim(lane, 1, 0)[0] // a lease that is over at once
	l.record(outcome(l.claim(lane, 1, time.Minute)[0], hub.Dead))
	l.begin(&d)
	if recorded := l.record(outcome(late, hub.Delivered)); len(recorded) > 0 {
		t.Errorf("recorded %v", recorded)
	}
	l.wantEverywhere(&d, hub.Waiting, 2, 1)
}

func TestBeginRun_a_refusal_leaves_nothing(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	lane, d := l.owed("acme")
	l.record(outcome(l.claim(lane, 1, time.Minute)[0], hub.Dead))
	r, refused := runOf(&d), errors.New("not today")
	r.Judge = func(*db.RunState) (bool, error) { return true, refused }
	if _, err := l.db.BeginRun(t.Context(), r); !errors.Is(err, refused) {
		t.Errorf("the error is %v", err)
	}
	r.Judge = func(*db.RunState) (bool, error) { return false, nil }
	if s, err := l.db.BeginRun(t.Context(), r); err != nil || s.State != hub.Dead {
		t.Errorf("%+v, %v", s, err)
	}
	l.wantCount("queue rows", 0, "SELECT count(*) FROM delivery_queue")
	l.wantCount("audit entries", 0, "SELECT count(*) FROM audit_log")
	r.Delivery = hub.DeliveryID{ID: newID()}
	if _, err := l.db.BeginRun(t.Context(), r); !errors.Is(err, db.ErrChanged) {
		t.Errorf("of no delivery: %v", err)
	}
}
