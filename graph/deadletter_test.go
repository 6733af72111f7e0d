package graph_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/streaming-hub/streaming-hub/hub"
)

func TestDeadLetters_filters(t *testing.T) {
	w := newWorld(t)
	tenant, platform := w.token("acme", hub.Viewer), w.token("", hub.Viewer)
	sub, dest := w.subscriptionOf("acme")
	other, otherDest := w.subscriptionOf("acme")
	foreign, foreignDest := w.subscriptionOf("beta")
	names := map[any]string{}
	die := func(name, tenant string, sub, dest hub.ID, eventType string, reason hub.DeadReason) delivery {
		d := w.deliver(tenant, sub, dest)
		names[gid("dlv_", d.Delivery.ID.ID)] = name
		w.exec(`UPDATE events SET event_type = $2 WHERE id = $1`, d.Event.String(), eventType)
		o := d.outcome(500, hub.Dead)
		o.Decision.DeadReason = reason
		w.record(o)
		return d
	}
	die("a", "acme", sub, dest, "loan.approved", hub.DeadExhausted)
	die("b", "acme", sub, dest, "loan.closed", hub.DeadExpired)
	die("c", "acme", other, otherDest, "loaner.closed", hub.DeadExpired)
	die("d", "beta", foreign, foreignDest, "loan.closed", hub.DeadExpired)
	w.record(w.deliver("acme", sub, dest).outcome(200, hub.Delivered), w.deliver("acme", sub, dest).outcome(500, hub.Waiting))
	discarded := w.deliver("acme", sub, dest)
	w.exec(`DELETE FROM delivery_queue WHERE id = $1`, discarded.Delivery.ID.String())
	w.exec(`INSERT INTO delivery_results (id, tenant_id, delivery_id, run, state) VALUES ($1, 'acme', $2, 1, 'DISCARDED')`, newID().String(), discarded.Delivery.ID.String())
	past, future := time.Now().Add(-time.Minute).UTC().Format(time.RFC3339Nano), time.Now().Add(time.Minute).UTC().Format(time.RFC3339Nano)

	for _, c := range []struct{ token, filter, want string }{
		{tenant, `{}`, "[c b a]"},
		{platform, `{}`, "[d c b a]"},
		{platform, `{tenantId: "beta"}`, "[d]"},
		{tenant, `{tenantId: "beta"}`, "[]"},
		{tenant, fmt.Sprintf(`{eventSubscriptionId: %q}`, gid("sub_", sub)), "[b a]"},
		{tenant, fmt.Sprintf(`{destinationId: %q}`, gid("dst_", otherDest)), "[c]"},
		{tenant, fmt.Sprintf(`{destinationId: %q}`, gid("dst_", foreignDest)), "[]"},
		{tenant, `{destinationId: "nonsense"}`, "[]"},
		{tenant, `{eventType: "loan.closed"}`, "[b]"},
		{tenant, `{eventType: "loan.*"}`, "[b a]"},
		{platform, `{eventType: "*"}`, "[d c b a]"},
		{tenant, `{reason: EXHAUSTED}`, "[a]"},
		{tenant, `{reason: [EXHAUSTED, EXPIRED]}`, "[c b a]"},
		{tenant, `{reason: [POISON]}`, "[]"},
		{tenant, fmt.Sprintf(`{endedAfter: %q, endedBefore: %q}`, past, future), "[c b a]"},
		{tenant, fmt.Sprintf(`{endedAfter: %q}`, future), "[]"},
		{tenant, fmt.Sprintf(`{endedBefore: %q}`, past), "[]"},
		{tenant, fmt.Sprintf(`{eventSubscriptionId: %q, eventType: "loan.*", reason: EXPIRED}`, gid("sub_", sub)), "[b]"},
	} {
		t.Run(c.filter, func(t *testing.T) {
			a := w.must(c.token, `{ deadLetters(filter: `+c.filter+`) { nodes { id state } pageInfo { hasNextPage } liveCursor } }`, nil)
			got := []string{}
			for _, n := range a.at("deadLetters", "nodes").([]any) {
				got = append(got, names[at(n, "id")])
				if at(n, "state") != "DEAD" {
					t.Errorf("%v", n)
				}
			}
			if fmt.Sprint(got) != c.want || a.at("deadLetters", "pageInfo", "hasNextPage") != false {
				t.Errorf("got %v, want %s", got, c.want)
			}
		})
	}
	t.Run("ended_at_exactly_then", func(t *testing.T) {
		a := w.must(tenant, `{ deadLetters(filter: {reason: EXHAUSTED}) { nodes { finishedAt } } }`, nil)
		then := a.at("deadLetters", "nodes", 0, "finishedAt")
		a = w.must(tenant, `query ($t: DateTime!) { in: deadLetters(filter: {reason: EXHAUSTED, endedAfter: $t}) { nodes { id } }
			out: deadLetters(filter: {reason: EXHAUSTED, endedBefore: $t}) { nodes { id } } }`, map[string]any{"t": then})
		if len(a.at("in", "nodes").([]any)) != 1 || len(a.at("out", "nodes").([]any)) != 0 {
			t.Errorf("%v", a.Data)
		}
	})
	t.Run("a_malformed_event_type_is_told", func(t *testing.T) {
		if a := w.ask(tenant, `{ deadLetters(filter: {eventType: "loan"}) { nodes { id } } }`, nil); a.code() != "BAD_USER_INPUT" {
			t.Errorf("%+v", a)
		}
	})
	t.Run("pages_hold_everything_once", func(t *testing.T) {
		var got []string
		var after any
		for range 6 {
			a := w.must(platform, `query ($c: String) { deadLetters(first: 1, after: $c) { nodes { id } pageInfo { hasNextPage endCursor } } }`, map[string]any{"c": after})
			for _, n := range a.at("deadLetters", "nodes").([]any) {
				got = append(got, names[at(n, "id")])
			}
			if after = a.at("deadLetters", "pageInfo", "endCursor"); a.at("deadLetters", "pageInfo", "hasNextPage") != true {
				break
			}
		}
		if fmt.Sprint(got) != "[d c b a]" {
			t.Errorf("got %v", got)
		}
	})
}

