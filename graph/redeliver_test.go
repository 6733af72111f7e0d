package graph_test

import (
	"crypto/rand"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/streaming-hub/streaming-hub/controlplane"
	"github.com/streaming-hub/streaming-hub/hub"
)

const redeliver = `mutation ($id: ID!, $key: String) { redeliver(input: {id: $id, idempotencyKey: $key}) {
	delivery { id state attemptCount nextAttemptAt deadReason finishedAt explanation } userErrors { code message path } } }`

func (w *world) redeliver(token, id string, key any) any {
	w.t.Helper()
	variables := map[string]any{"id": id}
	if key != nil {
		variables["key"] = key
	}
	return w.must(token, redeliver, variables).at("redeliver")
}

// count runs a query with one number as its answer.
func (w *world) count(sql string, args ...any) (n int) {
	w.t.Helper()
	if err := w.pool.QueryRow(w.t.Context(), sql, args...).Scan(&n); err != nil {
		w.t.Fatalf("%s: %v", sql, err)
	}
	return n
}

// finishRun lets a redelivered delivery end, as the data plane would.
func (w *world) finishRun(d delivery, run, attempts int32, status int32, state hub.State) {
	w.t.Helper()
	w.exec(`UPDATE delivery_queue SET leased_until = now() + interval '1 minute', lease_token = 1 WHERE id = $1`, d.Delivery.ID.String())
	d.Run, d.Attempts = run, attempts
	w.record(d.outcome(status, state))
}

func TestRedeliver_settled_deliveries_wait_again(t *testing.T) {
	w := newWorld(t)
	token := w.token("acme", hub.Operator)
	sub, dest := w.subscriptionOf("acme")
	for _, state := range []hub.State{hub.Dead, hub.Delivered, hub.Discarded} {
		t.Run(string(state), func(t *testing.T) {
			d := w.deliver("acme", sub, dest)
			id := gid("dlv_", d.Delivery.ID.ID)
			switch state {
			case hub.Dead:
				w.record(d.outcome(500, hub.Dead))
			case hub.Delivered:
				w.record(d.outcome(200, hub.Delivered))
			case hub.Discarded:
				w.record(d.outcome(500, hub.Dead))
				w.exec(`UPDATE delivery_results SET state = 'DISCARDED', dead_reason = NULL WHERE delivery_id = $1`, d.Delivery.ID.String())
			}
			p := w.redeliver(token, id, nil)
			got := at(p, "delivery")
			if at(got, "id") != id || at(got, "state") != "WAITING" || at(got, "attemptCount") != 1.0 || at(got, "nextAttemptAt") == nil ||
				at(got, "deadReason") != nil || at(got, "finishedAt") != nil || len(at(p, "userErrors").([]any)) != 0 {
				t.Errorf("%v", p)
			}
			if says := at(got, "explanation").(string); !strings.HasPrefix(says, "waiting: attempt 2 is due since") || !strings.HasSuffix(says, "8 of 8 attempts left") {
				t.Error(says)
			}
			before := fmt.Sprintf(`{"run": 1, "state": "%s", "attempts": 1}`, state)
			if state == hub.Dead {
				before = `{"run": 1, "state": "DEAD", "attempts": 1, "deadReason": "EXHAUSTED"}`
			}
			if n := w.count(`SELECT count(*) FROM audit_log WHERE action = 'redeliver' AND tenant_id = 'acme' AND actor_name = 'test' AND actor_id IS NOT NULL AND object = $1
				AND before = $2::jsonb AND after = '{"run": 2, "state": "WAITING", "attempts": 1}'`, id, before); n != 1 {
				t.Errorf("%d audit entries", n)
			}
			w.finishRun(d, 2, 1, 204, hub.Delivered)
			a := w.must(token, `query ($id: ID!) { delivery(id: $id) { state attemptCount deadReason } }`, map[string]any{"id": id})
			if a.at("delivery", "state") != "DELIVERED" || a.at("delivery", "attemptCount") != 2.0 || a.at("delivery", "deadReason") != nil {
				t.Errorf("%v", a.Data)
			}
		})
	}
}

