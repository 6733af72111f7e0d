package graph_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/streaming-hub/streaming-hub/hub"
)

// auditedCall is how to call a mutation so that it changes something.
type auditedCall struct {
	action string // of its entry in the audit log
	// input of the call; it may first make what the call needs.
	input func(w *world, receiver string) map[string]any
	// platform says that a tenant's token may not call it.
	platform bool
}

// on is an input that names a subscription, made in some state.
func on(change string) func(*world, string) map[string]any {
	return func(w *world, _ string) map[string]any {
		sub, _ := w.subscriptionOf("acme")
		if change != "" {
			w.exec(`UPDATE event_subscriptions SET `+change+` WHERE id = $1`, sub.String())
		}
		return map[string]any{"id": gid("sub_", sub)}
	}
}

// made is an input that names a subscription made by the API, with a secret.
func made(w *world, receiver string) map[string]any {
	in := input(receiver + "/" + newID().String())
	id := w.must(w.token("acme", hub.Operator), createMutation, map[string]any{"input": in}).at("createEventSubscription", "eventSubscription", "id")
	return map[string]any{"id": id}
}

func with(more map[string]any, of func(*world, string) map[string]any) func(*world, string) map[string]any {
	return func(w *world, receiver string) map[string]any {
		in := of(w, receiver)
		for k, v := range more {
			in[k] = v
		}
		return in
	}
}

// job is an input that names a replay job in some state.
func job(kind hub.JobKind, state hub.JobState) func(*world, string) map[string]any {
	return func(w *world, _ string) map[string]any {
		sub, dest := w.subscriptionOf("acme")
		d := w.deliver("acme", sub, dest)
		w.record(d.outcome(500, hub.Dead))
		j := hub.ReplayJob{Tenant: "acme", Kind: kind}
		if kind == hub.JobBackfill {
			j.Range.Subscription.ID = sub
		} else {
			j.Filter.Subscription.ID = sub
		}
		return map[string]any{"id": gid("rpl_", w.jobIn(state, j).ID)}
	}
}

// auditedCalls has every mutation of the schema.
var auditedCalls = map[string]auditedCall{
	"createEventSubscription": {action: "create_event_subscription", input: func(_ *world, receiver string) map[string]any { return input(receiver) }},
	"updateEventSubscription": {action: "update_event_subscription", input: with(map[string]any{"version": 1, "name": "Renamed"}, on(""))},
	"deleteEventSubscription": {action: "delete_event_subscription", input: on("")},
	"enableEventSubscription": {action: "enable_event_subscription",
		input: on(`enabled = false, disabled_by = 'USER', disabled_reason = 'x', disabled_at = now()`)},
	"disableEventSubscription": {action: "disable_event_subscription", input: on("")},
	"verifyEventSubscription":  {action: "verify_event_subscription", input: made},
	"sendTestEvent":            {action: "send_test_event", input: on("")},
	"rotateSigningSecret":      {action: "rotate_signing_secret", input: made},
	"revokeSigningSecret":      {action: "revoke_signing_secret", input: with(map[string]any{"version": 1}, made)},
	"enableDestination": {action: "enable_destination", input: func(w *world, _ string) map[string]any {
		_, dest := w.subscriptionOf("acme")
		w.exec(`INSERT INTO failure_rates (destination_id, tenant_id, attempts, failures, failures_in_row, last_success_at, state, state_since, next_try_at, changed_at)
			VALUES ($1, 'acme', 200, 200, 200, now(), 'DISABLED', now(), now(), now())`, dest.String())
		return map[string]any{"id": gid("dst_", dest)}
	}},
	"redeliver": {action: "redeliver", input: func(w *world, _ string) map[string]any {
		sub, dest := w.subscriptionOf("acme")
		d := w.deliver("acme", sub, dest)
		w.record(d.outcome(500, hub.Dead))
		return map[string]any{"id": gid("dlv_", d.Delivery.ID.ID)}
	}},
	"previewReplay": {action: "preview_replay", input: func(*world, string) map[string]any { return map[string]any{"filter": map[string]any{}} }},
	"startReplay":   {action: "start_replay", input: job(hub.JobReplay, hub.JobReady)},
	"pauseReplay":   {action: "pause_replay", input: with(map[string]any{"reason": "too many"}, job(hub.JobReplay, hub.JobRunning))},
	"resumeReplay":  {action: "resume_replay", input: job(hub.JobReplay, hub.JobPaused)},
	"cancelReplay":  {action: "cancel_replay", input: job(hub.JobBackfill, hub.JobRunning)},
	"previewBackfill": {action: "preview_backfill", input: func(w *world, _ string) map[string]any {
		sub, _ := w.subscriptionOf("acme")
		return map[string]any{"eventSubscriptionId": gid("sub_", sub)}
	}},
	"startBackfill": {action: "start_backfill", input: job(hub.JobBackfill, hub.JobReady)},
	"discardDeadLetters": {action: "discard_dead_letter", input: func(w *world, _ string) map[string]any {
		sub, dest := w.subscriptionOf("acme")
		d := w.deliver("acme", sub, dest)
		w.record(d.outcome(500, hub.Dead))
		return map[string]any{"ids": []any{gid("dlv_", d.Delivery.ID.ID)}, "reason": "not needed"}
	}},
	"readmitQuarantinedRecords": {action: "readmit_quarantined_record", platform: true, input: func(w *world, _ string) map[string]any {
		return map[string]any{"ids": []any{gid("qrn_", w.quarantine("acme", nil))}}
	}},
	"createApiToken": {action: "create_api_token", input: func(*world, string) map[string]any {
		return map[string]any{"name": "night shift", "role": "VIEWER"}
	}},
	"revokeApiToken": {action: "revoke_api_token", input: func(w *world, _ string) map[string]any {
		a := w.must(w.token("acme", hub.Admin), createToken, map[string]any{"input": map[string]any{"name": "n", "role": "VIEWER"}})
		return map[string]any{"id": a.at("createApiToken", "apiToken", "id")}
	}},
}