func TestDeadLetters_what_was_redelivered_is_none_until_it_dies_again(t *testing.T) {
	w := newWorld(t)
	token := w.token("acme", hub.Operator)
	sub, dest := w.subscriptionOf("acme")
	old, young := w.deliver("acme", sub, dest), w.deliver("acme", sub, dest)
	w.record(old.outcome(500, hub.Dead))
	w.record(young.outcome(500, hub.Dead))
	is := func(want ...delivery) {
		t.Helper()
		a := w.must(token, `{ deadLetters { nodes { id } } }`, nil)
		ids, wanted := []any{}, []any{}
		for _, n := range a.at("deadLetters", "nodes").([]any) {
			ids = append(ids, at(n, "id"))
		}
		for _, d := range want {
			wanted = append(wanted, gid("dlv_", d.Delivery.ID.ID))
		}
		if fmt.Sprint(ids) != fmt.Sprint(wanted) {
			t.Errorf("got %v, want %v", ids, wanted)
		}
	}
	is(young, old)
	w.redeliver(token, gid("dlv_", old.Delivery.ID.ID), nil)
	is(young)
	w.finishRun(old, 2, 1, 500, hub.Dead)
	is(old, young) // at its new end, once
	w.redeliver(token, gid("dlv_", old.Delivery.ID.ID), "again")
	w.finishRun(old, 3, 2, 200, hub.Delivered)
	is(young)
}

// A page stops after a bounded walk, however many were redelivered, and says
// that it goes on.
func TestDeadLetters_behind_many_redelivered_ones_stop_early(t *testing.T) {
	w := newWorld(t)
	token := w.token("acme", hub.Viewer)
	sub, dest := w.subscriptionOf("acme")
	dead := w.deliver("acme", sub, dest)
	w.record(dead.outcome(500, hub.Dead))
	// 3000 newer deaths, all of them delivered in a second run.
	w.exec(`WITH d AS (
		SELECT (lpad(to_hex((extract(epoch FROM now()) * 1000)::bigint + 10), 12, '0') || '7000' || lpad(to_hex(n), 16, '0'))::uuid AS id FROM generate_series(1, 3000) n
	), born AS (
		INSERT INTO deliveries (id, tenant_id, event_id, subscription_id, destination_id) SELECT id, 'acme', id, $1, $2 FROM d
	), died AS (
		INSERT INTO delivery_results (id, tenant_id, delivery_id, run, state, dead_reason) SELECT id, 'acme', id, 1, 'DEAD', 'EXHAUSTED' FROM d
	) INSERT INTO attempts (id, tenant_id, delivery_id, event_id, subscription_id, destination_id, run, number, started_at, total_us, status, error_class, state, detail)
		SELECT id, 'acme', id, id, $1, $2, 2, 2, now(), 1000, 200, '', 'DELIVERED', '{}' FROM d`, sub.String(), dest.String())
	a := w.must(token, `{ deadLetters { nodes { id } pageInfo { hasNextPage endCursor } } }`, nil)
	if len(a.at("deadLetters", "nodes").([]any)) != 0 || a.at("deadLetters", "pageInfo", "hasNextPage") != true {
		t.Fatalf("%v", a.Data)
	}
	a = w.must(token, `query ($c: String) { deadLetters(after: $c) { nodes { id } pageInfo { hasNextPage } } }`, map[string]any{"c": a.at("deadLetters", "pageInfo", "endCursor")})
	if a.at("deadLetters", "nodes", 0, "id") != gid("dlv_", dead.Delivery.ID.ID) || a.at("deadLetters", "pageInfo", "hasNextPage") != false {
		t.Errorf("%v", a.Data)
	}
}

