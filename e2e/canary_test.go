package e2e

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"io/fs"
	"math/big"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"
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
	"secret of a bad request": canaryOf("BADR"),
}

// TestCanarySecrets gives the hub secrets of every kind with a text in them
// that is found again, lets everything happen that touches them, and looks for
// that text wherever the hub writes.
func TestCanarySecrets(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	defer cancel()
	dir := stateDir(t)
	echo := newEcho(t, dir)
	hub := startDev(ctx, t, dir, "STREAMING_HUB_LOG_LEVEL=debug", "STREAMING_HUB_DEFAULT_RETRY_STEPS=0s,100ms", "SSL_CERT_FILE="+echo.caFile)
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
	for _, p := range places {
		t.Run(strings.Trim(regexp.MustCompile(`\W+`).ReplaceAllString(p.name, "_"), "_"), p.check)
	}
}

// searched is a place in which no canary may be.
type searched struct {
	name string
	text bytes.Buffer
	// control are texts that are there: finding them shows that the search
	// looks where the canaries would be.
	control []string
}

func (s *searched) add(text string) { s.text.WriteString(text); s.text.WriteByte('\n') }

func (s *searched) check(t *testing.T) {
	text := s.text.String()
	for what, whole := range canaries {
		if form, at := find(text, whole); form != "" {
			t.Errorf("the %s is there, %s: …%s…", what, form, text[max(0, at-120):min(len(text), at+80)])
		}
	}
	if len(s.control) == 0 {
		t.Error("there is no text to show that the search works")
	}
	for _, c := range s.control {
		if form, _ := find(text, c); form == "" {
			t.Errorf("%q is not found in %d bytes, though it is there: the search looks at nothing", c, len(text))
		}
	}
}

// find looks for the beginning and the end of a secret in the notations in
// which a program could have written it.
func find(text, secret string) (form string, at int) {
	parts := []string{secret}
	if len(secret) > 20 {
		parts = []string{secret[:12], secret[len(secret)-10:]}
	}
	for _, part := range parts {
		for name, list := range notationsOf(part) {
			for _, one := range list {
				if at := strings.Index(text, one); at >= 0 {
					return name, at
				}
			}
		}
	}
	return "", 0
}

func notationsOf(s string) map[string][]string {
	hex := func(s string) []string { return []string{fmt.Sprintf("%x", s), fmt.Sprintf("%X", s)} }
	var inBase64, inBase64Hex, twice []string
	for shift := range 3 {
		one := within(s, shift)
		inBase64 = append(inBase64, one, strings.NewReplacer("+", "-", "/", "_").Replace(one))
		inBase64Hex = append(inBase64Hex, hex(one)...)
		for again := range 3 {
			twice = append(twice, within(one, again))
		}
	}
	return map[string][]string{
		"plain": {s}, "in a URL": {url.QueryEscape(s), strings.ReplaceAll(fmt.Sprintf("% x", " "+s)[2:], " ", "%")}, "in hex": hex(s),
		"in base64": inBase64, "in base64 in hex": inBase64Hex, "in base64 twice": twice,
	}
}

// within is what the base64 of a longer text has in its middle when s stands
// in it at an offset that leaves the remainder shift.
func within(s string, shift int) string {
	all := base64.StdEncoding.EncodeToString(append(make([]byte, shift), s...))
	return all[(shift*8+5)/6 : (shift+len(s))*8/6]
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
		s.destination["url"] = w.echo.url + s.path
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
	w.mutate(ctx, t, "rotateSigningSecret", "signingSecret", map[string]any{"id": id, "signingSecret": bad})
	w.mutate(ctx, t, "rotateSigningSecret", "signingSecret", map[string]any{"id": id, "signingSecret": map[string]any{"secret": bad}})
}

// echo is a receiver over TLS that repeats what proves who the hub is, in its
// answer's body and headers, in several notations.
type echo struct {
	url, caFile string
	fails, cuts atomic.Bool
	seen        [3]atomic.Bool
}

var echoPaths = []string{"/basic", "/bearer", "/header"}

func newEcho(t *testing.T, dir string) *echo {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	chain := certificate(t, &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}, key.Public(), key)
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair([]byte(chain), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
	if err != nil {
		t.Fatal(err)
	}
	e := &echo{caFile: filepath.Join(dir, "ca.pem")}
	if err := os.WriteFile(e.caFile, []byte(chain), 0o644); err != nil {
		t.Fatal(err)
	}
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequestClientCert})
	if err != nil {
		t.Fatal(err)
	}
	e.url = "https://" + l.Addr().String()
	server := &http.Server{Handler: e, ReadHeaderTimeout: 10 * time.Second}
	served := make(chan struct{})
	go func() { defer close(served); _ = server.Serve(l) }()
	t.Cleanup(func() { server.Close(); <-served })
	return e
}

