package graph_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/streaming-hub/streaming-hub/hub"
)

const createMutation = `mutation ($input: CreateEventSubscriptionInput!) { createEventSubscription(input: $input) {
	eventSubscription { id tenantId name origin eventTypes schemaMajor enabled disabledBy verificationState verificationError version
		timeout retryPolicy { kind steps unit attempts elapsed } destination { id kind url } }
	signingSecret userErrors { code message path } } }`

const verifyMutation = `mutation ($id: ID!) { verifyEventSubscription(input: {id: $id}) {
	eventSubscription { id verificationState verificationError } userErrors { code message path } } }`

func input(url string) map[string]any {
	return map[string]any{"name": "Mine", "eventTypes": []string{"loan.*"}, "destination": map[string]any{"url": url}}
}

func TestSubscription_create_verify_list(t *testing.T) {
	w := newWorld(t)
	tenant := w.token("acme", hub.Operator)
	var probe *http.Request
	var probeBody []byte
	receiver := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		probe = r
		probeBody, _ = io.ReadAll(r.Body)
		_, _ = rw.Write(probeBody)
	}))
	defer receiver.Close()

	a := w.must(tenant, createMutation, map[string]any{"input": input(receiver.URL)})
	made := a.at("createEventSubscription", "eventSubscription")
	if at(made, "verificationState") != "PENDING" || at(made, "tenantId") != "acme" || at(made, "timeout") != "PT15S" ||
		at(made, "retryPolicy", "kind") != "CURVE" || at(made, "destination", "url") != receiver.URL+"/" || at(made, "enabled") != true {
		t.Fatalf("made %v", made)
	}
	signingSecret, _ := a.at("createEventSubscription", "signingSecret").(string)
	if !strings.HasPrefix(signingSecret, "whsec_") {
		t.Fatalf("signing secret %q", signingSecret)
	}

	a = w.must(tenant, verifyMutation, map[string]any{"id": at(made, "id")})
	if a.at("verifyEventSubscription", "eventSubscription", "verificationState") != "ACTIVE" {
		t.Fatalf("verified %v", a.Data)
	}
	verifier, err := standardwebhooks.NewWebhook(signingSecret)
	if err != nil {
		t.Fatal(err)
	}
	if err := verifier.Verify(probeBody, probe.Header); err != nil {
		t.Errorf("the probe is not signed with the shown secret: %v", err)
	}
	if got := probe.Header.Get("X-Lerian-Event-Type"); got != "hub.verification" {
		t.Errorf("probe of type %q", got)
	}

	a = w.must(tenant, `{ eventSubscriptions { nodes { id verificationState destination { url } } edges { cursor } pageInfo { hasNextPage endCursor } } }`, nil)
	if a.at("eventSubscriptions", "nodes", 0, "id") != at(made, "id") || a.at("eventSubscriptions", "pageInfo", "hasNextPage") != false {
		t.Errorf("list %v", a.Data)
	}

	t.Run("second_one_shares_destination_and_secret", func(t *testing.T) {
		a := w.must(tenant, createMutation, map[string]any{"input": input(strings.ToUpper(receiver.URL[:4]) + receiver.URL[4:])})
		if got := a.at("createEventSubscription", "eventSubscription", "destination", "id"); got != at(made, "destination", "id") {
			t.Errorf("another destination: %v", got)
		}
		if got := a.at("createEventSubscription", "signingSecret"); got != nil {
			t.Errorf("the secret was shown again")
		}
	})
	t.Run("every_change_bumps_the_config_version", func(t *testing.T) {
		var version int
		if err := w.pool.QueryRow(t.Context(), `SELECT config_version FROM tenant_counters WHERE tenant_id = 'acme'`).Scan(&version); err != nil || version != 4 {
			t.Errorf("config version %d after two creations and a verification: %v", version, err)
		}
	})
	t.Run("secrets_rest_sealed", func(t *testing.T) {
		var raw string
		if err := w.pool.QueryRow(t.Context(), `SELECT row_to_json(s)::text FROM destination_secrets s`).Scan(&raw); err != nil || strings.Contains(raw, "whsec") {
			t.Errorf("%s %v", raw, err)
		}
	})
}

func TestVerify_says_what_was_seen(t *testing.T) {
	w := newWorld(t)
	tenant := w.token("acme", hub.Admin)
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		want   string
	}{
		"not_2xx":      {func(rw http.ResponseWriter, _ *http.Request) { http.Error(rw, "go away", 418) }, "HTTP 418"},
		"no_challenge": {func(rw http.ResponseWriter, _ *http.Request) { fmt.Fprint(rw, "hello") }, "does not hold the challenge"},
		"redirect":     {func(rw http.ResponseWriter, r *http.Request) { http.Redirect(rw, r, "/x", 302) }, "HTTP 302"},
		"hang_up":      {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, "RESET"},
	} {
		t.Run(name, func(t *testing.T) {
			receiver := httptest.NewServer(c.answer)
			defer receiver.Close()
			a := w.must(tenant, createMutation, map[string]any{"input": input(receiver.URL + "/" + name)})
			a = w.must(tenant, verifyMutation, map[string]any{"id": a.at("createEventSubscription", "eventSubscription", "id")})
			sub := a.at("verifyEventSubscription", "eventSubscription")
			seen, _ := at(sub, "verificationError").(string)
			if at(sub, "verificationState") != "FAILED" || !strings.Contains(seen, c.want) {
				t.Errorf("got %v", sub)
			}
		})
	}
}

