package sink

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/streaming-hub/streaming-hub/hub"
	"github.com/streaming-hub/streaming-hub/hub/address"
	"github.com/streaming-hub/streaming-hub/hub/hubtest"
	"github.com/streaming-hub/streaming-hub/hub/secret"
	"github.com/streaming-hub/streaming-hub/hub/signing"
)

// An attempt leaves nothing behind, whatever the receiver did.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// seen is a request as it came over the wire.
type seen struct {
	*http.Request
	raw  string // its head, byte for byte
	body []byte
}

// peer is a receiver on a bare socket that says exactly what a test tells it
// to, and counts what comes.
type peer struct {
	addr string
	// ended gets a value when the hub has let go of a connection.
	ended chan struct{}
	// released is closed by a test for receivers that wait for it.
	released chan struct{}

	mu       sync.Mutex
	conns    int
	requests []seen
}

// caller is one connection of a peer.
type caller struct {
	net.Conn
	peer *peer
	tap  *bytes.Buffer
	in   *bufio.Reader
}

func callerOn(conn net.Conn, p *peer) *caller {
	tap := &bytes.Buffer{}
	return &caller{Conn: conn, peer: p, tap: tap, in: bufio.NewReader(io.TeeReader(conn, tap))}
}

// read takes the next request in whole; nil when there is none.
func (c *caller) read() *seen {
	c.tap.Reset()
	req, err := http.ReadRequest(c.in)
	if err != nil {
		return nil
	}
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return nil
	}
	head, _, _ := bytes.Cut(c.tap.Bytes(), []byte("\r\n\r\n"))
	s := seen{Request: req, raw: string(head) + "\r\n", body: body}
	c.peer.mu.Lock()
	defer c.peer.mu.Unlock()
	c.peer.requests = append(c.peer.requests, s)
	return &s
}

// say writes an answer; it reports whether the hub still listens.
func (c *caller) say(text string) bool {
	_, err := io.WriteString(c.Conn, text)
	return err == nil
}

// newPeer serves each connection with serve, and closes it when serve returns.
func newPeer(t *testing.T, serve func(c *caller)) *peer {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &peer{addr: listener.Addr().String(), ended: make(chan struct{}, 1000), released: make(chan struct{})}
	var open sync.Map
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			p.mu.Lock()
			p.conns++
			p.mu.Unlock()
			open.Store(conn, nil)
			serving.Go(func() {
				defer conn.Close()
				serve(callerOn(conn, p))
				p.ended <- struct{}{}
			})
		}
	})
	t.Cleanup(func() {
		listener.Close()
		open.Range(func(conn, _ any) bool { conn.(net.Conn).Close(); return true })
		serving.Wait()
	})
	return p
}

// answering is a peer that reads requests and gives each the same answer.
func answering(t *testing.T, answer string) *peer {
	return newPeer(t, func(c *caller) {
		for c.read() != nil && c.say(answer) {
		}
	})
}

func (p *peer) counts() (conns, requests int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.conns, len(p.requests)
}

func (p *peer) url() string { return "http://" + p.addr + "/hook?a=b" }

// wantRequests says when an attempt was more, or less, than one request.
func (p *peer) wantRequests(t *testing.T, want int) {
	t.Helper()
	if _, got := p.counts(); got != want {
		t.Errorf("the receiver saw %d requests, want %d", got, want)
	}
}

// wantEnded waits until the hub has let go of a connection.
func (p *peer) wantEnded(t *testing.T) {
	t.Helper()
	select {
	case <-p.ended:
	case <-time.After(5 * time.Second):
		t.Error("the connection is still open five seconds after the attempt")
	}
}

// smallReceiveBuffer keeps the kernel from taking much of an answer that the hub
// does not read.
func smallReceiveBuffer(_ context.Context, _, _ string, raw syscall.RawConn) error {
	var failed error
	err := raw.Control(func(fd uintptr) {
		failed = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 4<<10)
	})
	return errors.Join(err, failed)
}

// abort ends a connection by a reset.
func abort(conn net.Conn) {
	if secure, ok := conn.(*tls.Conn); ok {
		conn = secure.NetConn()
	}
	_ = conn.(*net.TCPConn).SetLinger(0)
	conn.Close()
}

// drain reads until the hub closes.
func (c *caller) drain() { _, _ = io.Copy(io.Discard, c.in) }

var development = address.Policy{AllowLoopback: true, AllowHTTP: true}

func newSink(t *testing.T, p address.Policy) *Webhook {
	w := NewWebhook(Config{Policy: p, UserAgent: UserAgent("1.2.3")})
	t.Cleanup(w.Close)
	return w
}

func newKey() secret.Secret {
	_, key := secret.NewSigning(rand.Reader)
	return key
}

func jobTo(url string, timeout time.Duration) Job {
	id := hubtest.NewID
	return Job{
		URL: url, Timeout: timeout, Number: 3, AttemptID: hub.AttemptID{ID: id()},
		Signer:   signing.NewSigner([]secret.Secret{newKey()}),
		Delivery: &hub.Delivery{ID: hub.DeliveryID{ID: id()}},
		Event: &hub.Event{
			ID: hub.EventID{ID: id()}, Tenant: "acme", Seq: 42, CEID: "loan 1", Source: "lender",
			CEType: "studio.lerian.lender.loan.approved", ResourceType: "loan", EventType: "approved",
			SchemaVersion: "1.0.0", SchemaMajor: 1, Time: "2026-01-02T03:04:05Z", Body: []byte(`{"b":2, "a":1.0}`),
		},
	}
}

// attempt makes one attempt and checks that it ends in time.
func attempt(t *testing.T, w *Webhook, job Job) hub.Attempt {
	t.Helper()
	begun := time.Now()
	a := w.Attempt(t.Context(), job)
	if took := time.Since(begun); took > job.Timeout+time.Second {
		t.Errorf("the attempt took %s with a timeout of %s", took, job.Timeout)
	}
	if a.ID != job.AttemptID || a.Number != job.Number || a.Started.Before(begun) || a.Timings.Total <= 0 {
		t.Errorf("attempt = %+v", a)
	}
	return a
}

func wantFailure(t *testing.T, a hub.Attempt, class hub.ErrorClass, phase hub.Phase) {
	t.Helper()
	if a.Failure.Class != class || phase != "" && a.Failure.Phase != phase {
		t.Errorf("failure = %+v, want %s in %s", a.Failure, class, phase)
	}
	if class != "" && a.Failure.Detail == "" {
		t.Error("the failure says nothing")
	}
}

// tlsPeer speaks TLS with a certificate and counts HTTP requests.
func tlsPeer(t *testing.T, config *tls.Config) *peer {
	return newPeer(t, func(c *caller) {
		if c = c.secured(config); c != nil {
			for c.read() != nil && c.say(ok) {
			}
		}
	})
}
