package e2e

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/streaming-hub/streaming-hub/tracing/tracingtest"
)

// canaryOf is a secret that is recognised by its beginning and by its end, so
// that a part of it is found too. It has 32 bytes, what an Ed25519 key needs.
func canaryOf(letters string) string {
	return "zqHEAD" + letters + "kx8Q.7/+w3Jv" + "TAIL" + letters + "qz"
}

// canaries are all secrets of the test, by what they are.
var canaries = map[string]string{
	"imported signing secret": canaryOf("SIGN"), "second signing secret": canaryOf("ROTA"), "bearer token": canaryOf("BEAR"),
	"password": canaryOf("PASS"), "API key": canaryOf("APIK"), "second API key": canaryOf("NEXT"), "client certificate's key": canaryOf("CERT"),
	"secret of a bad request": canaryOf("BADR"), "key of the collector": canaryOf("OTLP"),
}

// urlKey is a secret that a tenant put into a URL. It is shown to the tenant
// with the URL, and nobody else.
var urlKey = canaryOf("QURY")

// TestCanarySecrets gives the hub secrets of every kind with a text in them
// that is found again, lets everything happen that touches them, and looks for
// that text wherever the hub writes.
func TestCanarySecrets(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	defer cancel()
	dir := stateDir(t)
	echo := newEcho(t, dir)
	collector := tracingtest.New(t)
	hub := startDev(ctx, t, dir, "STREAMING_HUB_LOG_LEVEL=debug", "STREAMING_HUB_DEFAULT_RETRY_STEPS=0s,100ms", "SSL_CERT_FILE="+echo.caFile,
		"STREAMING_HUB_OTLP_ENDPOINT="+collector.URL, "STREAMING_HUB_TRACE_SAMPLE_RATIO=1", "STREAMING_HUB_OTLP_HEADERS=api-key="+url.PathEscape(canaries["key of the collector"]))
	d := newDesk(t, hub.state)
	said := &searched{name: "the API's answers to mutations and bad requests"}
	work := canaryWork{desk: d, echo: echo, said: said}
	followed := d.follow(ctx, t, "deliveryOutcomes", "", `... on DeliveryOutcome { deliveryId state errorClass delivery { lastError
		attempts { errorDetail responseBody responseHeaders { name value } requestHeaders { name value } } } }`)
	work.run(ctx, t)

	// Everything that can be asked while the hub runs.
	places := []*searched{said, d.walk(ctx, t)}
	feed := &searched{name: "the live feed", control: []string{"DELIVERED"}}
	for _, item := range followed.rest() {
		feed.add(item)
	}
	places = append(places, feed)
	for _, u := range []string{"/metrics", "/readyz", "/", "/console.css", "/console.js", "/graphiql", "/admin/dlq?body=1"} {
		places = append(places, d.fetch(ctx, t, "controlplane", strings.TrimSuffix(d.st.ConsoleURL, "/")+u))
	}
	plane := strings.TrimSuffix(d.st.PullURL, "/v1/events")
	for _, u := range []string{"/metrics", "/readyz", "/v1/events?raw=1&tenant=canary"} {
		places = append(places, d.fetch(ctx, t, "dataplane", plane+u))
	}
	t.Run("the_database", func(t *testing.T) { dump(ctx, t, dir, d.st.PostgresDSN).check(t) })
	hub.stop(t)
	logs := &searched{name: "hub dev's own output", control: []string{"Streaming Hub is running"}}
	logs.add(hub.out.String())
	places = append(places, logs)
	places = append(places, logFiles(t, dir)...)
	places = append(places, traces(t, collector))
	for _, p := range places {
		t.Run(strings.Trim(regexp.MustCompile(`\W+`).ReplaceAllString(p.name, "_"), "_"), p.check)
	}
}

// canaryWork is everything that touches secrets.
type canaryWork struct {
	desk *desk
	echo *echo
	said *searched
}