func TestRedeliver_refusals(t *testing.T) {
	w := newWorld(t)
	token := w.token("acme", hub.Operator)
	for name, c := range map[string]struct {
		state      hub.State
		sql        string // with the delivery's row; $1 is the id that it needs
		of         string
		code, says string
	}{
		"waiting":       {hub.Waiting, ``, "", "CONFLICT", "waiting already"},
		"in_flight":     {hub.InFlight, ``, "", "CONFLICT", "being made already"},
		"held":          {hub.Waiting, `UPDATE delivery_queue SET due_at = 'infinity' WHERE id = $1`, "delivery", "CONFLICT", "held"},
		"disabled":      {hub.Dead, `UPDATE event_subscriptions SET enabled = false, disabled_by = 'USER' WHERE id = $1`, "sub", "INVALID", "is disabled; enable it to go on"},
		"not_verified":  {hub.Dead, `UPDATE event_subscriptions SET verification_state = 'FAILED' WHERE id = $1`, "sub", "INVALID", "not verified (FAILED)"},
		"gone":          {hub.Dead, `DELETE FROM event_subscriptions WHERE id = $1`, "sub", "INVALID", "its event subscription is gone"},
		"event_dropped": {hub.Dead, `DELETE FROM events WHERE id = $1`, "event", "INVALID", "past its retention"},
	} {
		t.Run(name, func(t *testing.T) {
			sub, dest := w.subscriptionOf("acme")
			d := w.deliver("acme", sub, dest)
			if c.state != hub.InFlight {
				w.record(d.outcome(500, c.state))
			}
			if c.sql != "" {
				w.exec(c.sql, map[string]string{"delivery": d.Delivery.ID.String(), "sub": sub.String(), "event": d.Event.String()}[c.of])
			}
			rows := w.count(`SELECT count(*) FROM delivery_queue`)
			p := w.redeliver(token, gid("dlv_", d.Delivery.ID.ID), nil)
			e := at(p, "userErrors", 0)
			if at(p, "delivery") != nil || at(e, "code") != c.code || !strings.Contains(fmt.Sprint(at(e, "message")), c.says) || fmt.Sprint(at(e, "path")) != "[input id]" {
				t.Errorf("%v", p)
			}
			if n := w.count(`SELECT count(*) FROM delivery_queue`); n != rows {
				t.Errorf("%d queue rows, before %d", n, rows)
			}
		})
	}
	for _, id := range []string{gid("dlv_", newID()), gid("evt_", newID()), "nonsense"} {
		if p := w.redeliver(token, id, nil); at(p, "userErrors", 0, "code") != "NOT_FOUND" {
			t.Errorf("%s: %v", id, p)
		}
	}
	t.Run("a_viewer_may_not", func(t *testing.T) {
		if a := w.ask(w.token("acme", hub.Viewer), redeliver, map[string]any{"id": gid("dlv_", newID())}); a.code() != "FORBIDDEN" {
			t.Errorf("%+v", a)
		}
	})
	if n := w.count(`SELECT count(*) FROM audit_log`); n != 0 {
		t.Errorf("%d audit entries of refusals", n)
	}
}

func TestRedeliver_double_clicks_make_one_run(t *testing.T) {
	w := newWorld(t)
	token := w.token("acme", hub.Operator)
	sub, dest := w.subscriptionOf("acme")
	d := w.deliver("acme", sub, dest)
	w.record(d.outcome(500, hub.Dead))
	id := gid("dlv_", d.Delivery.ID.ID)
	var wg sync.WaitGroup
	answers := make(chan any, 6)
	for range cap(answers) {
		wg.Go(func() { answers <- w.redeliver(token, id, nil) })
	}
	wg.Wait()
	close(answers)
	begun := 0
	for p := range answers {
		if at(p, "delivery") != nil {
			begun++
		} else if at(p, "userErrors", 0, "code") != "CONFLICT" {
			t.Errorf("%v", p)
		}
	}
	if n := w.count(`SELECT count(*) FROM delivery_queue WHERE run = 2`); begun != 1 || n != 1 {
		t.Errorf("%d calls began a run, there are %d", begun, n)
	}
	t.Run("also_when_the_first_run_ends_in_between", func(t *testing.T) {
		w.finishRun(d, 2, 1, 200, hub.Delivered)
		// Half a second has not passed for sure only by this clock.
		slow := &controlplane.Redelivery{DB: w.db, Random: rand.Reader, Now: func() time.Time { return hub.ID(lastEntry(w)).Time().Add(499 * time.Millisecond) }}
		_, mistakes, err := slow.Begin(t.Context(), controlplane.Actor{Tenant: "acme", Role: hub.Operator}, id, false)
		if err != nil || len(mistakes) != 1 || !strings.Contains(mistakes[0].Message, "a moment ago") {
			t.Errorf("%v, %v", mistakes, err)
		}
	})
	t.Run("half_a_second_later_it_is_another_wish", func(t *testing.T) {
		later := &controlplane.Redelivery{DB: w.db, Random: rand.Reader, Now: func() time.Time { return time.Now().Add(time.Second) }}
		s, mistakes, err := later.Begin(t.Context(), controlplane.Actor{Tenant: "acme", Role: hub.Operator}, id, false)
		if err != nil || len(mistakes) != 0 || s.Run != 3 || s.State != hub.Waiting {
			t.Errorf("%+v, %v, %v", s, mistakes, err)
		}
	})
}