// Every mutation writes an entry, in the name of its caller, and its answer is
// the same when the call is repeated under its idempotency key, with nothing
// done twice.
func TestMutations_are_audited_and_can_be_repeated(t *testing.T) {
	w, m := newWorld(t), newMaker(t)
	receiver := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) { _, _ = io.Copy(rw, r.Body) }))
	defer receiver.Close()
	for _, f := range m.roots(m.schema.Mutation) {
		t.Run(f.Name, func(t *testing.T) {
			call, ok := auditedCalls[f.Name]
			if !ok {
				t.Fatalf("mutation %s has no row in auditedCalls: say there how it is called, and let it write an audit entry", f.Name)
			}
			w.t, m.t = t, t
			token, actor := w.tokenOf("acme", hub.Admin)
			if call.platform {
				token, actor = w.tokenOf("", hub.Admin)
			}
			in := call.input(w, receiver.URL)
			in["idempotencyKey"] = "key of " + f.Name
			entries := func() int { return w.count(`SELECT count(*) FROM audit_log WHERE actor_id = $1`, actor.String()) }
			body := m.body(f, map[string]any{"input": in})
			status, first := w.raw(token, body, "")
			if status != http.StatusOK || strings.Contains(first, `"errors"`) || !strings.Contains(first, `"userErrors":[]`) {
				t.Fatalf("%d %s\n%s", status, first, w.log)
			}
			if n := w.count(`SELECT count(*) FROM audit_log WHERE actor_id = $1 AND actor_name = 'test' AND action = $2 AND object <> ''`, actor.String(), call.action); n != 1 {
				t.Errorf("%d entries of action %s; %d by its actor", n, call.action, entries())
			}
			if n := w.count(`SELECT count(*) FROM idempotency_keys WHERE actor_id = $1 AND ran AND answer IS NOT NULL AND key_id IS NOT NULL`, actor.String()); n != 1 {
				t.Errorf("%d remembered answers of calls that ran, sealed", n)
			}
			before := entries()
			rows := w.rowsOf("acme")
			if _, again := w.raw(token, body, ""); again != first {
				t.Errorf("repeated: %s\nfirst:    %s", again, first)
			}
			if entries() != before || w.rowsOf("acme") != rows {
				t.Errorf("the repeated call did something again")
			}
		})
	}
	for name := range auditedCalls {
		if m.schema.Mutation.Fields.ForName(name) == nil {
			t.Errorf("auditedCalls has %s, the schema does not", name)
		}
	}
}

// tokenOf is a token with its id.
func (w *world) tokenOf(tenant hub.TenantID, role hub.Role) (text string, id hub.TokenID) {
	w.t.Helper()
	text = w.token(tenant, role)
	token, err := w.tokens.Authenticate(w.t.Context(), text)
	if err != nil {
		w.t.Fatal(err)
	}
	return text, token.ID
}

