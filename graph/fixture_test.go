package graph_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/streaming-hub/streaming-hub/access"
	"github.com/streaming-hub/streaming-hub/controlplane"
	"github.com/streaming-hub/streaming-hub/dataplane/sink"
	"github.com/streaming-hub/streaming-hub/db"
	"github.com/streaming-hub/streaming-hub/db/dbtest"
	"github.com/streaming-hub/streaming-hub/graph"
	"github.com/streaming-hub/streaming-hub/hub"
	"github.com/streaming-hub/streaming-hub/hub/address"
	"github.com/streaming-hub/streaming-hub/hub/health"
	"github.com/streaming-hub/streaming-hub/hub/hubtest"
	"github.com/streaming-hub/streaming-hub/hub/secret"
)

// world is a whole API over a database of its own, behind the wall as in the
// program; db is before it.
type world struct {
	t      *testing.T
	db     *db.DB
	pool   *pgxpool.Pool
	tokens *access.Tokens
	keys   *secret.Keyring
	// resolver takes settings of a test before its first request.
	resolver *graph.Resolver
	api      *graph.Server
	feed     *controlplane.Feed
	server   *httptest.Server
	accepted atomic.Pointer[net.TCPConn] // the newest connection
	log      *lockedBuffer
}

// keyring is a test key of 32 zero bytes.
const keyring = "test:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="

type probe struct{ webhook *sink.Webhook }

func (p probe) Probe(ctx context.Context, o controlplane.Probe) hub.Attempt {
	job := sink.Job{
		Event: o.Event, Delivery: o.Delivery, AttemptID: o.AttemptID, Number: 1, URL: o.URL, Signer: o.Signer, Timeout: o.Timeout, Headers: o.Headers,
	}
	if o.CredentialHeader != "" {
		job.Credential = &sink.Credential{Header: o.CredentialHeader, Value: o.Credential}
	}
	return p.webhook.Attempt(ctx, job)
}

func newWorld(t *testing.T) *world {
	t.Helper()
	return newWorldOn(t, dbtest.New(t))
}