// mutate sends a mutation and keeps its whole answer.
func (w *canaryWork) mutate(ctx context.Context, t *testing.T, name, selection string, input map[string]any) map[string]json.RawMessage {
	t.Helper()
	upper := strings.ToUpper(name[:1]) + name[1:]
	answer := w.post(ctx, t, map[string]any{
		"query":     fmt.Sprintf(`mutation($input: %sInput!) { %s(input: $input) { %s userErrors { code message path } } }`, upper, name, selection),
		"variables": map[string]any{"input": input},
	})
	var data struct {
		Data map[string]map[string]json.RawMessage
	}
	if err := json.Unmarshal([]byte(answer), &data); err != nil {
		t.Fatal(err)
	}
	return data.Data[name]
}

func (w *canaryWork) post(ctx context.Context, t *testing.T, request any) string {
	t.Helper()
	body, err := json.Marshal(request)
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.desk.st.GraphQLURL, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+w.desk.token)
	answer := send(t, req)
	w.said.add(answer)
	return answer
}

func send(t *testing.T, req *http.Request) string {
	t.Helper()
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(answer)
}

func whsec(secret string) string { return "whsec_" + base64.StdEncoding.EncodeToString([]byte(secret)) }

func (w *canaryWork) run(ctx context.Context, t *testing.T) {
	chain, key := clientPair(t, canaries["client certificate's key"])
	header := func(value string) map[string]any {
		return map[string]any{"header": map[string]any{"name": "X-Api-Key", "value": value}}
	}
	const probe = `eventSubscription { ` + subFields + ` } probe { status errorDetail responseBody }`
	ids := map[string]string{}
	for _, s := range []struct {
		path        string
		destination map[string]any
	}{
		{"/bearer", map[string]any{"credential": map[string]any{"bearer": map[string]any{"token": canaries["bearer token"]}},
			"clientCertificate": map[string]any{"chain": chain, "privateKey": key}, "signingSecret": whsec(canaries["imported signing secret"])}},
		{"/basic", map[string]any{"credential": map[string]any{"basic": map[string]any{"username": "robot", "password": canaries["password"]}}}},
		{"/header", map[string]any{"credential": header(canaries["API key"])}},
	} {
		s.destination["url"] = w.echo.url + s.path + "?key=" + url.QueryEscape(urlKey)
		made := w.mutate(ctx, t, "createEventSubscription", "eventSubscription { "+subFields+" destination { credential { kind name } clientCertificate { subject } } }", map[string]any{
			"tenantId": "canary", "name": "control of " + s.path, "eventTypes": []string{"*"}, "destination": s.destination, "idempotencyKey": "make " + s.path,
		})
		var one sub
		if err := json.Unmarshal(made["eventSubscription"], &one); err != nil || one.ID == "" {
			t.Fatalf("the subscription to %s was not made: %s", s.path, w.said.text.String())
		}
		ids[s.path] = one.ID
		w.echo.fails.Store(true)
		w.mutate(ctx, t, "verifyEventSubscription", probe, map[string]any{"id": one.ID})
		w.echo.fails.Store(false)
		w.mutate(ctx, t, "verifyEventSubscription", probe, map[string]any{"id": one.ID})
		if now := w.desk.sub(ctx, t, one.ID); now.VerificationState != "ACTIVE" {
			t.Fatalf("%s is %+v", s.path, now)
		}
	}
	deliver := func(name string, fails bool, n int) {
		t.Helper()
		w.echo.fails.Store(fails)
		w.desk.publish(ctx, t, "canary", name)
		for _, id := range ids {
			w.desk.all(ctx, t, id, n, "settled", func(one stands) bool {
				return one.State == "DELIVERED" || one.State == "DEAD"
			})
			w.mutate(ctx, t, "sendTestEvent", "delivery { id state }", map[string]any{"id": id})
			w.desk.all(ctx, t, id, n+1, "settled", func(one stands) bool { return one.State == "DELIVERED" || one.State == "DEAD" })
		}
	}
	deliver("succeeds", false, 1)
	deliver("fails", true, 3)
	for path, id := range ids {
		w.mutate(ctx, t, "rotateSigningSecret", "destination { id signingKeys { version } }", map[string]any{
			"id": id, "signingSecret": whsec(canaries["second signing secret"]), "idempotencyKey": "rotate " + path,
		})
	}
	w.mutate(ctx, t, "updateEventSubscription", "eventSubscription { "+subFields+" }", map[string]any{
		"id": ids["/header"], "version": w.desk.sub(ctx, t, ids["/header"]).Version,
		"destination": map[string]any{"credential": header(canaries["second API key"])},
	})
	w.mutate(ctx, t, "verifyEventSubscription", probe, map[string]any{"id": ids["/header"]})
	w.echo.fails.Store(false)
	w.mutate(ctx, t, "verifyEventSubscription", probe, map[string]any{"id": ids["/header"]})
	deliver("after_the_change", true, 5)
	// The fifth failure in a row opens the circuit; the last attempt runs all the same.
	w.echo.cuts.Store(true)
	deliver("at_the_cut", true, 7)
	w.badRequests(ctx, t, ids["/header"], chain)
	if want := []string{"/basic", "/bearer", "/header"}; !slices.Equal(w.echo.showed(), want) {
		t.Fatalf("credentials came to %v, want %v", w.echo.showed(), want)
	}
	w.said.control = []string{"canary", ids["/header"], "INVALID"}
}

