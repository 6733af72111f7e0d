package graph_test

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"github.com/streaming-hub/streaming-hub/hub"
)

const deliveryFields = `id state attemptCount nextAttemptAt deadReason lastError explanation createdAt finishedAt tenantId
	event { id seq ceId source ceType eventType schemaVersion schemaMajor subject time receivedAt contentType sizeBytes
		kafka { topic partition offset } body { text base64 json } deliveries { nodes { id } } }
	eventSubscription { id name } destination { id kind url }
	attempts { number attemptId startedAt duration timings { dns connect tls firstByte total } status requestHeaders { name value }
		responseHeaders { name value } responseBody responseBodyTruncated remoteIp tlsVersion errorClass errorPhase errorDetail
		decision { state nextAttemptAt deadReason reason } }`

func TestDelivery_states(t *testing.T) {
	w := newWorld(t)
	token := w.token("acme", hub.Viewer)
	sub, dest := w.subscriptionOf("acme")

	made := map[string]delivery{}
	for _, state := range []string{"WAITING", "IN_FLIGHT", "HELD", "DELIVERED", "DEAD", "DISCARDED"} {
		made[state] = w.deliver("acme", sub, dest)
	}
	w.record(made["WAITING"].outcome(500, hub.Waiting), made["DELIVERED"].outcome(200, hub.Delivered), made["DEAD"].outcome(503, hub.Dead))
	w.exec(`UPDATE delivery_queue SET due_at = 'infinity', leased_until = NULL, lease_token = NULL WHERE id = $1`, made["HELD"].Delivery.ID.String())
	w.exec(`DELETE FROM delivery_queue WHERE id = $1`, made["DISCARDED"].Delivery.ID.String())
	w.exec(`INSERT INTO delivery_results (id, tenant_id, delivery_id, run, state) VALUES ($1, 'acme', $2, 1, 'DISCARDED')`, newID().String(), made["DISCARDED"].Delivery.ID.String())

	explained := map[string]string{
		"WAITING": "attempt 2 comes at", "IN_FLIGHT": "attempt 1 is being made", "HELD": "held",
		"DELIVERED": "attempt 1 was answered with HTTP 200", "DEAD": "all attempts are used up, the last attempt failed with HTTP 503", "DISCARDED": "an operator",
	}
	for state, d := range made {
		t.Run(state, func(t *testing.T) {
			id := gid("dlv_", d.Delivery.ID.ID)
			a := w.must(token, `query ($id: ID!) { delivery(id: $id) { `+deliveryFields+` } }`, map[string]any{"id": id})
			got := a.at("delivery")
			if at(got, "state") != state || !strings.Contains(at(got, "explanation").(string), explained[state]) {
				t.Errorf("got %v: %v", at(got, "state"), at(got, "explanation"))
			}
			settled := state == "DELIVERED" || state == "DEAD" || state == "DISCARDED"
			if (at(got, "finishedAt") != nil) != settled || (at(got, "nextAttemptAt") != nil) != (state == "WAITING") {
				t.Errorf("finished %v next %v", at(got, "finishedAt"), at(got, "nextAttemptAt"))
			}
			a = w.must(token, `query ($s: DeliveryState!) { deliveries(filter: {state: [$s]}) { nodes { id } } }`, map[string]any{"s": state})
			if nodes := a.at("deliveries", "nodes").([]any); len(nodes) != 1 || at(nodes, 0, "id") != id {
				t.Errorf("by state: %v", nodes)
			}
		})
	}
	t.Run("attempt", func(t *testing.T) {
		a := w.must(token, `query ($id: ID!) { delivery(id: $id) { `+deliveryFields+` } }`, map[string]any{"id": gid("dlv_", made["DEAD"].Delivery.ID.ID)})
		got := a.at("delivery", "attempts", 0)
		for path, want := range map[string]any{
			"status": 503.0, "errorClass": "STATUS", "errorPhase": "ANSWER", "duration": "PT0.0015S", "responseBody": "thanks", "remoteIp": "192.0.2.1", "number": 1.0,
		} {
			if at(got, path) != want {
				t.Errorf("%s = %v, want %v", path, at(got, path), want)
			}
		}
		if at(got, "timings", "dns") != nil || at(got, "timings", "connect") != "PT0.0003S" || at(got, "decision", "deadReason") != "EXHAUSTED" || at(got, "decision", "reason") != "because" {
			t.Errorf("%v", got)
		}
		headers := fmt.Sprint(at(got, "requestHeaders"))
		for _, want := range []string{"X-Lerian-Attempt", made["DEAD"].Delivery.ID.String(), at(got, "attemptId").(string), "v1,********"} {
			if !strings.Contains(headers, want) {
				t.Errorf("request headers lack %s: %s", want, headers)
			}
		}
	})
	t.Run("event_body_is_exact", func(t *testing.T) {
		a := w.must(token, `query ($id: ID!) { event(id: $id) { seq eventType kafka { partition offset } sizeBytes body { text base64 json } deliveries { nodes { id } } } }`,
			map[string]any{"id": gid("evt_", made["DEAD"].Event.ID)})
		const body = `{"amount": 12345678901234567890}`
		if a.at("event", "body", "text") != body || a.at("event", "body", "base64") != base64.StdEncoding.EncodeToString([]byte(body)) || a.at("event", "sizeBytes") != float64(len(body)) {
			t.Errorf("%v", a.Data)
		}
		if a.at("event", "kafka", "offset") != "42" || a.at("event", "deliveries", "nodes", 0, "id") != gid("dlv_", made["DEAD"].Delivery.ID.ID) {
			t.Errorf("%v", a.Data)
		}
	})
	t.Run("event_verdicts", func(t *testing.T) {
		w.exec(`UPDATE event_subscriptions SET origin = 'billing'`)
		a := w.must(token, `query ($id: ID!) { event(id: $id) { verdicts { matched failedClause eventSubscription { id } clauses { name passed wanted got } } } }`,
			map[string]any{"id": gid("evt_", made["DEAD"].Event.ID)})
		v := a.at("event", "verdicts", 0)
		if at(v, "matched") != false || at(v, "failedClause") != "origin" || at(v, "clauses", 3, "wanted") != "billing" || at(v, "clauses", 3, "got") != "lender" {
			t.Errorf("%v", a.Data)
		}
	})
	t.Run("body_that_is_no_text", func(t *testing.T) {
		w.exec(`UPDATE events SET body = '\xff00' WHERE id = $1`, made["HELD"].Event.String())
		a := w.must(token, `query ($id: ID!) { event(id: $id) { body { text base64 json } } }`, map[string]any{"id": gid("evt_", made["HELD"].Event.ID)})
		if a.at("event", "body", "text") != nil || a.at("event", "body", "json") != nil || a.at("event", "body", "base64") != "/wA=" {
			t.Errorf("%v", a.Data)
		}
	})
	t.Run("body_that_nests_too_deep", func(t *testing.T) {
		deep := strings.Repeat("[", 9_998) + strings.Repeat("]", 9_998) // as deep as encoding/json takes it, alone
		w.exec(`UPDATE events SET body = $2 WHERE id = $1`, made["HELD"].Event.String(), []byte(deep))
		a := w.must(token, `query ($id: ID!) { event(id: $id) { body { text json } } }`, map[string]any{"id": gid("evt_", made["HELD"].Event.ID)})
		if a.at("event", "body", "text") != deep || a.at("event", "body", "json") != nil {
			t.Errorf("%.100v", a.Data)
		}
	})
	t.Run("a_replay_outranks_an_older_end", func(t *testing.T) {
		d := made["DEAD"]
		w.exec(`INSERT INTO delivery_queue (id, tenant_id, destination_id, subscription_id, event_id, due_at, received_at, body_bytes, leased_until, lease_token, run, attempts)
			VALUES ($1, 'acme', $2, $3, $4, now(), now(), 31, now() + interval '1 minute', 1, 2, 1)`, d.Delivery.ID.String(), dest.String(), sub.String(), d.Event.String())
		d.Run, d.Attempts = 2, 1
		w.record(d.outcome(200, hub.Delivered))
		a := w.must(token, `query ($id: ID!) { delivery(id: $id) { state attemptCount attempts { number } } deliveries(filter: {state: DEAD}) { nodes { id } } }`, map[string]any{"id": gid("dlv_", d.Delivery.ID.ID)})
		if a.at("delivery", "state") != "DELIVERED" || a.at("delivery", "attemptCount") != 2.0 || len(a.at("deliveries", "nodes").([]any)) != 0 {
			t.Errorf("%v", a.Data)
		}
	})
}

