package graph_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/streaming-hub/streaming-hub/access"
	"github.com/streaming-hub/streaming-hub/dataplane/pull"
	"github.com/streaming-hub/streaming-hub/hub"
)

const createToken = `mutation ($input: CreateApiTokenInput!) { createApiToken(input: $input) {
	apiToken { id name role scope tenantId createdAt expiresAt revokedAt } token userErrors { code message path } } }`

const revokeToken = `mutation ($id: ID!) { revokeApiToken(input: {id: $id}) { apiToken { id revokedAt } userErrors { code path } } }`

const tokenPage = `query ($first: Int!, $after: String, $tenant: String) { apiTokens(first: $first, after: $after, filter: {tenantId: $tenant}) {
	nodes { id name role scope tenantId revokedAt } pageInfo { hasNextPage endCursor } } }`

func TestAPIToken_create_list_revoke(t *testing.T) {
	w := newWorld(t)
	admin, platform := w.token("acme", hub.Admin), w.token("", hub.Admin)
	w.token("other", hub.Viewer)
	made := w.must(admin, createToken, map[string]any{"input": map[string]any{"name": " night shift ", "role": "OPERATOR", "expiresIn": "PT720H"}}).at("createApiToken")
	text, id := at(made, "token").(string), at(made, "apiToken", "id").(string)
	if !strings.HasPrefix(text, "shub_") || at(made, "apiToken", "name") != "night shift" || at(made, "apiToken", "scope") != "TENANT" || at(made, "apiToken", "tenantId") != "acme" {
		t.Fatalf("%v", made)
	}
	if a := w.must(text, `{ viewer { name role tenantId expiresAt } }`, nil); a.at("viewer", "role") != "OPERATOR" || a.at("viewer", "tenantId") != "acme" || a.at("viewer", "expiresAt") != at(made, "apiToken", "expiresAt") {
		t.Errorf("%v", a.Data)
	}
	t.Run("a_list_shows_those_of_the_tenant_and_never_a_token", func(t *testing.T) {
		a := w.must(admin, tokenPage, map[string]any{"first": 10})
		nodes := a.at("apiTokens", "nodes").([]any)
		// Both can be of one millisecond: then chance says which is the newer one.
		newer, older := fmt.Sprint(at(nodes, 0, "id")), fmt.Sprint(at(nodes, 1, "id"))
		if len(nodes) != 2 || newer <= older || id != newer && id != older || strings.Contains(fmt.Sprint(a.Data), text) {
			t.Errorf("%v", a.Data)
		}
		if all := w.must(platform, tokenPage, map[string]any{"first": 10}).at("apiTokens", "nodes").([]any); len(all) != 4 {
			t.Errorf("the platform sees %v", all)
		}
		if other := w.must(platform, tokenPage, map[string]any{"first": 10, "tenant": "other"}).at("apiTokens", "nodes").([]any); len(other) != 1 {
			t.Errorf("of one tenant: %v", other)
		}
	})
	t.Run("pages_hold_everything_once", func(t *testing.T) {
		seen, after := map[any]bool{}, any(nil)
		for range 10 {
			p := w.must(platform, tokenPage, map[string]any{"first": 1, "after": after}).at("apiTokens")
			seen[at(p, "nodes", 0, "id")] = true
			if at(p, "pageInfo", "hasNextPage") == false {
				break
			}
			after = at(p, "pageInfo", "endCursor")
		}
		if len(seen) != 4 {
			t.Errorf("%v", seen)
		}
	})
	t.Run("operators_may_not", func(t *testing.T) {
		for _, role := range []hub.Role{hub.Viewer, hub.Operator} {
			token := w.token("acme", role)
			for _, a := range []*answer{
				w.ask(token, createToken, map[string]any{"input": map[string]any{"name": "x", "role": "VIEWER"}}),
				w.ask(token, revokeToken, map[string]any{"id": id}), w.ask(token, tokenPage, map[string]any{"first": 1}),
			} {
				if a.code() != "FORBIDDEN" {
					t.Errorf("%s: %+v", role, a)
				}
			}
			if a := w.must(token, `query ($id: ID!) { node(id: $id) { id } }`, map[string]any{"id": id}); a.at("node") != nil {
				t.Errorf("%s: %v", role, a.Data)
			}
		}
	})
	t.Run("nobody_reaches_further_than_itself", func(t *testing.T) {
		for name, c := range map[string]struct {
			input      map[string]any
			code, path string
		}{
			"another_tenant": {map[string]any{"name": "x", "role": "VIEWER", "tenantId": "other"}, "TENANT_MISMATCH", "tenantId"},
			"the_platform":   {map[string]any{"name": "x", "role": "VIEWER", "scope": "PLATFORM"}, "TENANT_MISMATCH", "scope"},
		} {
			p := w.must(admin, createToken, map[string]any{"input": c.input}).at("createApiToken")
			if at(p, "token") != nil || at(p, "userErrors", 0, "code") != c.code || fmt.Sprint(at(p, "userErrors", 0, "path")) != "[input "+c.path+"]" {
				t.Errorf("%s: %v", name, p)
			}
		}
		everywhere := w.must(platform, createToken, map[string]any{"input": map[string]any{"name": "x", "role": "VIEWER", "scope": "PLATFORM"}}).at("createApiToken")
		if at(everywhere, "apiToken", "scope") != "PLATFORM" || at(everywhere, "apiToken", "tenantId") != nil {
			t.Errorf("%v", everywhere)
		}
		if p := w.must(admin, revokeToken, map[string]any{"id": at(everywhere, "apiToken", "id")}).at("revokeApiToken"); at(p, "userErrors", 0, "code") != "NOT_FOUND" {
			t.Errorf("a tenant revoked the platform's: %v", p)
		}
	})
	t.Run("revoked_once", func(t *testing.T) {
		one := w.must(admin, revokeToken, map[string]any{"id": id}).at("revokeApiToken")
		two := w.must(admin, revokeToken, map[string]any{"id": id}).at("revokeApiToken")
		if at(one, "apiToken", "revokedAt") == nil || fmt.Sprint(one) != fmt.Sprint(two) {
			t.Errorf("%v, %v", one, two)
		}
		if n := w.count(`SELECT count(*) FROM audit_log WHERE action = 'revoke_api_token' AND tenant_id = 'acme' AND object = $1 AND before->>'revokedAt' IS NULL AND after->>'revokedAt' IS NOT NULL`, id); n != 1 {
			t.Errorf("%d entries", n)
		}
		if n := w.count(`SELECT count(*) FROM audit_log WHERE strpos(coalesce(before::text, '') || coalesce(after::text, ''), 'shub_') > 0`); n != 0 {
			t.Error("the audit log has a token")
		}
		if a := w.ask(text, `{ viewer { name } }`, nil); a.Status != http.StatusUnauthorized {
			t.Errorf("it still lets in, where it was revoked: %+v", a)
		}
	})
}

