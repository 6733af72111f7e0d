package sink

import (
	"crypto/tls"
	"crypto/x509"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/streaming-hub/streaming-hub/hub"
)

// every calls do at intervals, as long as it says that the hub is there.
func every(d time.Duration, do func() bool) {
	tick := time.NewTicker(d)
	defer tick.Stop()
	for do() {
		<-tick.C
	}
}

// crowd runs tests that mostly wait, many at a time whatever the number of
// processors.
type crowd struct {
	sync.WaitGroup
	t      *testing.T
	places chan struct{}
}

func newCrowd(t *testing.T) *crowd { return &crowd{t: t, places: make(chan struct{}, 12)} }

func (c *crowd) test(name string, do func(t *testing.T)) {
	c.places <- struct{}{}
	c.Go(func() {
		c.t.Run(name, do)
		<-c.places
	})
}

// drip sends a text byte by byte, and then its last byte for ever.
func (c *caller) drip(d time.Duration, text string) {
	n := 0
	every(d, func() bool { n++; return c.say(text[min(n, len(text))-1 : min(n, len(text))]) })
}

// flood sends a text for ever.
func (c *caller) flood(text string) {
	for c.say(text) {
	}
}

const head200 = "HTTP/1.1 200 OK\r\n"

// Whatever a receiver does, an attempt ends within its timeout and a second,
// was one request at most, and leaves neither goroutine nor connection behind.
func TestAttempt_hostile_receiver(t *testing.T) {
	const timeout = time.Second
	large := make([]byte, 1<<20)
	type row struct {
		name   string
		serve  func(c *caller)
		body   []byte           // of the request, a small one if nil
		class  []hub.ErrorClass // any of them; "" is a success
		status int32
	}
	rows := []row{
		{name: "status_line_a_byte_per_second", serve: func(c *caller) { c.read(); c.drip(time.Second, head200) }, class: []hub.ErrorClass{hub.ErrTimeout}},
		{name: "headers_a_byte_per_second", serve: func(c *caller) { c.read(); c.say(head200); c.drip(time.Second, "X-A: bbbb") }, class: []hub.ErrorClass{hub.ErrTimeout}},
		{name: "body_a_byte_per_second", serve: func(c *caller) { c.read(); c.say(head200 + "\r\n"); c.drip(time.Second, "x") }, class: []hub.ErrorClass{""}, status: 200},
		{name: "error_body_a_byte_per_second", serve: func(c *caller) { c.read(); c.say("HTTP/1.1 500 Oh\r\n\r\n"); c.drip(time.Second, "x") }, class: []hub.ErrorClass{hub.ErrStatus}, status: 500},
		{name: "chunk_sizes_a_byte_per_second", serve: func(c *caller) {
			c.read()
			c.say(head200 + "Transfer-Encoding: chunked\r\n\r\n")
			c.drip(time.Second, "0")
		}, class: []hub.ErrorClass{""}, status: 200},
		{name: "body_without_end", serve: func(c *caller) { c.read(); c.say(head200 + "\r\n"); c.flood(strings.Repeat("x", 32<<10)) }, class: []hub.ErrorClass{""}, status: 200},
		{name: "trailers_without_end", serve: func(c *caller) {
			c.read()
			c.say(head200 + "Transfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n")
			c.flood("X-A: " + strings.Repeat("b", 1000) + "\r\n")
		}, class: []hub.ErrorClass{""}, status: 200},
		{name: "chunk_extension_without_end", serve: func(c *caller) {
			c.read()
			c.say(head200 + "Transfer-Encoding: chunked\r\n\r\n1;")
			c.flood(strings.Repeat("x", 1000))
		}, class: []hub.ErrorClass{""}, status: 200},
		{name: "10_MB_of_headers", serve: func(c *caller) {
			c.read()
			c.say(head200)
			for n := 0; n < 10<<20 && c.say("X-A: "+strings.Repeat("b", 1000)+"\r\n"); n += 1000 {
			}
		}, class: []hub.ErrorClass{hub.ErrProtocol, hub.ErrReset}},
		{name: "one_header_of_10_MB", serve: func(c *caller) { c.read(); c.say(head200 + "X-A: "); c.say(strings.Repeat("b", 10<<20)) }, class: []hub.ErrorClass{hub.ErrProtocol, hub.ErrReset}},
		{name: "hints_without_end", serve: func(c *caller) { c.read(); c.flood("HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n") }, class: []hub.ErrorClass{hub.ErrProtocol, hub.ErrReset}},
		{name: "continue_without_end", serve: func(c *caller) { c.read(); c.flood("HTTP/1.1 100 Continue\r\n\r\n") }, class: []hub.ErrorClass{hub.ErrProtocol, hub.ErrReset}},
		{name: "processing_a_hint_per_second", serve: func(c *caller) {
			c.read()
			every(time.Second/4, func() bool { return c.say("HTTP/1.1 102 Processing\r\n\r\n") })
		}, class: []hub.ErrorClass{hub.ErrTimeout}},
		{name: "switching_protocols", serve: func(c *caller) {
			c.read()
			c.say("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n")
			c.drain()
		}, class: []hub.ErrorClass{hub.ErrProtocol}, status: 101},
		{name: "nothing", serve: func(c *caller) { c.drain() }, class: []hub.ErrorClass{hub.ErrTimeout}},
		{name: "large_body_never_read", body: large, serve: func(c *caller) { c.waitForSilence() }, class: []hub.ErrorClass{hub.ErrTimeout}},
		{name: "large_body_never_read_but_answered", body: large, serve: func(c *caller) { c.say(ok); c.waitForSilence() }, class: []hub.ErrorClass{""}, status: 200},
		{name: "large_body_refused_early", body: large, serve: func(c *caller) { c.say("HTTP/1.1 413 Large\r\nConnection: close\r\n\r\n"); c.drain() },
			class: []hub.ErrorClass{hub.ErrStatus}, status: 413},
		{name: "reset_at_once", serve: func(c *caller) { abort(c.Conn) }, class: []hub.ErrorClass{hub.ErrReset, hub.ErrConnect}},
		{name: "reset_in_the_request", body: large, serve: func(c *caller) { _, _ = c.Conn.Read(make([]byte, 100)); abort(c.Conn) }, class: []hub.ErrorClass{hub.ErrReset}},
		{name: "reset_before_the_answer", serve: func(c *caller) { c.read(); abort(c.Conn) }, class: []hub.ErrorClass{hub.ErrReset}},
		{name: "reset_in_the_status_line", serve: func(c *caller) { c.read(); c.say("HTTP/1.1 2"); c.pause(); abort(c.Conn) },
			class: []hub.ErrorClass{hub.ErrReset, hub.ErrProtocol}},
		{name: "reset_in_the_headers", serve: func(c *caller) { c.read(); c.say(head200 + "X-A: "); c.pause(); abort(c.Conn) }, class: []hub.ErrorClass{hub.ErrReset}},
		{name: "reset_in_the_body", serve: func(c *caller) { c.read(); c.say(head200 + "Content-Length: 10\r\n\r\nabc"); c.pause(); abort(c.Conn) },
			class: []hub.ErrorClass{""}, status: 200},
		{name: "two_answers_at_once", serve: func(c *caller) { c.read(); c.say(ok + ok); c.drain() }, class: []hub.ErrorClass{""}, status: 200},
		{name: "answer_before_the_request", serve: func(c *caller) { c.say(ok); c.drain() }, class: []hub.ErrorClass{"", hub.ErrReset}},
		{name: "HTTP_0_9", serve: func(c *caller) { c.read(); c.say("<html>hello</html>") }, class: []hub.ErrorClass{hub.ErrProtocol}},
		{name: "HTTP_2_in_the_clear", serve: func(c *caller) { c.read(); c.say("\x00\x00\x00\x04\x00\x00\x00\x00\x00"); c.drain() }, class: []hub.ErrorClass{hub.ErrProtocol, hub.ErrTimeout}},
		{name: "negative_length", serve: func(c *caller) { c.read(); c.say(head200 + "Content-Length: -1\r\n\r\n") }, class: []hub.ErrorClass{hub.ErrProtocol}},
		{name: "length_beyond_all_numbers", serve: func(c *caller) { c.read(); c.say(head200 + "Content-Length: 99999999999999999999\r\n\r\n") }, class: []hub.ErrorClass{hub.ErrProtocol}},
		{name: "bad_chunk", serve: func(c *caller) { c.read(); c.say(head200 + "Transfer-Encoding: chunked\r\n\r\nzz\r\n") }, class: []hub.ErrorClass{""}, status: 200},
		{name: "body_of_noise_and_headers_in_Latin_1", serve: func(c *caller) {
			c.read()
			c.say("HTTP/1.1 200 \xe9\x00\r\nX-A: \xe9\r\nContent-Length: 4\r\n\r\n\xe9\x00\xff\xfe")
		},
			class: []hub.ErrorClass{""}, status: 200},
	}
	ca := newAuthority(t)
	secure := &tls.Config{Certificates: []tls.Certificate{ca.issue(t, func(*x509.Certificate) {})}}
	run := newCrowd(t)
	for _, r := range rows {
		for _, scheme := range []string{"http", "https"} {
			run.test(r.name+"/"+scheme, func(t *testing.T) {
				p := newPeer(t, func(c *caller) {
					if scheme == "http" {
						r.serve(c)
					} else if inner := c.secured(secure); inner != nil {
						r.serve(inner)
						inner.Conn.Close()
					}
				})
				url := p.url()
				if scheme == "https" {
					url = p.secure()
				}
				job := jobTo(url, timeout)
				if r.body != nil {
					job.Event.Body = r.body
				}
				w := trusting(t, development, ca)
				a := attempt(t, w, job)
				if !slices.Contains(r.class, a.Failure.Class) || r.status != 0 && a.Answer.Status != r.status {
					t.Errorf("status %d, failure %+v, want one of %q with status %d", a.Answer.Status, a.Failure, r.class, r.status)
				}
				if _, n := p.counts(); n > 1 {
					t.Errorf("the receiver saw %d requests", n)
				}
				w.Close()
				close(p.released)
				p.wantEnded(t)
			})
		}
	}
	run.Wait()
}

// waitForSilence reads nothing until the attempt is over.
func (c *caller) waitForSilence() { <-c.peer.released }

// pause lets what was written arrive before what follows.
func (c *caller) pause() { <-time.After(20 * time.Millisecond) }

// secured speaks TLS on the connection; nil when the handshake fails.
func (c *caller) secured(config *tls.Config) *caller {
	conn := tls.Server(c.Conn, config)
	if conn.Handshake() != nil {
		return nil
	}
	return callerOn(conn, c.peer)
}