func newWorldOn(t *testing.T, dsn string) *world {
	t.Helper()
	d, err := db.Open(t.Context(), db.Config{DSN: dsn, MaxConns: 8})
	if err != nil {
		t.Fatal(err)
	}
	walled, err := db.Open(t.Context(), db.Config{DSN: dsn, MaxConns: 8, Walled: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(walled.Close)
	pool, err := pgxpool.New(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	t.Cleanup(pool.Close)
	keys, err := secret.ParseKeyring(keyring)
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, db: d, pool: pool, tokens: access.NewTokens(d), keys: keys, log: new(lockedBuffer)}
	log := slog.New(slog.NewTextHandler(w.log, nil))
	policy := address.Policy{AllowLoopback: true, AllowHTTP: true}
	w.feed = controlplane.NewFeed(d, log)
	w.resolver = &graph.Resolver{
		Subscriptions: &controlplane.Subscriptions{
			DB: walled, Keys: keys, Addresses: policy, Now: hubtest.Now, Random: rand.Reader,
			Prober: probe{sink.NewWebhook(sink.Config{Policy: policy, UserAgent: "test"})},
		},
		History: &controlplane.History{DB: walled}, Quarantine: &controlplane.Quarantine{DB: walled, Now: hubtest.Now, Random: rand.Reader},
		Redelivery:   &controlplane.Redelivery{DB: walled, Now: hubtest.Now, Random: rand.Reader},
		Replays:      &controlplane.Replays{DB: walled, Now: hubtest.Now, Random: rand.Reader},
		Discarding:   &controlplane.Discarding{DB: walled, Now: hubtest.Now, Random: rand.Reader},
		Breakers:     &controlplane.Breakers{DB: walled, Keys: keys},
		Policies:     &controlplane.FailurePolicies{DB: walled, Span: health.DefaultSpan(), Now: time.Now},
		Observations: &controlplane.Observations{DB: walled}, Feed: w.feed, HeaderPrefix: "X-Lerian-", Now: time.Now,
		Tokens: &controlplane.Tokens{DB: walled, Access: w.tokens, Now: hubtest.Now, Random: rand.Reader},
		Audit:  &controlplane.AuditLog{DB: walled},
		Idempotency: &controlplane.Idempotency{
			Store: walled, Keys: keys, TTL: 24 * time.Hour, Now: time.Now, Random: rand.Reader, Log: log,
		},
	}
	w.api, err = graph.NewServer(graph.Deps{
		Resolver: w.resolver,
		Tokens:   w.tokens, Origins: []string{"https://console.example"}, Log: log,
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); _ = w.feed.Run(ctx) }()
	w.server = httptest.NewUnstartedServer(w.api)
	w.server.Config.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		w.accepted.Store(c.(*net.TCPConn))
		return graph.ConnContext(ctx, c)
	}
	w.server.Start()
	t.Cleanup(func() {
		closing, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		w.api.Close(closing)
		w.server.Close()
		stop()
		<-ended
	})
	return w
}

func (w *world) token(tenant hub.TenantID, role hub.Role) string {
	w.t.Helper()
	text, _, err := w.tokens.Create(w.t.Context(), access.NewToken{Tenant: tenant, Name: "test", Role: role})
	if err != nil {
		w.t.Fatal(err)
	}
	return text
}

// answer is a GraphQL answer.
type answer struct {
	Status int `json:"-"`
	Data   map[string]any
	Errors []struct {
		Message    string
		Extensions map[string]any
	}
}

func (a *answer) code() string {
	if len(a.Errors) == 0 {
		return ""
	}
	code, _ := a.Errors[0].Extensions["code"].(string)
	return code
}

// at walks into data by names and indexes: "deliveries", "nodes", 0, "id".
func (a *answer) at(path ...any) any { return at(a.Data, path...) }

func at(v any, path ...any) any {
	for _, step := range path {
		switch step := step.(type) {
		case string:
			m, _ := v.(map[string]any)
			v = m[step]
		case int:
			l, _ := v.([]any)
			if step >= len(l) {
				return nil
			}
			v = l[step]
		}
	}
	return v
}

func (w *world) request(token, body string, headers ...string) (*http.Response, error) {
	r, err := http.NewRequestWithContext(w.t.Context(), http.MethodPost, w.server.URL, strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	return http.DefaultClient.Do(r)
}

func (w *world) send(token, body string, headers ...string) *answer {
	w.t.Helper()
	res, err := w.request(token, body, headers...)
	if err != nil {
		w.t.Fatal(err)
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(res.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	a := &answer{Status: res.StatusCode}
	if err := json.Unmarshal(raw, a); err != nil {
		w.t.Fatalf("the answer is not JSON: %s", raw)
	}
	return a
}

// ask sends a query and returns the answer, errors and all.
func (w *world) ask(token, query string, variables map[string]any) *answer {
	w.t.Helper()
	body, err := json.Marshal(map[string]any{"query": query, "variables": variables})
	if err != nil {
		w.t.Fatal(err)
	}
	return w.send(token, string(body))
}

// must is ask for a query that has to work.
func (w *world) must(token, query string, variables map[string]any) *answer {
	w.t.Helper()
	a := w.ask(token, query, variables)
	if len(a.Errors) > 0 {
		w.t.Fatalf("%s: %+v\n%s", query, a.Errors, w.log)
	}
	return a
}

func (w *world) exec(sql string, args ...any) {
	w.t.Helper()
	if _, err := w.pool.Exec(w.t.Context(), sql, args...); err != nil {
		w.t.Fatalf("%s: %v", sql, err)
	}
}

func newID() hub.ID { return hubtest.NewID() }

// subscriptionOf makes a verified webhook subscription by SQL.
func (w *world) subscriptionOf(tenant string) (sub, dest hub.ID) {
	w.t.Helper()
	sub, dest = newID(), newID()
	w.exec(`INSERT INTO tenant_counters (tenant_id) VALUES ($1) ON CONFLICT DO NOTHING`, tenant)
	w.exec(`INSERT INTO destinations (id, tenant_id, kind, url, created_at) VALUES ($1, $2, 'WEBHOOK', $3, now())`,
		dest.String(), tenant, "https://example.com/"+dest.String())
	w.exec(`INSERT INTO event_subscriptions (id, tenant_id, name, event_types, destination_id, kind, verification_state, created_at, updated_at)
		VALUES ($1, $2, 'test', '{*}', $3, 'WEBHOOK', 'ACTIVE', now(), now())`, sub.String(), tenant, dest.String())
	row := newID()
	_, plain := secret.NewSigning(rand.Reader)
	sealed, err := w.keys.Seal(rand.Reader, plain, secret.Binding{Tenant: hub.TenantID(tenant), Row: row, Version: 1})
	if err != nil {
		w.t.Fatal(err)
	}
	w.exec(`INSERT INTO destination_secrets (id, tenant_id, destination_id, version, key_id, wrapped_key, ciphertext, created_at)
		VALUES ($1, $2, $3, 1, $4, $5, $6, now())`, row.String(), tenant, dest.String(), sealed.KeyID, sealed.WrappedKey, sealed.Ciphertext)
	return sub, dest
}

// delivery is a delivery made by SQL, waiting in the queue under lease token 1.
type delivery struct {
	hub.Delivery
}

func (w *world) deliver(tenant string, sub, dest hub.ID) delivery {
	w.t.Helper()
	event, id := newID(), newID()
	w.exec(`INSERT INTO events (id, tenant_id, seq, source, ce_id, event_type, schema_version, schema_major, received_at, topic, kafka_partition, kafka_offset, context, body)
		SELECT $1::uuid, $2::text, (SELECT coalesce(max(seq), 0) + 1 FROM events WHERE tenant_id = $2::text), 'lender', $1::uuid::text, 'loan.approved', '1.0.0', 1, now(), 'lerian.streaming.lender', 3, 42,
		'{"type":"studio.lerian.lender.loan.approved","resourcetype":"loan","eventtype":"approved","time":"2026-01-31T12:04:05Z"}', '{"amount": 12345678901234567890}'`,
		event.String(), tenant)
	w.exec(`INSERT INTO deliveries (id, tenant_id, event_id, subscription_id, destination_id) VALUES ($1, $2, $3, $4, $5)`,
		id.String(), tenant, event.String(), sub.String(), dest.String())
	w.exec(`INSERT INTO delivery_queue (id, tenant_id, destination_id, subscription_id, event_id, due_at, received_at, body_bytes, leased_until, lease_token)
		VALUES ($1, $2, $3, $4, $5, now(), now(), 31, now() + interval '1 minute', 1)`,
		id.String(), tenant, dest.String(), sub.String(), event.String())
	return delivery{hub.Delivery{
		ID: hub.DeliveryID{ID: id}, Event: hub.EventID{ID: event}, Tenant: hub.TenantID(tenant),
		Subscription: hub.SubscriptionID{ID: sub}, Destination: hub.DestinationID{ID: dest}, Run: 1,
	}}
}

// outcome is what an attempt with a status led to.
func (d delivery) outcome(status int32, state hub.State) hub.Outcome {
	o := hub.Outcome{
		Delivery: d.Delivery, Token: 1, EventType: "loan.approved", Source: "lender",
		Attempt: hub.Attempt{
			ID: hub.AttemptID{ID: newID()}, Number: d.Attempts + 1, Started: time.Now().Truncate(time.Microsecond),
			Timings: hub.Timings{Connect: 300, FirstByte: 900, Total: 1500},
			Answer:  hub.Answer{Status: status, Headers: []hub.Header{{Name: "Server", Value: "test"}}, Snippet: "thanks", RemoteIP: "192.0.2.1"},
		},
		Decision: hub.Decision{State: state, Counted: true, Reason: "because"},
	}
	if status >= 300 {
		o.Attempt.Failure = hub.Failure{Class: hub.ErrStatus, Phase: hub.PhaseAnswer, Detail: "the answer was not 2xx"}
	}
	if state == hub.Dead {
		o.Decision.DeadReason = hub.DeadExhausted
	}
	if state == hub.Waiting {
		o.Decision.NextAt = time.Now().Add(time.Hour).Truncate(time.Microsecond)
	}
	return o
}

func (w *world) record(outcomes ...hub.Outcome) {
	w.t.Helper()
	done, err := w.db.RecordOutcomes(w.t.Context(), newID(), outcomes)
	if err != nil || len(done) != len(outcomes) {
		w.t.Fatalf("recorded %d of %d outcomes: %v", len(done), len(outcomes), err)
	}
}

func gid(prefix string, id hub.ID) string {
	return prefix + strings.ReplaceAll(id.String(), "-", "")
}

// feedRow repeats the first outcome of the feed n times in a new row.
func (w *world) feedRow(n int) {
	w.t.Helper()
	w.exec(`INSERT INTO outcome_feed (id, items) SELECT $1, string_agg(first.items, '\x0a'::bytea)
		FROM (SELECT items FROM outcome_feed ORDER BY xid LIMIT 1) first, generate_series(1, $2)`, newID().String(), n)
	w.exec(`SELECT pg_notify('hub_outcomes', '')`)
}

// lockedBuffer takes the log of several goroutines.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
