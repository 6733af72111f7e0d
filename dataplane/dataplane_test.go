package dataplane

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/goleak"

	"github.com/streaming-hub/streaming-hub/hub/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestAnswerReady(t *testing.T) {
	for _, row := range []struct {
		name    string
		problem error
		status  int
		body    string
	}{
		{"ready", nil, 200, "ready\n"},
		{"each_problem_on_a_line", errors.Join(errors.New("one"), nil, errors.New("two")), 503, "not ready: one\nnot ready: two\n"},
	} {
		t.Run(row.name, func(t *testing.T) {
			w := httptest.NewRecorder()
			answerReady(w, row.problem)
			if w.Code != row.status || w.Body.String() != row.body {
				t.Errorf("%d %q, want %d %q", w.Code, w.Body, row.status, row.body)
			}
		})
	}
}

func TestLeaseToken_is_never_zero_and_exact_as_a_double(t *testing.T) {
	seen := map[int64]bool{}
	for range 10_000 {
		token := leaseToken()
		if token < 1 || token > 1<<53 || int64(float64(token)) != token || seen[token] {
			t.Fatalf("token %d", token)
		}
		seen[token] = true
	}
}

// A plane whose servers are away lives, says what it waits for, and ends when
// it is told to.
func TestRun_waits_for_its_servers_and_stops(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	done := make(chan error, 1)
	go func() {
		done <- Run(ctx, Config{
			Version: "test", Listener: listener, DSN: "postgres://hub@127.0.0.1:1/hub?sslmode=disable", Ingest: true, Deliver: true,
			Kafka: []kgo.Opt{kgo.SeedBrokers("127.0.0.1:1")}, Group: "hub", Rules: wire.DefaultRules(),
			ShutdownTimeout: time.Second, Log: slog.New(slog.DiscardHandler),
		})
	}()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	get := func(path string) (int, string) {
		t.Helper()
		res, err := client.Get("http://" + listener.Addr().String() + path)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		body, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		return res.StatusCode, string(body)
	}
	if status, body := get("/healthz"); status != 200 || body != "ok\n" {
		t.Errorf("/healthz = %d %q", status, body)
	}
	for begun := time.Now(); ; { // until it has looked for the database
		status, body := get("/readyz")
		if status != 503 || time.Since(begun) > 20*time.Second {
			t.Fatalf("/readyz = %d %q", status, body)
		}
		if strings.Contains(body, "not ready: ") && strings.Contains(body, "schema version") {
			break
		}
	}
	if status, body := get("/metrics"); status != 200 || !strings.Contains(body, "streaming_hub_oldest_due_seconds") {
		t.Errorf("/metrics = %d", status)
	}
	if status, _ := get("/debug/pprof/"); status != 404 {
		t.Errorf("profiles are served unasked: %d", status)
	}
	stop()
	select {
	case err := <-done:
		if err != nil {
			t.Errorf("Run = %v", err)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("Run does not end")
	}
}

func TestRetention_keeps_the_horizon(t *testing.T) {
	kept := map[string]time.Duration{}
	for _, r := range retention(Config{DLQRetention: 168 * time.Hour}) {
		kept[r.Table] = r.Keep
	}
	// Not in the list, because what waits in them must end first.
	for _, table := range []string{"events", "deliveries", "attempts", "delivery_results", "audit_log"} {
		if _, dropped := kept[table]; dropped {
			t.Errorf("%s is dropped", table)
		}
	}
	if kept["event_keys"] < 30*24*time.Hour {
		t.Errorf("dedup keys are kept for %s, the horizon is 30 days", kept["event_keys"])
	}
	if kept["dlq_observations"] != 168*time.Hour {
		t.Errorf("dead-letter observations are kept for %s", kept["dlq_observations"])
	}
}