func TestIdempotency_of_the_api(t *testing.T) {
	w := newWorld(t)
	token := w.token("acme", hub.Admin)
	create := func(token string, in map[string]any) any {
		t.Helper()
		return w.must(token, createToken, map[string]any{"input": in}).at("createApiToken")
	}
	in := map[string]any{"name": "one", "role": "VIEWER", "idempotencyKey": "k"}
	first := create(token, in)
	secret, _ := at(first, "token").(string)
	t.Run("a_secret_is_shown_again_and_rests_sealed", func(t *testing.T) {
		if again := create(token, in); fmt.Sprint(again) != fmt.Sprint(first) || secret == "" {
			t.Errorf("%v, %v", first, again)
		}
		if n := w.count(`SELECT count(*) FROM idempotency_keys WHERE position(convert_to($1, 'UTF8') IN answer) > 0`, secret); n != 0 {
			t.Error("it can be read in the database")
		}
	})
	t.Run("another_body_is_a_user_error", func(t *testing.T) {
		p := create(token, map[string]any{"name": "two", "role": "VIEWER", "idempotencyKey": "k"})
		if at(p, "userErrors", 0, "code") != "CONFLICT" || fmt.Sprint(at(p, "userErrors", 0, "path")) != "[input idempotencyKey]" || at(p, "apiToken") != nil {
			t.Errorf("%v", p)
		}
	})
	t.Run("another_mutation_too", func(t *testing.T) {
		a := w.must(token, `mutation { revokeApiToken(input: {id: "tok_x", idempotencyKey: "k"}) { apiToken { id } userErrors { code } } }`, nil)
		if a.at("revokeApiToken", "userErrors", 0, "code") != "CONFLICT" {
			t.Errorf("%v", a.Data)
		}
	})
	t.Run("a_platform_actor_has_a_key_for_each_tenant", func(t *testing.T) {
		platform := w.token("", hub.Admin)
		one := create(platform, map[string]any{"name": "p", "role": "VIEWER", "tenantId": "acme", "idempotencyKey": "k"})
		two := create(platform, map[string]any{"name": "p", "role": "VIEWER", "tenantId": "beta", "idempotencyKey": "k"})
		if at(one, "apiToken", "tenantId") != "acme" || at(two, "apiToken", "tenantId") != "beta" {
			t.Errorf("%v, %v", one, two)
		}
	})
	t.Run("calls_at_once_run_once_and_all_have_the_answer", func(t *testing.T) {
		var wg sync.WaitGroup
		answers := make(chan string, 6)
		for range cap(answers) {
			wg.Go(func() {
				answers <- fmt.Sprint(create(token, map[string]any{"name": "at once", "role": "VIEWER", "idempotencyKey": "once"}))
			})
		}
		wg.Wait()
		close(answers)
		same := <-answers
		for got := range answers {
			if got != same {
				t.Errorf("%s, %s", got, same)
			}
		}
		if n := w.count(`SELECT count(*) FROM api_tokens WHERE name = 'at once'`); n != 1 {
			t.Errorf("%d tokens", n)
		}
	})
	t.Run("a_refusal_is_an_answer", func(t *testing.T) {
		refused := map[string]any{"name": " ", "role": "VIEWER", "idempotencyKey": "r"}
		one, two := create(token, refused), create(token, refused)
		if at(one, "userErrors", 0, "code") != "INVALID" || fmt.Sprint(one) != fmt.Sprint(two) {
			t.Errorf("%v, %v", one, two)
		}
	})
	t.Run("a_selection_of_its_own", func(t *testing.T) {
		a := w.must(token, `mutation { createApiToken(input: {name: "one", role: VIEWER, idempotencyKey: "k"}) { apiToken { role scope } } }`, nil)
		if a.at("createApiToken", "apiToken", "role") != "VIEWER" || a.at("createApiToken", "apiToken", "scope") != "TENANT" {
			t.Errorf("%v", a.Data)
		}
	})
	t.Run("without_the_right_there_is_no_answer", func(t *testing.T) {
		w.exec(`UPDATE api_tokens SET role = 'VIEWER' WHERE name = 'test' AND tenant_id = 'acme'`)
		w.tokens.Forget(w.idOf(token))
		if a := w.ask(token, createToken, map[string]any{"input": in}); a.code() != "FORBIDDEN" {
			t.Errorf("%+v", a)
		}
	})
	t.Run("a_fault_is_not_remembered", func(t *testing.T) {
		admin := w.token("acme", hub.Admin)
		w.exec(`ALTER TABLE api_tokens ADD CONSTRAINT broken CHECK (name <> 'broken')`)
		broken := map[string]any{"name": "broken", "role": "VIEWER", "idempotencyKey": "f"}
		if a := w.ask(admin, createToken, map[string]any{"input": broken}); a.code() != "INTERNAL" {
			t.Fatalf("%+v", a)
		}
		w.exec(`ALTER TABLE api_tokens DROP CONSTRAINT broken`)
		if p := create(admin, broken); at(p, "token") == nil {
			t.Errorf("%v", p)
		}
	})
}

func (w *world) idOf(token string) hub.TokenID {
	w.t.Helper()
	t, err := w.tokens.Authenticate(w.t.Context(), token)
	if err != nil {
		w.t.Fatal(err)
	}
	return t.ID
}
