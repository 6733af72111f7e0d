package pull

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/streaming-hub/streaming-hub/access"
	"github.com/streaming-hub/streaming-hub/db"
	"github.com/streaming-hub/streaming-hub/db/dbtest"
	"github.com/streaming-hub/streaming-hub/hub"
	"github.com/streaming-hub/streaming-hub/hub/hubtest"
)

// world is a database of one test with the pull API over it.
type world struct {
	*testing.T
	db      *db.DB // of readers
	inbox   *db.DB // of writers
	raw     *pgxpool.Pool
	tokens  *access.Tokens
	watcher *Watcher
	api     *API
	stop    context.CancelFunc // shutdown begins
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{T: t}
	dsn := dbtest.New(t)
	open := func(conns int32) *db.DB {
		d, err := db.Open(t.Context(), db.Config{DSN: dsn, MaxConns: conns, Hot: true})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(d.Close)
		return d
	}
	w.db, w.inbox = open(4), open(10)
	var err error
	if w.raw, err = pgxpool.New(t.Context(), dsn); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.raw.Close)
	w.tokens = access.NewTokens(w.db)
	log := slog.New(slog.DiscardHandler)
	w.watcher = NewWatcher(w.db, log)
	stopping, stop := context.WithCancel(t.Context())
	w.stop = stop
	w.api = New(Deps{
		Store: w.db, Subscriptions: w.db, Tokens: w.tokens, Watcher: w.watcher, Rate: 1_000_000, Burst: 1_000_000,
		Stopping: stopping, Now: time.Now, Metrics: NewMetrics(prometheus.NewRegistry()), Log: log,
	})
	return w
}

// watch runs the watcher until the test ends.
func (w *world) watch() {
	ctx, stop := context.WithCancel(w.Context())
	done := make(chan error, 1)
	go func() { done <- w.watcher.Run(ctx) }()
	w.Cleanup(func() { stop(); <-done })
}

func (w *world) token(tenant hub.TenantID) string {
	w.Helper()
	text, _, err := w.tokens.Create(w.Context(), access.NewToken{Tenant: tenant, Name: "test", Role: hub.Viewer})
	if err != nil {
		w.Fatal(err)
	}
	return text
}

// fact is an event without its place.
func fact(source, resource, event string, major int32, body string) hub.Event {
	return hub.Event{
		ID: hub.EventID{ID: hubtest.NewID()}, CEID: rand.Text(), Source: source,
		CEType:       "studio.lerian." + source + "." + resource + "." + event,
		ResourceType: resource, EventType: event, SchemaVersion: strconv.Itoa(int(major)), SchemaMajor: major,
		Time: "2026-01-02T03:04:05Z", Body: []byte(body),
	}
}

func loans(n int) []hub.Event {
	list := make([]hub.Event, n)
	for i := range list {
		list[i] = fact("lender", "loan", "approved", 1, fmt.Sprintf(`{"n":%d}`, i))
	}
	return list
}

// numbered gives events the next seqs of their tenant, as ingest plans it.
func numbered(s db.IngestState, tenant hub.TenantID, events []hub.Event) db.IngestWrites {
	next := s.Tenants[tenant].NextSeq
	for i := range events {
		events[i].Tenant, events[i].Seq = tenant, next
		events[i].Record.Offset = next
		next++
	}
	return db.IngestWrites{
		Record: hub.RecordPosition{Topic: "lerian.streaming.lender", Partition: 3}, ReceivedAt: time.Now(),
		NextSeqs: map[hub.TenantID]int64{tenant: next}, Events: events,
	}
}

func store(ctx context.Context, inbox Inbox, tenant hub.TenantID, events []hub.Event) error {
	return inbox.Ingest(ctx, db.IngestBatch{Tenants: []hub.TenantID{tenant}}, func(_ context.Context, s db.IngestState) (db.IngestWrites, error) {
		return numbered(s, tenant, events), nil
	})
}

func (w *world) store(tenant hub.TenantID, events ...hub.Event) []hub.Event {
	w.Helper()
	if err := store(w.Context(), w.inbox, tenant, events); err != nil {
		w.Fatal(err)
	}
	return events
}

func (w *world) exec(sql string, args ...any) {
	w.Helper()
	if _, err := w.raw.Exec(w.Context(), sql, args...); err != nil {
		w.Fatal(err)
	}
}

// got is an answer as a reader decodes it.
type got struct {
	status int
	header http.Header
	text   string

	Events []struct {
		ID, Seq, Source string
		TenantID        string          `json:"tenant_id"`
		EventType       string          `json:"event_type"`
		Payload         json.RawMessage `json:"payload"`
		PayloadBase64   *string         `json:"payload_base64"`
	}
	NextSeq string `json:"next_seq"`
	HasMore bool   `json:"has_more"`
	Error   struct {
		Code, Message, Parameter string
		OldestSeq                string `json:"oldest_seq"`
		ResumeAfterSeq           string `json:"resume_after_seq"`
		NewestSeq                string `json:"newest_seq"`
	}
}

// body is the payload's bytes, whichever form it came in.
func (g *got) body(i int) string {
	if e := &g.Events[i]; e.PayloadBase64 == nil {
		return string(e.Payload)
	} else if raw, err := base64.StdEncoding.DecodeString(*e.PayloadBase64); err == nil {
		return string(raw)
	}
	return "no base64"
}

func (g *got) seqs() (list []string) {
	for i := range g.Events {
		list = append(list, g.Events[i].Seq)
	}
	return list
}

// get asks the API and decodes its answer.
func get(ctx context.Context, t testing.TB, api http.Handler, token, query string) *got {
	t.Helper()
	r := httptest.NewRequestWithContext(ctx, http.MethodGet, "/v1/events?"+query, nil)
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	rec := httptest.NewRecorder()
	api.ServeHTTP(rec, r)
	g := &got{status: rec.Code, header: rec.Header(), text: rec.Body.String()}
	if err := json.Unmarshal(rec.Body.Bytes(), g); err != nil && ctx.Err() == nil {
		t.Errorf("the answer is no JSON: %v: %.200s", err, g.text)
	}
	return g
}

func (w *world) get(token, query string) *got {
	w.Helper()
	return get(w.Context(), w, w.api, token, query)
}

// page is get for an answer that must be a page.
func (w *world) page(token, query string) *got {
	w.Helper()
	g := w.get(token, query)
	if g.status != http.StatusOK {
		w.Fatalf("%s: status %d: %s", query, g.status, g.text)
	}
	return g
}

func query(pairs ...string) string {
	v := url.Values{}
	for i := 0; i < len(pairs); i += 2 {
		v.Add(pairs[i], pairs[i+1])
	}
	return v.Encode()
}