const deadQuery = `subscription ($after: String, $filter: DeadLetterFilter) { deadLetterAdded(after: $after, filter: $filter) {
	__typename ... on DeliveryOutcome { cursor deliveryId destinationId attemptNumber attemptCount state deadReason fingerprint status errorClass at eventType delivery { id state fingerprint finishedAt } }
	... on LiveGap { cursor after through missed } } }`

func TestLive_dead_letters(t *testing.T) {
	w := newWorld(t)
	token := w.token("acme", hub.Viewer)
	sub, dest := w.subscriptionOf("acme")
	foreign, foreignDest := w.subscriptionOf("beta")
	page := w.must(token, `{ deadLetters { liveCursor } }`, nil)
	tried := w.deliver("acme", sub, dest).outcome(500, hub.Dead)
	tried.Decision.Fingerprint = []byte("0123456789abcdef")
	// One that ends while it waits has no attempt of its own.
	waited := w.deliver("acme", sub, dest).outcome(0, hub.Dead)
	waited.Delivery.Attempts, waited.Attempt.Number, waited.Attempt.Timings = 3, 0, hub.Timings{}
	waited.Decision.DeadReason = hub.DeadSubscriptionDeleted
	w.record(w.deliver("beta", foreign, foreignDest).outcome(500, hub.Dead), w.deliver("acme", sub, dest).outcome(500, hub.Waiting), tried)
	w.notify(circuitNotice("acme", dest, hub.NoticeCircuitOpened, "OPEN"))
	w.record(waited)

	c := w.socket(token)
	c.subscribe("all", deadQuery, map[string]any{"after": page.at("deadLetters", "liveCursor")})
	first, second := c.itemOf("deadLetterAdded"), c.itemOf("deadLetterAdded")
	const fingerprint = "30313233343536373839616263646566"
	if first["deliveryId"] != gid("dlv_", tried.Delivery.ID.ID) || first["destinationId"] != gid("dst_", dest) || first["attemptNumber"] != 1.0 || first["attemptCount"] != 1.0 ||
		first["status"] != 500.0 || first["fingerprint"] != fingerprint || at(first, "delivery", "fingerprint") != fingerprint {
		t.Errorf("got %v", first)
	}
	if second["deliveryId"] != gid("dlv_", waited.Delivery.ID.ID) || second["attemptNumber"] != nil || second["attemptCount"] != 3.0 ||
		second["deadReason"] != "SUBSCRIPTION_DELETED" || second["status"] != nil || second["errorClass"] != nil || second["fingerprint"] != nil ||
		second["at"] == nil || at(second, "delivery", "state") != "DEAD" || at(second, "delivery", "fingerprint") != nil {
		t.Errorf("got %v", second)
	}
	t.Run("resumes", func(t *testing.T) {
		c := w.socket(token)
		c.subscribe("b", deadQuery, map[string]any{"after": first["cursor"]})
		if i := c.itemOf("deadLetterAdded"); i["deliveryId"] != second["deliveryId"] {
			t.Errorf("got %v", i)
		}
	})
	t.Run("filters_like_the_list", func(t *testing.T) {
		for filter, want := range map[string]map[string]any{
			`{"fingerprint":"` + fingerprint + `"}`:                                    first,
			`{"reason":["SUBSCRIPTION_DELETED"]}`:                                      second,
			`{"endedAfter":"` + fmt.Sprint(at(first, "delivery", "finishedAt")) + `"}`: first,
		} {
			var f any
			if err := json.Unmarshal([]byte(filter), &f); err != nil {
				t.Fatal(err)
			}
			c := w.socket(token)
			c.subscribe("f", deadQuery, map[string]any{"filter": f, "after": page.at("deadLetters", "liveCursor")})
			if i := c.itemOf("deadLetterAdded"); i["deliveryId"] != want["deliveryId"] {
				t.Errorf("%s: got %v", filter, i)
			}
		}
	})
	t.Run("a_malformed_event_type_is_told", func(t *testing.T) {
		c := w.socket(token)
		c.subscribe("m", deadQuery, map[string]any{"filter": map[string]any{"eventType": "loan"}})
		if m := c.read(); m["type"] != "next" && m["type"] != "error" || !strings.Contains(fmt.Sprint(m), "BAD_USER_INPUT") {
			t.Errorf("got %v", m)
		}
	})
}
