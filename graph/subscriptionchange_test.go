package graph_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/streaming-hub/streaming-hub/hub"
)

const everyField = `id name description origin eventTypes schemaMajor enabled disabledBy disabledReason disabledAt verificationState verificationError version
	deletedAt disableOnGone headers { name value } timeout retryPolicy { kind steps }
	destination { id tenantId kind url createdAt rateLimit maxInFlight
		failurePolicy { kind percent minAttempts disableAfter freezeAfter freezeAge freezeAtLatest tryEvery }
		credential { kind name version } clientCertificate { subject notAfter version } signingKeys { version createdAt endsAt } }`

const updateMutation = `mutation ($input: UpdateEventSubscriptionInput!) { updateEventSubscription(input: $input) {
	eventSubscription { ` + everyField + ` } signingSecret userErrors { code message path } } }`

// subscription reads every field of one.
func (w *world) subscription(token string, id any) map[string]any {
	w.t.Helper()
	a := w.must(token, `query ($id: ID!) { eventSubscription(id: $id) { `+everyField+` } }`, map[string]any{"id": id})
	m, _ := a.at("eventSubscription").(map[string]any)
	return m
}

// mutate runs a mutation of one input and returns its payload.
func (w *world) mutate(token, name string, in map[string]any, selection string) any {
	w.t.Helper()
	kind := strings.ToUpper(name[:1]) + name[1:]
	query := fmt.Sprintf(`mutation ($input: %sInput!) { %s(input: $input) { %s userErrors { code message path } } }`, kind, name, selection)
	return w.must(token, query, map[string]any{"input": in}).at(name)
}

func fullInput(url string) map[string]any {
	return map[string]any{
		"name": "Mine", "description": "d", "origin": "lender", "eventTypes": []string{"loan.*"}, "schemaMajor": 2, "disableOnGone": true,
		"headers": []any{map[string]any{"name": "X-Team", "value": " loans "}},
		"destination": map[string]any{
			"url": url, "rateLimit": 7, "maxInFlight": 3, "failurePolicy": map[string]any{"failureRate": map[string]any{"percent": 50, "freezeAge": "PT48H"}},
			"credential": map[string]any{"basic": map[string]any{"username": "me", "password": "hidden-pass"}},
		},
	}
}

func TestCreate_with_everything(t *testing.T) {
	w := newWorld(t)
	token := w.token("acme", hub.Operator)
	a := w.must(token, createMutation, map[string]any{"input": fullInput("https://a.example/hook")})
	if list := a.at("createEventSubscription", "userErrors").([]any); len(list) > 0 {
		t.Fatal(list)
	}
	got := w.subscription(token, a.at("createEventSubscription", "eventSubscription", "id"))
	for path, want := range map[string]any{
		"disableOnGone": true, "headers 0 name": "X-Team", "headers 0 value": "loans", "destination rateLimit": 7.0, "destination maxInFlight": 3.0,
		"destination failurePolicy kind": "FAILURE_RATE", "destination failurePolicy percent": 50.0, "destination failurePolicy freezeAge": "PT48H",
		"destination failurePolicy disableAfter": "2000", "destination credential kind": "BASIC", "destination credential name": "me", "destination credential version": 1.0,
		"destination clientCertificate": nil, "destination signingKeys 0 version": 1.0, "destination signingKeys 0 endsAt": nil, "deletedAt": nil, "destination tenantId": "acme",
	} {
		if v := at(got, steps(path)...); v != want {
			t.Errorf("%s = %v, want %v", path, v, want)
		}
	}
	if shown := fmt.Sprint(got, a.Data, w.log); strings.Contains(shown, "hidden-pass") {
		t.Errorf("the password is shown: %s", shown)
	}
	for name, dest := range map[string]map[string]any{
		"two_credentials":  {"url": "https://a.example/", "credential": map[string]any{"bearer": map[string]any{"token": "a"}, "header": map[string]any{"name": "X", "value": "b"}}},
		"no_credential":    {"url": "https://a.example/", "credential": map[string]any{}},
		"two_policies":     {"url": "https://a.example/", "failurePolicy": map[string]any{"failureSpan": true, "failureRate": map[string]any{}}},
		"unknown_settings": {"url": "https://a.example/", "color": "red"},
	} {
		t.Run(name, func(t *testing.T) {
			if a := w.ask(token, createMutation, map[string]any{"input": map[string]any{"name": "x", "eventTypes": []string{"*"}, "destination": dest}}); len(a.Errors) == 0 {
				t.Errorf("it was taken: %v", a.Data)
			}
		})
	}
}

