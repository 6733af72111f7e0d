package graph_test

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/streaming-hub/streaming-hub/db/dbtest"
	"github.com/streaming-hub/streaming-hub/hub"
)

// statements counts what is executed through a DSN of its own: it stands
// between and reads the client's messages.
type statements struct {
	n   atomic.Int64
	dsn string
	// cut ends all connections and lets no new one in.
	cut func()
}

func countStatements(t *testing.T, dsn string) *statements {
	t.Helper()
	config, err := pgconn.ParseConfig(dsn)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &statements{}
	var mu sync.Mutex
	var open []net.Conn
	s.cut = func() {
		listener.Close()
		mu.Lock()
		defer mu.Unlock()
		for _, c := range open {
			c.Close()
		}
	}
	s.dsn = fmt.Sprintf("host=127.0.0.1 port=%d user=%s password='%s' dbname=%s sslmode=disable",
		listener.Addr().(*net.TCPAddr).Port, config.User, config.Password, config.Database)
	network, address := pgconn.NetworkAddress(config.Host, config.Port)
	var running sync.WaitGroup
	running.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial(network, address)
			if err != nil {
				client.Close()
				continue
			}
			mu.Lock()
			open = append(open, client)
			mu.Unlock()
			running.Go(func() {
				_, _ = io.Copy(client, server)
				client.Close()
			})
			running.Go(func() {
				s.forward(server, client)
				server.Close()
			})
		}
	})
	t.Cleanup(func() { listener.Close(); running.Wait() })
	return s
}

// forward copies the client's messages: the first one has no type.
func (s *statements) forward(to io.Writer, from io.Reader) {
	for first := true; ; first = false {
		head := make([]byte, 5)
		if first {
			head = head[:4]
		}
		if _, err := io.ReadFull(from, head); err != nil {
			return
		}
		body := make([]byte, binary.BigEndian.Uint32(head[len(head)-4:])-4)
		if _, err := io.ReadFull(from, body); err != nil {
			return
		}
		if head[0] == 'E' { // Execute
			s.n.Add(1)
		}
		if _, err := to.Write(append(head, body...)); err != nil {
			return
		}
	}
}

// A page of deliveries with everything that explains them takes about as many
// statements as a page with one.
func TestDeliveries_no_statement_is_made_for_each_delivery_of_a_page(t *testing.T) {
	counted := countStatements(t, dbtest.New(t))
	w := newWorldOn(t, counted.dsn)
	token := w.token("acme", hub.Viewer)
	const query = `query ($n: Int!) { deliveries(first: $n) { nodes { state explanation lastError fingerprint destination { circuitBreaker { phase } health { state } }
		eventSubscription { failureSpan { spread } health { state } } attempts { requestHeaders { name } } } } }`
	const all = 100
	for range all { // each to a destination of its own
		sub, dest := w.subscriptionOf("acme")
		w.breaker("acme", dest, "OPEN")
		w.span("acme", sub, dest, "2 hours", "1 hour", 0)
		w.record(w.deliver("acme", sub, dest).outcome(500, hub.Waiting))
	}
	page := func(n int) int64 {
		w.must(token, query, map[string]any{"n": n}) // prepares the statements
		before := counted.n.Load()
		a := w.must(token, query, map[string]any{"n": n})
		if got := len(a.at("deliveries", "nodes").([]any)); got != n {
			t.Fatalf("%d deliveries, want %d", got, n)
		}
		return counted.n.Load() - before
	}
	one, hundred := page(1), page(all)
	t.Logf("a page of 1 takes %d statements, one of %d takes %d", one, all, hundred)
	// Batches close after a millisecond, so a busy machine splits some. A look-up
	// for each delivery would be two statements more for each: the other one
	// names the tenant.
	if one == 0 || hundred > one+3*all/2 {
		t.Errorf("a page of 1 takes %d statements, one of %d takes %d", one, all, hundred)
	}
}
