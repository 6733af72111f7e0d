package graph_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/streaming-hub/streaming-hub/hub"
)

func TestSigningSecrets(t *testing.T) {
	w := newWorld(t)
	operator, admin := w.token("acme", hub.Operator), w.token("acme", hub.Admin)
	var signatures, authorization string
	var body []byte
	var header http.Header
	receiver := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		header, signatures, authorization = r.Header, r.Header.Get("webhook-signature"), r.Header.Get("X-Api-Key")
		body, _ = io.ReadAll(r.Body)
		_, _ = rw.Write(body)
	}))
	defer receiver.Close()
	in := input(receiver.URL)
	in["destination"].(map[string]any)["credential"] = map[string]any{"header": map[string]any{"name": "X-Api-Key", "value": "hidden-key"}}
	in["headers"] = []any{map[string]any{"name": "X-Team", "value": "loans"}}
	a := w.must(operator, createMutation, map[string]any{"input": in})
	id, first := a.at("createEventSubscription", "eventSubscription", "id"), a.at("createEventSubscription", "signingSecret").(string)
	dst := a.at("createEventSubscription", "eventSubscription", "destination", "id")
	accepts := func(secret string) bool {
		t.Helper()
		w.must(operator, verifyMutation, map[string]any{"id": id})
		verifier, err := standardwebhooks.NewWebhook(secret)
		if err != nil {
			t.Fatal(err)
		}
		return verifier.Verify(body, header) == nil
	}
	if !accepts(first) || authorization != "hidden-key" || header.Get("X-Team") != "loans" {
		t.Errorf("the probe has %v", header)
	}
	const selection = "destination { signingKeys { version endsAt } } signingSecret"
	p := w.mutate(admin, "rotateSigningSecret", map[string]any{"id": id, "overlap": "PT1H"}, selection)
	second, _ := at(p, "signingSecret").(string)
	end, err := time.Parse(time.RFC3339, fmt.Sprint(at(p, "destination", "signingKeys", 1, "endsAt")))
	if !accepts(first) || !accepts(second) || len(strings.Fields(signatures)) != 2 || err != nil || time.Until(end) > time.Hour || time.Until(end) < 59*time.Minute {
		t.Errorf("after a rotation: %v, signatures %q", p, signatures)
	}
	p = w.mutate(admin, "revokeSigningSecret", map[string]any{"id": dst, "version": 1}, selection+" revokedVersion")
	if accepts(first) || !accepts(second) || len(strings.Fields(signatures)) != 1 || at(p, "revokedVersion") != 1.0 || at(p, "signingSecret") != nil {
		t.Errorf("after a revocation: %v, signatures %q", p, signatures)
	}
	p = w.mutate(admin, "revokeSigningSecret", map[string]any{"id": dst, "version": 2}, selection)
	if third, _ := at(p, "signingSecret").(string); accepts(second) || !accepts(third) {
		t.Errorf("after the revocation of the current one: %v", p)
	}
	if p = w.mutate(admin, "rotateSigningSecret", map[string]any{"id": dst, "signingSecret": "v1," + first}, selection); at(p, "userErrors", 0, "path", 1) != "signingSecret" {
		t.Errorf("%v", p)
	}
	t.Run("needs_an_ADMIN", func(t *testing.T) {
		for _, query := range []string{
			`mutation ($id: ID!) { rotateSigningSecret(input: {id: $id}) { signingSecret } }`,
			`mutation ($id: ID!) { revokeSigningSecret(input: {id: $id, version: 3}) { signingSecret } }`,
		} {
			if a := w.ask(operator, query, map[string]any{"id": dst}); a.code() != "FORBIDDEN" {
				t.Errorf("%+v", a)
			}
		}
	})
	if log := w.log.String(); strings.Contains(log, "hidden-key") || strings.Contains(log, "whsec_") {
		t.Errorf("the log holds a secret: %s", log)
	}
}

func TestDestinations(t *testing.T) {
	w := newWorld(t)
	token := w.token("acme", hub.Operator)
	var ids []any
	for i := range 3 {
		a := w.must(token, createMutation, map[string]any{"input": input(fmt.Sprintf("https://a.example/%d", i))})
		ids = append(ids, a.at("createEventSubscription", "eventSubscription", "destination", "id"))
	}
	const query = `query ($after: String, $filter: DestinationFilter) { destinations(first: 2, after: $after, filter: $filter) {
		nodes { id } edges { cursor node { id } } pageInfo { hasNextPage endCursor } } }`
	var seen []any
	var after any
	for range 3 {
		a := w.must(token, query, map[string]any{"after": after})
		for _, n := range a.at("destinations", "nodes").([]any) {
			seen = append(seen, at(n, "id"))
		}
		if after = a.at("destinations", "pageInfo", "endCursor"); a.at("destinations", "pageInfo", "hasNextPage") == false {
			break
		}
	}
	if len(seen) != 3 {
		t.Errorf("saw %v", seen)
	}
	if a := w.must(token, query, map[string]any{"filter": map[string]any{"url": "https://A.example/1"}}); a.at("destinations", "nodes", 0, "id") != ids[1] || a.at("destinations", "nodes", 1) != nil {
		t.Errorf("%v", a.Data)
	}
	if a := w.must(token, `query ($id: ID!) { destination(id: $id) { id url } node(id: $id) { id } }`, map[string]any{"id": ids[2]}); a.at("destination", "url") != "https://a.example/2" || a.at("node", "id") != ids[2] {
		t.Errorf("%v", a.Data)
	}
	if a := w.ask(token, query, map[string]any{"after": "nonsense"}); a.code() != "BAD_USER_INPUT" {
		t.Errorf("%+v", a)
	}
}