// revocation is how soon a revoked token lets nobody in, wherever it is used.
const revocation = 5 * time.Second

// A token that was used a moment ago is revoked by another process: everything
// that it has open, and every further request, ends in time.
func TestAPIToken_revocation_works_everywhere_within_5_s(t *testing.T) {
	w := newWorld(t)
	text := w.token("acme", hub.Viewer)
	id := w.idOf(text) // which every part has looked up just now
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()

	socket, res, err := websocket.Dial(ctx, "ws"+strings.TrimPrefix(w.server.URL, "http"), &websocket.DialOptions{Subprotocols: []string{"graphql-transport-ws"}})
	if err != nil {
		t.Fatal(err)
	}
	defer socket.CloseNow()
	_ = res
	for _, message := range []string{
		`{"type":"connection_init","payload":{"Authorization":"Bearer ` + text + `"}}`,
		`{"type":"subscribe","id":"1","payload":{"query":"subscription { deliveryOutcomes { __typename } }"}}`,
	} {
		if err := socket.Write(ctx, websocket.MessageText, []byte(message)); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := socket.Read(ctx); err != nil { // connection_ack
		t.Fatal(err)
	}
	stream, err := w.request(text, `{"query": "subscription { deliveryOutcomes { __typename } }"}`, "Accept", "text/event-stream")
	if err != nil || stream.StatusCode != http.StatusOK {
		t.Fatal(err)
	}
	defer stream.Body.Close()
	log := slog.New(slog.DiscardHandler)
	watcher := pull.NewWatcher(w.db, log)
	watching := make(chan error, 1)
	watch, stop := context.WithCancel(t.Context())
	go func() { watching <- watcher.Run(watch) }()
	defer func() { stop(); <-watching }()
	reads := httptest.NewServer(pull.New(pull.Deps{
		Store: w.db, Subscriptions: w.db, Tokens: access.NewTokens(w.db), Watcher: watcher, Rate: 100, Burst: 100,
		Stopping: t.Context(), Now: time.Now, Metrics: pull.NewMetrics(prometheus.NewRegistry()), Log: log,
	}))
	defer reads.Close()
	fetch := func() int {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, reads.URL+"/v1/events?after_seq=0", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+text)
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		_, _ = io.Copy(io.Discard, res.Body)
		return res.StatusCode
	}
	if status := fetch(); status != http.StatusOK {
		t.Fatalf("pull answers %d", status)
	}

	revoked := time.Now()
	if _, err := w.db.RevokeToken(ctx, id); err != nil {
		t.Fatal(err)
	}
	inTime := func(what string) {
		t.Helper()
		if took := time.Since(revoked); took > revocation {
			t.Errorf("%s ended after %s", what, took)
		}
	}
	_, _, err = socket.Read(ctx)
	for err == nil {
		_, _, err = socket.Read(ctx)
	}
	if inTime("the WebSocket"); websocket.CloseStatus(err) != 4403 {
		t.Errorf("it was closed with %v", err)
	}
	told, _ := io.ReadAll(stream.Body)
	if inTime("the event stream"); !strings.Contains(string(told), `"code":"UNAUTHENTICATED"`) {
		t.Errorf("it does not say why: %s", told)
	}
	for fetch() != http.StatusUnauthorized && time.Since(revoked) < 2*revocation {
		continue
	}
	inTime("pull")
	for w.ask(text, `{ viewer { name } }`, nil).Status != http.StatusUnauthorized && time.Since(revoked) < 2*revocation {
		continue
	}
	inTime("GraphQL")
}