// What the schema lets pass and means nothing is told like any other mistake of
// the input.
func TestSubscription_mistakes_beside_the_schema(t *testing.T) {
	w := newWorld(t)
	token := w.token("acme", hub.Operator)
	made := w.mutate(token, "createEventSubscription", fullInput("https://a.example/hook"), `eventSubscription { id version }`)
	for name, c := range map[string]struct {
		field string
		value any
		path  string
	}{
		"curve_false":          {"retryPolicy", map[string]any{"curve": false}, "[input retryPolicy curve]"},
		"failure_span_false":   {"destination", map[string]any{"url": "https://a.example/x", "failurePolicy": map[string]any{"failureSpan": false}}, "[input destination failurePolicy failureSpan]"},
		"threshold_of_0":       {"destination", map[string]any{"url": "https://a.example/x", "failurePolicy": map[string]any{"failureRate": map[string]any{"percent": 0}}}, "[input destination failurePolicy failureRate percent]"},
		"time_of_0":            {"destination", map[string]any{"url": "https://a.example/x", "failurePolicy": map[string]any{"failureRate": map[string]any{"tryEvery": "PT0S"}}}, "[input destination failurePolicy failureRate tryEvery]"},
		"empty_origin":         {"origin", "", "[input origin]"},
		"empty_list_of_events": {"eventTypes", []string{}, "[input eventTypes]"},
	} {
		t.Run(name, func(t *testing.T) {
			create := map[string]any{"name": "x", "eventTypes": []string{"*"}, "destination": map[string]any{"url": "https://a.example/x"}}
			create[c.field] = c.value
			update := map[string]any{"id": at(made, "eventSubscription", "id"), "version": 1, c.field: c.value}
			for mutation, in := range map[string]map[string]any{"createEventSubscription": create, "updateEventSubscription": update} {
				p := w.mutate(token, mutation, in, `eventSubscription { id }`)
				if at(p, "eventSubscription") != nil || len(at(p, "userErrors").([]any)) != 1 || at(p, "userErrors", 0, "code") != "INVALID" || fmt.Sprint(at(p, "userErrors", 0, "path")) != c.path {
					t.Errorf("%s: %v", mutation, p)
				}
			}
		})
	}
}

// Mutations of one document run one after the other, and what is read behind
// each is what is true after it.
func TestMutations_of_one_document_read_what_they_changed(t *testing.T) {
	w := newWorld(t)
	token := w.token("acme", hub.Admin)
	id := at(w.mutate(token, "createEventSubscription", fullInput("https://a.example/hook"), `eventSubscription { id }`), "eventSubscription", "id")
	a := w.must(token, `mutation ($id: ID!) {
		a: updateEventSubscription(input: {id: $id, version: 1, destination: {rateLimit: 1}}) { eventSubscription { destination { rateLimit } } }
		b: updateEventSubscription(input: {id: $id, version: 2, destination: {rateLimit: 2}}) { eventSubscription { destination { rateLimit } } }
		c: rotateSigningSecret(input: {id: $id}) { destination { signingKeys { version } } }
		d: rotateSigningSecret(input: {id: $id}) { destination { signingKeys { version } } }
	}`, map[string]any{"id": id})
	limit := func(alias string) any { return a.at(alias, "eventSubscription", "destination", "rateLimit") }
	newest := func(alias string) any { return a.at(alias, "destination", "signingKeys", 0, "version") }
	if limit("a") != 1.0 || limit("b") != 2.0 || newest("c") != 2.0 || newest("d") != 3.0 {
		t.Errorf("%v", a.Data)
	}
}

// steps is a path for at: "headers 0 name".
func steps(path string) []any {
	var list []any
	for _, one := range strings.Fields(path) {
		if one >= "0" && one <= "9" {
			list = append(list, int(one[0]-'0'))
		} else {
			list = append(list, one)
		}
	}
	return list
}

