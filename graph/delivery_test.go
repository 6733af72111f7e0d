package graph_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/streaming-hub/streaming-hub/hub"
)

func TestDelivery_explanation_knows_what_it_waits_for(t *testing.T) {
	w := newWorld(t)
	w.resolver.CurveSteps = []time.Duration{0, time.Second, time.Second, time.Second, time.Second, time.Second}
	token := w.token("acme", hub.Viewer)
	sub, dest := w.subscriptionOf("acme")
	d := w.deliver("acme", sub, dest)
	row := func(set string) { w.exec(`UPDATE delivery_queue SET `+set+` WHERE id = $1`, d.Delivery.ID.String()) }
	row(`leased_until = NULL, lease_token = NULL, attempts = 4, run_attempts = 4, due_at = now()`)
	says := func(want string) {
		t.Helper()
		a := w.must(token, `query ($id: ID!) { delivery(id: $id) { explanation } }`, map[string]any{"id": gid("dlv_", d.Delivery.ID.ID)})
		if got := a.at("delivery", "explanation").(string); !strings.Contains(got, want) {
			t.Errorf("got  %s\nwant … %s …", got, want)
		}
	}
	says("waiting: attempt 5 is due since")
	w.exec(`UPDATE destinations SET rate_limit = 50`)
	w.exec(`INSERT INTO destination_limits VALUES ($1, 'acme', now() + interval '1 minute')`, dest.String())
	says("waits for its destination's limit of 50 attempts a second, which has room again at")
	w.breaker("acme", dest, "OPEN")
	says("waiting: circuit open since ")
	says(", 2 of 6 attempts left") // of the setting, not of the curve
	row(`last_at = now()`)
	says("because it is the last")
	row(`last_at = NULL, test = true`)
	says("it is a test send and counts nowhere")
	row(`test = false`)
	w.exec(`UPDATE destinations SET failure_policy = '{"kind":"FAILURE_RATE"}'`)
	w.exec(`INSERT INTO failure_rates (destination_id, tenant_id, attempts, failures, failures_in_row, last_success_at, state, state_since, next_try_at, changed_at)
		VALUES ($1, 'acme', 3000, 3000, 3000, now(), 'DISABLED', now(), now() + interval '5 minutes', now())`, dest.String())
	says("waiting: its destination is disabled since")
	w.exec(`UPDATE destination_secrets SET key_id = 'lost'`)
	says("waiting: the hub has no key to sign it with")
	row(`due_at = 'infinity'`)
	w.exec(`UPDATE failure_rates SET state = 'FROZEN'`)
	says("held: its destination is frozen since")
	w.exec(`UPDATE event_subscriptions SET enabled = false, disabled_by = 'USER', disabled_reason = 'maintenance'`)
	says("held: its event subscription is disabled (maintenance)")
}

func TestDeliveries_of_a_destination(t *testing.T) {
	w := newWorld(t)
	tenant, platform := w.token("acme", hub.Viewer), w.token("", hub.Viewer)
	sub, dest := w.subscriptionOf("acme")
	other, otherDest := w.subscriptionOf("acme")
	foreign, foreignDest := w.subscriptionOf("beta")
	names := map[any]string{}
	deliver := func(name, tenant string, sub, dest hub.ID) delivery {
		d := w.deliver(tenant, sub, dest)
		names[gid("dlv_", d.Delivery.ID.ID)] = name
		return d
	}
	deliver("a", "acme", sub, dest)
	deliver("b", "acme", other, otherDest)
	moved := deliver("c", "acme", other, otherDest)
	w.exec(`UPDATE delivery_queue SET destination_id = $2 WHERE id = $1`, moved.Delivery.ID.String(), dest.String())
	deliver("d", "beta", foreign, foreignDest)
	died := deliver("e", "acme", sub, dest)
	w.record(died.outcome(500, hub.Dead))
	for _, c := range []struct{ token, filter, want string }{
		{tenant, fmt.Sprintf(`{destinationId: %q}`, gid("dst_", dest)), "[e c a]"},
		{platform, fmt.Sprintf(`{destinationId: %q}`, gid("dst_", dest)), "[e c a]"},
		{tenant, fmt.Sprintf(`{destinationId: %q}`, gid("dst_", otherDest)), "[b]"},
		{tenant, fmt.Sprintf(`{destinationId: %q, eventSubscriptionId: %q}`, gid("dst_", dest), gid("sub_", other)), "[c]"},
		{tenant, fmt.Sprintf(`{destinationId: %q, state: DEAD}`, gid("dst_", dest)), "[e]"},
		{tenant, fmt.Sprintf(`{destinationId: %q}`, gid("dst_", foreignDest)), "[]"},
		{tenant, `{destinationId: "nonsense"}`, "[]"},
	} {
		t.Run(c.filter, func(t *testing.T) {
			a := w.must(c.token, `{ deliveries(filter: `+c.filter+`) { nodes { id } pageInfo { hasNextPage } } }`, nil)
			got := []string{}
			for _, n := range a.at("deliveries", "nodes").([]any) {
				got = append(got, names[at(n, "id")])
			}
			if fmt.Sprint(got) != c.want || a.at("deliveries", "pageInfo", "hasNextPage") != false {
				t.Errorf("got %v, want %s", got, c.want)
			}
		})
	}
	t.Run("shows_where_it_goes_now", func(t *testing.T) {
		a := w.must(tenant, `query ($id: ID!) { delivery(id: $id) { destination { id } } }`, map[string]any{"id": gid("dlv_", moved.Delivery.ID.ID)})
		if a.at("delivery", "destination", "id") != gid("dst_", dest) {
			t.Errorf("%v", a.Data)
		}
	})
}