func TestLists_page_through_everything_once(t *testing.T) {
	w := newWorld(t)
	tenant, platform := w.token("acme", hub.Viewer), w.token("", hub.Viewer)
	sub, dest := w.subscriptionOf("acme")
	other, otherDest := w.subscriptionOf("beta")
	var dead []hub.Outcome
	for i := range 11 {
		d := w.deliver("acme", sub, dest)
		w.deliver("beta", other, otherDest)
		if i%2 == 0 {
			dead = append(dead, d.outcome(500, hub.Dead))
		}
	}
	w.record(dead...)
	for name, c := range map[string]struct {
		token, list string
		want        int
	}{
		"deliveries_of_tenant":       {tenant, `deliveries(first: 3, after: $after)`, 11},
		"deliveries_of_all":          {platform, `deliveries(first: 3, after: $after)`, 22},
		"deliveries_of_named_tenant": {platform, `deliveries(first: 3, after: $after, filter: {tenantId: "beta"})`, 11},
		"deliveries_of_subscription": {tenant, fmt.Sprintf(`deliveries(first: 3, after: $after, filter: {eventSubscriptionId: %q})`, gid("sub_", sub)), 11},
		"dead_of_tenant":             {tenant, `deliveries(first: 2, after: $after, filter: {state: DEAD})`, 6},
		"dead_of_all":                {platform, `deliveries(first: 2, after: $after, filter: {state: [DEAD]})`, 6},
		"dead_of_subscription":       {tenant, fmt.Sprintf(`deliveries(first: 2, after: $after, filter: {state: DEAD, eventSubscriptionId: %q})`, gid("sub_", sub)), 6},
		"in_flight_of_all":           {platform, `deliveries(first: 4, after: $after, filter: {state: [IN_FLIGHT, WAITING]})`, 16},
		"events_of_tenant":           {tenant, `events(first: 3, after: $after)`, 11},
		"events_of_all":              {platform, `events(first: 3, after: $after)`, 22},
		"events_of_named_tenant":     {platform, `events(first: 5, after: $after, filter: {tenantId: "beta"})`, 11},
		"subscriptions_of_all":       {platform, `eventSubscriptions(first: 1, after: $after)`, 2},
		"subscriptions_of_tenant":    {tenant, `eventSubscriptions(first: 1, after: $after)`, 1},
	} {
		t.Run(name, func(t *testing.T) {
			seen := map[any]bool{}
			var after any
			for range 30 {
				a := w.must(c.token, `query ($after: String) { list: `+c.list+` { edges { cursor node { id } } nodes { id } pageInfo { hasNextPage endCursor } } }`, map[string]any{"after": after})
				for _, n := range a.at("list", "nodes").([]any) {
					if seen[at(n, "id")] {
						t.Fatalf("%v twice", n)
					}
					seen[at(n, "id")] = true
				}
				if a.at("list", "pageInfo", "hasNextPage") != true {
					break
				}
				after = a.at("list", "pageInfo", "endCursor")
			}
			if len(seen) != c.want {
				t.Errorf("saw %d, want %d", len(seen), c.want)
			}
		})
	}
	t.Run("a_cursor_of_another_list_is_refused", func(t *testing.T) {
		a := w.must(tenant, `{ events(first: 1) { pageInfo { endCursor } } }`, nil)
		a = w.ask(tenant, `query ($c: String) { deliveries(after: $c) { nodes { id } } }`, map[string]any{"c": a.at("events", "pageInfo", "endCursor")})
		if a.code() != "BAD_USER_INPUT" {
			t.Errorf("%+v", a)
		}
		admin := w.token("acme", hub.Admin)
		a = w.must(admin, `{ apiTokens(first: 1) { pageInfo { endCursor } } }`, nil)
		a = w.ask(admin, `query ($c: String) { destinations(after: $c) { nodes { id } } }`, map[string]any{"c": a.at("apiTokens", "pageInfo", "endCursor")})
		if a.code() != "BAD_USER_INPUT" {
			t.Errorf("of tokens among destinations: %+v", a)
		}
	})
	t.Run("first_is_1_to_100", func(t *testing.T) {
		for _, first := range []int{0, -1, 101} {
			if a := w.ask(tenant, fmt.Sprintf(`{ events(first: %d) { nodes { id } } }`, first), nil); a.code() != "BAD_USER_INPUT" {
				t.Errorf("first %d: %+v", first, a)
			}
		}
	})
}

