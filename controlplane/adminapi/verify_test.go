package adminapi_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/streaming-hub/streaming-hub/access"
	"github.com/streaming-hub/streaming-hub/controlplane"
	"github.com/streaming-hub/streaming-hub/controlplane/adminapi"
	"github.com/streaming-hub/streaming-hub/db"
	"github.com/streaming-hub/streaming-hub/db/dbtest"
	"github.com/streaming-hub/streaming-hub/hub"
	"github.com/streaming-hub/streaming-hub/hub/address"
	"github.com/streaming-hub/streaming-hub/hub/hubtest"
	"github.com/streaming-hub/streaming-hub/hub/secret"
)

// echo answers probes with a status and the challenge.
type echo struct {
	status int32
	// before, if any, happens while the probe is under way.
	before func()
}

func (e *echo) Probe(_ context.Context, p controlplane.Probe) hub.Attempt {
	if e.before != nil {
		e.before()
	}
	a := hub.Attempt{Answer: hub.Answer{Status: e.status, Snippet: string(p.Event.Body)}, Timings: hub.Timings{Total: 1234}}
	if e.status >= 300 {
		a.Failure = hub.Failure{Class: hub.ErrStatus, Phase: hub.PhaseAnswer, Detail: "the answer was not 2xx"}
	}
	return a
}

func TestVerify(t *testing.T) {
	d, err := db.Open(t.Context(), db.Config{DSN: dbtest.New(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	keys, err := secret.ParseKeyring("k:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=")
	if err != nil {
		t.Fatal(err)
	}
	receiver := &echo{status: 200}
	subs := &controlplane.Subscriptions{DB: d, Keys: keys, Addresses: address.Policy{}, Prober: receiver, Now: time.Now, Random: rand.Reader}
	tokens := access.NewTokens(d)
	token := func(tenant hub.TenantID, role hub.Role) string {
		t.Helper()
		text, _, err := tokens.Create(t.Context(), access.NewToken{Tenant: tenant, Name: "test", Role: role})
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	acme := controlplane.Actor{Role: hub.Admin, Tenant: "acme"}
	made, mistakes, err := subs.Create(t.Context(), acme, controlplane.NewSubscription{
		Name: "x", EventTypes: []string{"*"}, Kind: hub.SinkWebhook, URL: "https://a.example/", Timeout: hub.DefaultTimeout,
	})
	if err != nil || mistakes != nil {
		t.Fatal(mistakes, err)
	}
	id := controlplane.GlobalID(controlplane.SubscriptionIDs, made.Subscription.ID.ID)
	mux := http.NewServeMux()
	mux.Handle("POST /v1/subscriptions/{id}/verify", adminapi.Verify{Subscriptions: subs, Tokens: tokens, Log: slog.New(slog.DiscardHandler)})
	type answer struct {
		status            int
		ID                string
		VerificationState string `json:"verification_state"`
		VerificationError string `json:"verification_error"`
		Enabled           bool
		Probe             *struct {
			Status      int
			ErrorClass  string `json:"error_class"`
			TotalMicros int    `json:"total_us"`
		}
		Error struct{ Code, Message string }
	}
	post := func(t *testing.T, token, id string) (a answer) {
		t.Helper()
		r := httptest.NewRequest(http.MethodPost, "/v1/subscriptions/"+id+"/verify", nil)
		r.Header.Set("Authorization", "Bearer "+token)
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, r)
		if err := json.Unmarshal(w.Body.Bytes(), &a); err != nil {
			t.Fatalf("%s: %v", w.Body, err)
		}
		a.status = w.Code
		return a
	}
	operator := token("acme", hub.Operator)
	t.Run("says_what_the_destination_answered", func(t *testing.T) {
		receiver.status = 503
		if a := post(t, operator, id); a.status != 200 || a.VerificationState != "FAILED" || a.VerificationError == "" || a.Probe == nil ||
			a.Probe.Status != 503 || a.Probe.ErrorClass != "STATUS" || a.Probe.TotalMicros != 1234 {
			t.Errorf("%+v", a)
		}
		receiver.status = 200
		if a := post(t, operator, id); a.status != 200 || a.ID != id || a.VerificationState != "ACTIVE" || a.VerificationError != "" || !a.Enabled {
			t.Errorf("%+v", a)
		}
	})
	t.Run("takes_a_plain_UUID_too", func(t *testing.T) {
		if a := post(t, operator, made.Subscription.ID.String()); a.status != 200 || a.ID != id {
			t.Errorf("%+v", a)
		}
	})
	for _, row := range []struct {
		rule, token, id string
		status          int
		code            string
	}{
		{"a_token_is_needed", "shub_nonsense", id, 401, "unauthenticated"},
		{"viewer_may_not", token("acme", hub.Viewer), id, 403, "forbidden"},
		{"another_tenant_finds_nothing", token("bolt", hub.Admin), id, 404, "not_found"},
		{"unknown_id", operator, controlplane.GlobalID(controlplane.SubscriptionIDs, hubtest.NewID()), 404, "not_found"},
		{"no_id", operator, "nonsense", 404, "not_found"},
	} {
		t.Run(row.rule, func(t *testing.T) {
			if a := post(t, row.token, row.id); a.status != row.status || a.Error.Code != row.code || a.Error.Message == "" {
				t.Errorf("%+v", a)
			}
		})
	}
	t.Run("changed_meanwhile", func(t *testing.T) {
		receiver.before = func() { _, _, _ = subs.Disable(t.Context(), acme, made.Subscription.ID, "") }
		if a := post(t, operator, id); a.status != 409 || a.Error.Code != "conflict" {
			t.Errorf("%+v", a)
		}
		receiver.before = nil
	})
	t.Run("no_key_to_sign_with", func(t *testing.T) {
		subs.Keys = nil
		if a := post(t, operator, id); a.status != 503 || a.Error.Code != "unavailable" {
			t.Errorf("%+v", a)
		}
	})
}