func TestUpdate_omitted_is_not_null(t *testing.T) {
	w := newWorld(t)
	token := w.token("acme", hub.Operator)
	id := w.must(token, createMutation, map[string]any{"input": fullInput("https://a.example/hook")}).at("createEventSubscription", "eventSubscription", "id")
	update := func(t *testing.T, change map[string]any) (before, after map[string]any, errors any) {
		t.Helper()
		before = w.subscription(token, id)
		in := map[string]any{"id": id, "version": before["version"]}
		for k, v := range change {
			in[k] = v
		}
		a := w.must(token, updateMutation, map[string]any{"input": in})
		return before, w.subscription(token, id), a.at("updateEventSubscription", "userErrors")
	}
	for _, row := range []struct {
		rule   string
		change map[string]any
		fields string // that differ afterwards, besides version
	}{
		{"name_only", map[string]any{"name": "New"}, "name"},
		{"null_clears_a_description", map[string]any{"description": nil}, "description"},
		{"null_clears_an_origin", map[string]any{"origin": nil}, "origin"},
		{"null_clears_a_schema_major", map[string]any{"schemaMajor": nil}, "schemaMajor"},
		{"null_clears_headers", map[string]any{"headers": nil}, "headers"},
		{"null_clears_a_limit", map[string]any{"destination": map[string]any{"rateLimit": nil}}, "destination"},
		{"policy_only", map[string]any{"destination": map[string]any{"failurePolicy": map[string]any{"failureSpan": true}}}, "destination"},
		{"empty_destination_changes_nothing", map[string]any{"destination": map[string]any{}}, ""},
		{"null_removes_a_credential", map[string]any{"destination": map[string]any{"credential": nil}}, "destination"},
		{"url_only", map[string]any{"destination": map[string]any{"url": "https://b.example/hook"}}, "destination"},
	} {
		t.Run(row.rule, func(t *testing.T) {
			before, after, errors := update(t, row.change)
			if list, _ := errors.([]any); len(list) > 0 {
				t.Fatal(errors)
			}
			changed := 0
			for field := range before {
				if field != "version" && !reflect.DeepEqual(before[field], after[field]) {
					if changed++; field != row.fields {
						t.Errorf("%s changed from %v to %v", field, before[field], after[field])
					}
				}
			}
			if want := len(strings.Fields(row.fields)); changed != want {
				t.Errorf("%d fields changed, want %d", changed, want)
			}
			if row.rule == "url_only" && (at(after, "destination", "maxInFlight") != 3.0 || at(after, "destination", "signingKeys", 0, "version") != 1.0) {
				t.Errorf("destination %v", after["destination"])
			}
		})
	}
	for field, path := range map[string]string{"name": "name", "eventTypes": "eventTypes", "retryPolicy": "retryPolicy", "timeout": "timeout", "disableOnGone": "disableOnGone"} {
		t.Run("null_"+field+"_is_a_mistake", func(t *testing.T) {
			before, after, errors := update(t, map[string]any{field: nil})
			if at(errors, 0, "code") != "INVALID" || at(errors, 0, "path", 1) != path || !reflect.DeepEqual(before, after) {
				t.Errorf("%v", errors)
			}
		})
	}
	t.Run("null_destination_is_a_mistake", func(t *testing.T) {
		before, after, errors := update(t, map[string]any{"destination": nil})
		if at(errors, 0, "code") != "INVALID" || at(errors, 0, "path", 1) != "destination" || !reflect.DeepEqual(before, after) {
			t.Errorf("%v", errors)
		}
	})
	t.Run("stale_version_is_a_conflict", func(t *testing.T) {
		before, after, errors := update(t, map[string]any{"version": 1, "name": "Stale"})
		if at(errors, 0, "code") != "CONFLICT" || at(errors, 0, "path", 1) != "version" || !reflect.DeepEqual(before, after) {
			t.Errorf("%v", errors)
		}
	})
	t.Run("viewer_may_not", func(t *testing.T) {
		if a := w.ask(w.token("acme", hub.Viewer), updateMutation, map[string]any{"input": map[string]any{"id": id, "version": 1}}); a.code() != "FORBIDDEN" {
			t.Errorf("%+v", a)
		}
	})
}