// A page with a rare filter stops after a bounded walk and says that it goes on.
func TestDeliveries_with_a_rare_state_stop_early(t *testing.T) {
	w := newWorld(t)
	token := w.token("acme", hub.Viewer)
	sub, dest := w.subscriptionOf("acme")
	rare := w.deliver("acme", sub, dest)
	// 3000 newer deliveries that were delivered.
	w.exec(`WITH d AS (
		SELECT (lpad(to_hex((extract(epoch FROM now()) * 1000)::bigint + 10), 12, '0') || '7000' || lpad(to_hex(n), 16, '0'))::uuid AS id FROM generate_series(1, 3000) n
	), born AS (
		INSERT INTO deliveries (id, tenant_id, event_id, subscription_id, destination_id) SELECT id, 'acme', id, $1, $2 FROM d
	) INSERT INTO attempts (id, tenant_id, delivery_id, event_id, subscription_id, destination_id, run, number, started_at, total_us, status, error_class, state, detail)
		SELECT id, 'acme', id, id, $1, $2, 1, 1, now(), 1000, 200, '', 'DELIVERED', '{}' FROM d`, sub.String(), dest.String())
	a := w.must(token, `{ deliveries(filter: {state: IN_FLIGHT}) { nodes { id } pageInfo { hasNextPage endCursor } } }`, nil)
	if len(a.at("deliveries", "nodes").([]any)) != 0 || a.at("deliveries", "pageInfo", "hasNextPage") != true {
		t.Fatalf("%v", a.Data)
	}
	a = w.must(token, `query ($c: String) { deliveries(filter: {state: IN_FLIGHT}, after: $c) { nodes { id } pageInfo { hasNextPage } } }`, map[string]any{"c": a.at("deliveries", "pageInfo", "endCursor")})
	if a.at("deliveries", "nodes", 0, "id") != gid("dlv_", rare.Delivery.ID.ID) || a.at("deliveries", "pageInfo", "hasNextPage") != false {
		t.Errorf("%v", a.Data)
	}
}