func TestVerify_enables_what_the_hub_disabled_and_never_what_a_user_did(t *testing.T) {
	w := newWorld(t)
	tenant := w.token("acme", hub.Admin)
	receiver := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) { _, _ = io.Copy(rw, r.Body) }))
	defer receiver.Close()
	for by, enabled := range map[string]bool{"AUTO": true, "USER": false} {
		a := w.must(tenant, createMutation, map[string]any{"input": input(receiver.URL + "/" + by)})
		id := a.at("createEventSubscription", "eventSubscription", "id")
		w.exec(`UPDATE event_subscriptions SET enabled = false, disabled_by = $1, disabled_reason = 'x', disabled_at = now() WHERE replace(id::text, '-', '') = $2`, by, strings.TrimPrefix(id.(string), "sub_"))
		w.must(tenant, verifyMutation, map[string]any{"id": id})
		a = w.must(tenant, `query ($id: ID!) { eventSubscription(id: $id) { enabled disabledBy verificationState } }`, map[string]any{"id": id})
		if a.at("eventSubscription", "enabled") != enabled || a.at("eventSubscription", "verificationState") != "ACTIVE" {
			t.Errorf("disabled by %s: %v", by, a.Data)
		}
	}
}

func TestCreate_tells_every_mistake_with_its_path(t *testing.T) {
	w := newWorld(t)
	tenant := w.token("acme", hub.Operator)
	bad := map[string]any{
		"tenantId": "other", "name": " ", "eventTypes": []string{"a.b", "nodot", "a.b"}, "origin": "Not A Source", "schemaMajor": -1,
		"destination": map[string]any{"url": "ftp://example.com"}, "timeout": "PT31S",
		"retryPolicy": map[string]any{"schedule": map[string]any{"steps": []string{"PT11H"}}},
	}
	a := w.must(tenant, createMutation, map[string]any{"input": bad})
	if a.at("createEventSubscription", "eventSubscription") != nil {
		t.Fatal("it was made")
	}
	var got []string
	for _, e := range a.at("createEventSubscription", "userErrors").([]any) {
		path, _ := json.Marshal(at(e, "path"))
		got = append(got, fmt.Sprint(at(e, "code"), string(path)))
	}
	want := []string{
		`TENANT_MISMATCH["input","tenantId"]`, `INVALID["input","name"]`, `INVALID["input","origin"]`, `INVALID["input","eventTypes","1"]`,
		`INVALID["input","eventTypes","2"]`, `INVALID["input","schemaMajor"]`, `INVALID["input","retryPolicy"]`, `INVALID["input","timeout"]`, `INVALID["input","destination","url"]`,
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
	t.Run("platform_names_the_tenant", func(t *testing.T) {
		platform := w.token("", hub.Operator)
		a := w.must(platform, createMutation, map[string]any{"input": input("https://example.com")})
		if a.at("createEventSubscription", "userErrors", 0, "code") != "REQUIRED" {
			t.Errorf("%v", a.Data)
		}
		in := input("https://example.com")
		in["tenantId"] = "beta"
		a = w.must(platform, createMutation, map[string]any{"input": in})
		if a.at("createEventSubscription", "eventSubscription", "tenantId") != "beta" {
			t.Errorf("%v", a.Data)
		}
	})
	t.Run("pull_needs_no_probe", func(t *testing.T) {
		a := w.must(tenant, createMutation, map[string]any{"input": map[string]any{"name": "p", "eventTypes": []string{"*"}, "destination": map[string]any{"kind": "PULL"}}})
		if a.at("createEventSubscription", "eventSubscription", "verificationState") != "ACTIVE" || a.at("createEventSubscription", "signingSecret") != nil {
			t.Errorf("%v", a.Data)
		}
	})
	t.Run("one_retry_policy_only", func(t *testing.T) {
		in := input("https://example.com")
		in["retryPolicy"] = map[string]any{"curve": true, "schedule": map[string]any{"steps": []string{}}}
		if a := w.ask(tenant, createMutation, map[string]any{"input": in}); len(a.Errors) == 0 {
			t.Errorf("two policies were taken: %v", a.Data)
		}
	})
	t.Run("viewer_may_not", func(t *testing.T) {
		a := w.ask(w.token("acme", hub.Viewer), createMutation, map[string]any{"input": input("https://example.com")})
		if a.code() != "FORBIDDEN" {
			t.Errorf("%+v", a)
		}
	})
}