// lastEntry is the id of the newest audit entry.
func lastEntry(w *world) (id [16]byte) {
	w.t.Helper()
	if err := w.pool.QueryRow(w.t.Context(), `SELECT id FROM audit_log ORDER BY id DESC LIMIT 1`).Scan(&id); err != nil {
		w.t.Fatal(err)
	}
	return id
}

func TestRedeliver_idempotency_key(t *testing.T) {
	w := newWorld(t)
	token := w.token("acme", hub.Operator)
	sub, dest := w.subscriptionOf("acme")
	one, two := w.deliver("acme", sub, dest), w.deliver("acme", sub, dest)
	w.record(one.outcome(500, hub.Dead), two.outcome(500, hub.Dead))
	first, second := gid("dlv_", one.Delivery.ID.ID), gid("dlv_", two.Delivery.ID.ID)
	for range 2 {
		if p := w.redeliver(token, first, "k1"); at(p, "delivery", "state") != "WAITING" {
			t.Errorf("%v", p)
		}
	}
	w.finishRun(one, 2, 1, 200, hub.Delivered)
	t.Run("a_repeated_call_begins_nothing_when_the_run_is_over", func(t *testing.T) {
		if p := w.redeliver(token, first, "k1"); at(p, "delivery", "state") != "WAITING" || len(at(p, "userErrors").([]any)) != 0 {
			t.Errorf("not the same answer: %v", p)
		}
		if n := w.count(`SELECT count(*) FROM audit_log WHERE action = 'redeliver' AND object = $1`, first); n != 1 {
			t.Errorf("%d audit entries", n)
		}
		if n := w.count(`SELECT count(*) FROM delivery_queue WHERE id = $1`, one.Delivery.ID.String()); n != 0 {
			t.Errorf("%d runs", n)
		}
	})
	t.Run("another_delivery_under_the_same_key_is_an_error", func(t *testing.T) {
		p := w.redeliver(token, second, "k1")
		if at(p, "userErrors", 0, "code") != "CONFLICT" || fmt.Sprint(at(p, "userErrors", 0, "path")) != "[input idempotencyKey]" {
			t.Errorf("%v", p)
		}
	})
	t.Run("a_key_belongs_to_its_token", func(t *testing.T) {
		if p := w.redeliver(w.token("", hub.Operator), second, "k1"); at(p, "delivery", "state") != "WAITING" {
			t.Errorf("%v", p)
		}
	})
	t.Run("another_key_is_another_wish", func(t *testing.T) {
		if p := w.redeliver(token, first, "k2"); at(p, "delivery", "state") != "WAITING" {
			t.Errorf("%v", p)
		}
		w.finishRun(one, 3, 2, 200, hub.Delivered)
	})
	t.Run("after_24_hours_it_is_forgotten", func(t *testing.T) {
		w.exec(`UPDATE idempotency_keys SET created_at = created_at - interval '24 hours 1 minute' WHERE key = 'k1'`)
		if p := w.redeliver(token, first, "k1"); at(p, "delivery", "attemptCount") != 3.0 || at(p, "delivery", "state") != "WAITING" {
			t.Errorf("%v", p)
		}
	})
	t.Run("1_to_200_characters_of_text", func(t *testing.T) {
		for _, key := range []string{"", strings.Repeat("k", 201), "a\x00b"} {
			if p := w.redeliver(token, first, key); at(p, "userErrors", 0, "code") != "INVALID" {
				t.Errorf("%q: %v", key, p)
			}
		}
	})
}