func TestEvents_bodies_of_one_answer_are_bounded(t *testing.T) {
	w := newWorld(t)
	token := w.token("acme", hub.Viewer)
	sub, dest := w.subscriptionOf("acme")
	var last delivery
	for range 17 {
		last = w.deliver("acme", sub, dest)
	}
	w.exec(`UPDATE events SET body = convert_to(repeat('x', 1 << 20), 'UTF8')`)
	w.must(token, `{ events(first: 16) { nodes { body { text } } } }`, nil)
	if a := w.ask(token, `{ events(first: 17) { nodes { body { text } } } }`, nil); a.code() != "LIMIT_EXCEEDED" {
		t.Errorf("17 MiB are shown: %+v", a.Errors)
	}
	w.must(token, `{ events(first: 17) { nodes { sizeBytes } } }`, nil)
	w.exec(`UPDATE events SET body = convert_to(repeat('x', 17 << 20), 'UTF8') WHERE id = $1`, last.Event.String())
	a := w.must(token, `query ($id: ID!) { event(id: $id) { body { text } } }`, map[string]any{"id": gid("evt_", last.Event.ID)})
	if text, _ := a.at("event", "body", "text").(string); len(text) != 17<<20 {
		t.Errorf("a single one is not shown: %d bytes", len(text))
	}
}