func TestDelete_is_in_history_and_in_no_list(t *testing.T) {
	w := newWorld(t)
	token := w.token("acme", hub.Operator)
	sub, dest := w.subscriptionOf("acme")
	d := w.deliver("acme", sub, dest)
	id := gid("sub_", sub)
	for range 2 { // again changes nothing
		if p := w.mutate(token, "deleteEventSubscription", map[string]any{"id": id}, "eventSubscription { id deletedAt version }"); at(p, "eventSubscription", "deletedAt") == nil || at(p, "eventSubscription", "version") != 2.0 {
			t.Errorf("%v", p)
		}
	}
	if list := w.must(token, `{ eventSubscriptions { nodes { id } } }`, nil).at("eventSubscriptions", "nodes").([]any); len(list) != 0 {
		t.Errorf("the list has %v", list)
	}
	if got := w.subscription(token, id); got["deletedAt"] == nil {
		t.Errorf("%v", got)
	}
	a := w.must(token, `query ($id: ID!, $evt: ID!, $sub: ID!) { delivery(id: $id) { eventSubscription { id deletedAt } }
		explainMatch(eventId: $evt, eventSubscriptionId: $sub) { matched failedClause } }`,
		map[string]any{"id": gid("dlv_", d.Delivery.ID.ID), "evt": gid("evt_", d.Event.ID), "sub": id})
	if a.at("delivery", "eventSubscription", "id") != id || a.at("explainMatch", "matched") != false || a.at("explainMatch", "failedClause") != "enabled" {
		t.Errorf("%v", a.Data)
	}
}

func TestEnable_disable_and_destination(t *testing.T) {
	w := newWorld(t)
	token := w.token("acme", hub.Operator)
	sub, dest := w.subscriptionOf("acme")
	id := gid("sub_", sub)
	p := w.mutate(token, "disableEventSubscription", map[string]any{"id": id, "reason": "holiday"}, "eventSubscription { enabled disabledBy disabledReason disabledAt }")
	if at(p, "eventSubscription", "enabled") != false || at(p, "eventSubscription", "disabledBy") != "USER" || at(p, "eventSubscription", "disabledReason") != "holiday" || at(p, "eventSubscription", "disabledAt") == nil {
		t.Errorf("%v", p)
	}
	p = w.mutate(token, "enableEventSubscription", map[string]any{"id": id}, "eventSubscription { enabled disabledBy disabledReason disabledAt version }")
	if at(p, "eventSubscription", "enabled") != true || at(p, "eventSubscription", "disabledBy") != nil || at(p, "eventSubscription", "version") != 3.0 {
		t.Errorf("%v", p)
	}
	if n := w.count(`SELECT count(*) FROM lane_chores WHERE subscription_id = $1 AND destination_id = $2`, sub.String(), dest.String()); n != 2 {
		t.Errorf("%d chores, want 2", n)
	}
	w.exec(`INSERT INTO failure_rates (destination_id, tenant_id, attempts, failures, failures_in_row, last_success_at, state, state_since, changed_at)
		VALUES ($1, 'acme', 200, 190, 9, now(), 'FROZEN', now(), now())`, dest.String())
	p = w.mutate(token, "enableDestination", map[string]any{"id": gid("dst_", dest)}, "destination { id }")
	if at(p, "destination", "id") != gid("dst_", dest) || w.count(`SELECT attempts FROM failure_rates WHERE state = 'ACTIVE'`) != 0 {
		t.Errorf("%v", p)
	}
}

func TestSendTestEvent(t *testing.T) {
	w := newWorld(t)
	token := w.token("acme", hub.Operator)
	sub, _ := w.subscriptionOf("acme")
	p := w.mutate(token, "sendTestEvent", map[string]any{"id": gid("sub_", sub), "eventType": "loan.approved"},
		"delivery { id state eventSubscription { id } event { seq ceType eventType body { json } } }")
	if at(p, "delivery", "state") != "WAITING" || at(p, "delivery", "event", "seq") != "0" || at(p, "delivery", "event", "ceType") != "studio.lerian.hub.loan.approved" ||
		at(p, "delivery", "event", "body", "json", "test") != true || at(p, "delivery", "eventSubscription", "id") != gid("sub_", sub) {
		t.Errorf("%v", p)
	}
	if list := w.must(token, `{ events { nodes { id } } }`, nil).at("events", "nodes").([]any); len(list) != 0 {
		t.Errorf("the list of events has %v", list)
	}
	if list := w.must(w.token("", hub.Viewer), `{ events { nodes { id } } }`, nil).at("events", "nodes").([]any); len(list) != 0 {
		t.Errorf("the platform's list of events has %v", list)
	}
}