func (e *echo) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return
	}
	proof := req.Header.Get("Authorization") + req.Header.Get("X-Api-Key")
	if i := slices.Index(echoPaths, req.URL.Path); i >= 0 && strings.Contains(proof+clear64(proof), "zqHEAD") &&
		(req.URL.Path != "/bearer" || len(req.TLS.PeerCertificates) == 1) {
		e.seen[i].Store(true)
	}
	inJSON, _ := json.Marshal(map[string]any{"headers": req.Header, "pair": clear64(proof)}) // a header always marshals
	text := fmt.Sprintf("%s\nyou sent Authorization: %s\nquoted %q\n%s\nin a URL %s\n%s\n", body, proof, proof, inJSON, url.QueryEscape(proof), clear64(proof))
	if e.cuts.Load() {
		// The part that is kept ends within the credential.
		text = strings.Repeat(" ", 16<<10-len("Bearer ")-14) + proof + text
	}
	h := w.Header()
	h.Set("X-Echo", proof)
	h.Set("X-Echo-Url", url.QueryEscape(proof))
	h.Set("Www-Authenticate", "Basic realm=\""+proof+"\"")
	h["X-Pair"] = []string{proof, clear64(proof)}
	if e.fails.Load() {
		w.WriteHeader(http.StatusUnprocessableEntity)
	}
	_, _ = io.WriteString(w, text)
}

func (e *echo) showed() (paths []string) {
	for i, path := range echoPaths {
		if e.seen[i].Load() {
			paths = append(paths, path)
		}
	}
	return paths
}

// clear64 is the pair of a Basic credential.
func clear64(proof string) string {
	_, rest, _ := strings.Cut(proof, " ")
	pair, err := base64.StdEncoding.DecodeString(rest)
	if err != nil {
		return ""
	}
	return string(pair)
}

// clientPair is a client certificate whose private key is the text.
func clientPair(t *testing.T, seed string) (chain, key string) {
	t.Helper()
	private := ed25519.NewKeyFromSeed([]byte(seed))
	chain = certificate(t, &x509.Certificate{SerialNumber: big.NewInt(2), NotAfter: time.Now().Add(time.Hour)}, private.Public(), private)
	der, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return chain, string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
}

func certificate(t *testing.T, template *x509.Certificate, public, private any) string {
	t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, template, template, public, private)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

// fetch is a page of a plane, asked for with the platform's token.
func (d *desk) fetch(ctx context.Context, t *testing.T, plane, address string) *searched {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+d.token)
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	s := &searched{name: plane + " GET " + u.Path}
	text := send(t, req)
	s.add(text)
	s.control = []string{map[string]string{
		"/": "<html", "/graphiql": "<html", "/console.css": "color", "/console.js": "graphql", "/metrics": "streaming_hub_", "/readyz": "ready",
		"/admin/dlq": "observations", "/v1/events": `{"id":"fails"}`,
	}[u.Path]}
	return s
}

// dump is the whole database as pg_dump writes it.
func dump(ctx context.Context, t *testing.T, dir, dsn string) *searched {
	t.Helper()
	program := pgDump(t, dir)
	out, err := exec.CommandContext(ctx, program, "--dbname="+dsn).Output()
	if err != nil {
		t.Fatalf("%s: %v", program, err)
	}
	s := &searched{name: "the database", control: []string{"control of /header", `{"id":"fails"}`, "you sent Authorization"}}
	s.add(string(out))
	return s
}

// pgDump is the program beside that of the server, which runs in dir.
func pgDump(t *testing.T, dir string) string {
	t.Helper()
	if text, err := os.ReadFile(filepath.Join(dir, "postgres", "data", "postmaster.pid")); err == nil {
		pid, _, _ := strings.Cut(string(text), "\n")
		if _, err := strconv.Atoi(pid); err == nil {
			if server, err := os.Readlink("/proc/" + pid + "/exe"); err == nil {
				if program := filepath.Join(filepath.Dir(server), "pg_dump"); isFile(program) {
					return program
				}
			}
		}
	}
	program, err := exec.LookPath("pg_dump")
	if err != nil {
		t.Skip("there is no pg_dump, neither beside the Postgres server nor in PATH: the database is not searched (apt-get install postgresql-client)")
	}
	return program
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// logFiles are what all programs of a hub dev wrote.
func logFiles(t *testing.T, dir string) (list []*searched) {
	t.Helper()
	control := map[string]string{"dataplane.log": `"level":"INFO"`, "controlplane.log": `"level":"INFO"`, "postgres.log": "ready to accept connections"}
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || control[entry.Name()] == "" {
			return err
		}
		text, err := os.ReadFile(path)
		s := &searched{name: entry.Name(), control: []string{control[entry.Name()]}}
		s.add(string(text))
		list = append(list, s)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(list) != len(control) {
		t.Errorf("%d log files are there, want %d", len(list), len(control))
	}
	return list
}