// badRequests repeat a secret in inputs of every wrong kind.
func (w *canaryWork) badRequests(ctx context.Context, t *testing.T, id, chain string) {
	t.Helper()
	bad := canaries["secret of a bad request"]
	create := func(destination map[string]any) {
		t.Helper()
		destination["url"] = w.echo.url + "/bad"
		w.mutate(ctx, t, "createEventSubscription", "eventSubscription { id }", map[string]any{
			"tenantId": "canary", "name": "bad", "eventTypes": []string{"*"}, "destination": destination,
		})
	}
	for _, destination := range []map[string]any{
		{"signingSecret": bad},
		{"signingSecret": "whsec_" + bad},
		{"signingSecret": whsec(bad) + "="},
		{"signingSecret": "whsec_" + base64.StdEncoding.EncodeToString([]byte(bad[:20]))},
		{"credential": map[string]any{"bearer": map[string]any{"token": "Bearer " + bad}}},
		{"credential": map[string]any{"bearer": map[string]any{"token": bad + "\n"}}},
		{"credential": map[string]any{"bearer": map[string]any{"value": bad}}},
		{"credential": map[string]any{"bearer": bad}},
		{"credential": bad},
		{"credential": []any{bad}},
		{"credential": map[string]any{"basic": map[string]any{"username": "a:b", "password": bad}}},
		{"credential": map[string]any{"basic": map[string]any{"username": "a", "password": []any{bad, map[string]any{"x": bad}}}}},
		{"credential": map[string]any{"header": map[string]any{"name": "webhook-signature", "value": bad}}},
		{"credential": map[string]any{"header": map[string]any{"name": "X-Key", "value": bad + "\x00é"}}},
		{"clientCertificate": map[string]any{"chain": chain, "privateKey": bad}},
		{"clientCertificate": map[string]any{"chain": chain, "privateKey": "-----BEGIN PRIVATE KEY-----\n" + base64.StdEncoding.EncodeToString([]byte(bad)) + "\n-----END PRIVATE KEY-----\n"}},
		{"clientCertificate": map[string]any{"chain": bad, "privateKey": bad}},
	} {
		create(destination)
	}
	// In the document itself, as the wrong kind of literal, and in one that does not parse.
	for _, destination := range []string{
		`signingSecret: ` + bad[:12], `signingSecret: ["` + bad + `"]`, `signingSecret: {secret: "` + bad + `"}`,
		`credential: {bearer: "` + bad + `"}`, `credential: {bearer: {value: "` + bad + `"}}`, `credential: {bearer: {token: ` + bad[:12] + `}}`,
		`credential: {header: {name: "Host", value: "` + bad + `"}}`, `signingSecret: "` + bad, `signingSecret: "x" "` + bad + `"`, `"` + bad + `": 1`,
	} {
		w.post(ctx, t, map[string]any{"query": `mutation { createEventSubscription(input: {tenantId: "canary", name: "bad", eventTypes: ["*"],
			destination: {url: "` + w.echo.url + `/bad", ` + destination + `}}) { userErrors { code message path } } }`})
	}
	w.mutate(ctx, t, "rotateSigningSecret", "signingSecret", map[string]any{"id": id, "signingSecret": bad})
	w.mutate(ctx, t, "rotateSigningSecret", "signingSecret", map[string]any{"id": id, "signingSecret": map[string]any{"secret": bad}})
}