func TestDeadLetters_of_one_cause(t *testing.T) {
	w := newWorld(t)
	token := w.token("acme", hub.Viewer)
	sub, dest := w.subscriptionOf("acme")
	die := func(fingerprint string) string {
		o := w.deliver("acme", sub, dest).outcome(500, hub.Dead)
		if fingerprint != "" {
			o.Decision.Fingerprint = []byte(fingerprint)
		}
		w.record(o)
		return gid("dlv_", o.Delivery.ID.ID)
	}
	first, second, bare := die("0123456789abcdef"), die("fedcba9876543210"), die("")
	a := w.must(token, `query ($a: ID!, $b: ID!) { a: delivery(id: $a) { fingerprint } b: delivery(id: $b) { fingerprint } }`, map[string]any{"a": first, "b": bare})
	const cause = "30313233343536373839616263646566"
	if a.at("a", "fingerprint") != cause || a.at("b", "fingerprint") != nil {
		t.Errorf("%v", a.Data)
	}
	for fingerprint, want := range map[string]string{
		cause: "[" + first + "]", strings.ToUpper(cause): "[" + first + "]", "66656463626139383736353433323130": "[" + second + "]",
		"ff313233343536373839616263646566": "[]", "30": "[]", "nonsense": "[]",
	} {
		a := w.must(token, `query ($f: String!) { deadLetters(filter: {fingerprint: $f}) { nodes { id } pageInfo { hasNextPage } } }`, map[string]any{"f": fingerprint})
		got := []any{}
		for _, n := range a.at("deadLetters", "nodes").([]any) {
			got = append(got, at(n, "id"))
		}
		if fmt.Sprint(got) != want || a.at("deadLetters", "pageInfo", "hasNextPage") != false {
			t.Errorf("%q: got %v, want %s", fingerprint, got, want)
		}
	}
}

func TestAttempt_request_headers_show_what_the_tenant_adds(t *testing.T) {
	w := newWorld(t)
	token := w.token("acme", hub.Viewer)
	sub, dest := w.subscriptionOf("acme")
	d := w.deliver("acme", sub, dest)
	w.record(d.outcome(200, hub.Delivered))
	headers := func() string {
		a := w.must(token, `query ($id: ID!) { delivery(id: $id) { attempts { requestHeaders { name value } } } }`, map[string]any{"id": gid("dlv_", d.Delivery.ID.ID)})
		var lines []string
		for _, h := range a.at("delivery", "attempts", 0, "requestHeaders").([]any) {
			lines = append(lines, fmt.Sprint(at(h, "name"), ": ", at(h, "value")))
		}
		return strings.Join(lines, "\n")
	}
	if got := headers(); strings.Contains(got, "••••") || strings.Contains(got, "X-Team") {
		t.Errorf("got %s", got)
	}
	w.exec(`UPDATE event_subscriptions SET headers = '[{"n":"X-Team","v":"lending"}]'`)
	for _, c := range []struct{ kind, name, want string }{
		{"BEARER", "", "Authorization: ••••"}, {"BASIC", "user", "Authorization: ••••"}, {"HEADER", "X-Api-Key", "X-Api-Key: ••••"},
	} {
		t.Run(c.kind, func(t *testing.T) {
			w.exec(`DELETE FROM destination_credentials`)
			w.exec(`INSERT INTO destination_credentials (id, tenant_id, destination_id, slot, kind, name, version, key_id, wrapped_key, ciphertext, created_at)
				VALUES ($1, 'acme', $2, 'AUTHORIZATION', $3, $4, 1, 'test', '', '', now())`, newID().String(), dest.String(), c.kind, c.name)
			if got := headers(); !strings.Contains(got, "X-Team: lending\n"+c.want) || strings.Contains(got, "user") {
				t.Errorf("got %s", got)
			}
		})
	}
	t.Run("a_certificate_is_no_header", func(t *testing.T) {
		w.exec(`UPDATE destination_credentials SET slot = 'CERTIFICATE', kind = 'CLIENT_CERTIFICATE'`)
		if got := headers(); strings.Contains(got, "••••") {
			t.Errorf("got %s", got)
		}
	})
}
