package sink

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/streaming-hub/streaming-hub/hub"
)

func TestHTTP1_head(t *testing.T) {
	p := answering(t, ok)
	job := jobTo(p.url(), 5*time.Second)
	job.Headers = []hub.Header{{Name: "x-Own", Value: " padded\t"}}
	wantFailure(t, attempt(t, newSink(t, development), job), "", "")
	head := p.requests[0].raw
	if !strings.HasPrefix(head, "POST /hook?a=b HTTP/1.1\r\nHost: "+p.addr+"\r\nContent-Length: 16\r\nContent-Type: application/json\r\n") {
		t.Errorf("the head begins otherwise:\n%s", head)
	}
	if !strings.Contains(head, "\r\nx-Own: padded\r\n") {
		t.Errorf("a custom header was changed:\n%s", head)
	}
}

// What is stored was judged when it was written. If it holds a line's end all
// the same, nothing is sent: not even a connection is spoilt by it.
func TestHTTP1_a_line_that_is_none_of_HTTP_is_not_sent(t *testing.T) {
	for name, spoil := range map[string]func(e *hub.Event){
		"line_feed":       func(e *hub.Event) { e.TraceParent = "00-1\nX-Forged: yes" },
		"carriage_return": func(e *hub.Event) { e.TraceParent = "00-1\rX-Forged: yes" },
		"nul":             func(e *hub.Event) { e.TraceParent = "00\x00" },
		"name":            func(e *hub.Event) { e.Extensions = []hub.Attribute{{Name: "a: b\r\nX-Forged", Value: "yes"}} },
	} {
		t.Run(name, func(t *testing.T) {
			p := answering(t, ok)
			job := jobTo(p.url(), 5*time.Second)
			spoil(job.Event)
			a := attempt(t, newSink(t, development), job)
			wantFailure(t, a, hub.ErrNoSecret, hub.PhasePrepare)
			p.wantRequests(t, 0)
			if strings.Contains(a.Failure.Detail, "yes") {
				t.Errorf("the failure repeats the value: %s", a.Failure.Detail)
			}
		})
	}
}

// A kept connection is looked at before a request goes out on it. Receivers
// close idle ones, some say why before they do, and what was not asked for is
// no answer to what is asked next.
func TestHTTP1_kept_connection_is_looked_at(t *testing.T) {
	for name, unasked := range map[string]string{
		"an_end":    "",
		"an_answer": "HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n",
		"nonsense":  "\x00",
	} {
		t.Run(name, func(t *testing.T) {
			spoken := make(chan struct{}, 2)
			p := newPeer(t, func(c *caller) {
				if c.read() == nil || !c.say(ok) {
					return
				}
				<-spoken // the answer was taken: what follows comes to an idle connection
				c.say(unasked)
				spoken <- struct{}{}
				if unasked != "" {
					c.drain()
				}
			})
			w := newSink(t, development)
			wantFailure(t, attempt(t, w, jobTo(p.url(), 5*time.Second)), "", "")
			spoken <- struct{}{}
			w.waitForEnd(t)
			<-spoken
			a := attempt(t, w, jobTo(p.url(), 5*time.Second))
			wantFailure(t, a, "", "")
			if conns, n := p.counts(); conns != 2 || n != 2 || a.Answer.Status != 200 {
				t.Errorf("%d connections, %d requests, status %d", conns, n, a.Answer.Status)
			}
			spoken <- struct{}{}
		})
	}
}

// A second answer that came with the first is not the next request's.
func TestHTTP1_two_answers_to_one_request(t *testing.T) {
	p := newPeer(t, func(c *caller) {
		for c.read() != nil && c.say(ok+"HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\n\r\n") {
		}
	})
	w := newSink(t, development)
	for range 3 {
		wantFailure(t, attempt(t, w, jobTo(p.url(), 5*time.Second)), "", "")
	}
	if conns, n := p.counts(); conns != 3 || n != 3 {
		t.Errorf("%d connections, %d requests, want one connection each", conns, n)
	}
}

// A receiver that answers without taking a large body is heard at once, and the
// connection, on which the rest of it would be read as a request, is closed.
func TestHTTP1_answer_before_the_body_was_taken(t *testing.T) {
	p := newPeer(t, func(c *caller) {
		c.say("HTTP/1.1 413 Content Too Large\r\nContent-Length: 0\r\n\r\n")
		<-c.peer.released
	})
	defer close(p.released)
	w := newSink(t, development)
	job := jobTo(p.url(), 5*time.Second)
	job.Event.Body = make([]byte, 16<<20) // more than any socket takes
	begun := time.Now()
	a := attempt(t, w, job)
	wantFailure(t, a, hub.ErrStatus, hub.PhaseAnswer)
	if took := time.Since(begun); a.Answer.Status != 413 || took > 2*time.Second {
		t.Errorf("status %d after %s", a.Answer.Status, took)
	}
	if n := w.pool.idleCount(); n != 0 {
		t.Errorf("%d connections are kept", n)
	}
}

// The hub's stop and the attempt's timeout interrupt a write and a read alike.
func TestHTTP1_ends_with_its_context(t *testing.T) {
	for name, size := range map[string]int{"read": 1, "write": 16 << 20} {
		t.Run(name, func(t *testing.T) {
			taken := make(chan struct{})
			p := newPeer(t, func(c *caller) {
				_, _ = c.Conn.Read(make([]byte, 1))
				close(taken)
				<-c.peer.released
			})
			defer close(p.released)
			ctx, cancel := context.WithCancel(t.Context())
			job := jobTo(p.url(), time.Minute)
			job.Event.Body = make([]byte, size)
			go func() {
				<-taken
				cancel()
			}()
			w := newSink(t, development)
			a := w.Attempt(ctx, job)
			wantFailure(t, a, hub.ErrCancelled, "")
			if n := w.pool.idleCount(); n != 0 {
				t.Errorf("%d connections are kept", n)
			}
		})
	}
}

// The deadline of one attempt is none for the next on the same connection.
func TestHTTP1_kept_connection_has_no_old_deadline(t *testing.T) {
	slow := make(chan struct{})
	p := newPeer(t, func(c *caller) {
		for n := 0; c.read() != nil; n++ {
			if n == 1 {
				<-slow
			}
			c.say(ok)
		}
	})
	w := newSink(t, development)
	wantFailure(t, attempt(t, w, jobTo(p.url(), 50*time.Millisecond)), "", "")
	time.AfterFunc(200*time.Millisecond, func() { close(slow) })
	wantFailure(t, attempt(t, w, jobTo(p.url(), 5*time.Second)), "", "")
	if conns, _ := p.counts(); conns != 1 {
		t.Errorf("%d connections, want 1", conns)
	}
}

// The limit of an answer's head is none of its body.
func TestHTTP1_long_answer_read_to_its_end_keeps_the_connection(t *testing.T) {
	p := answering(t, head200+"Content-Length: 60000\r\n\r\n"+strings.Repeat("x", 60_000))
	w := newSink(t, development)
	for range 3 {
		wantFailure(t, attempt(t, w, jobTo(p.url(), 5*time.Second)), "", "")
	}
	if conns, _ := p.counts(); conns != 1 {
		t.Errorf("%d connections, want 1", conns)
	}
}

func TestHeadLimit(t *testing.T) {
	near, far := net.Pipe()
	defer near.Close()
	defer far.Close()
	go func() { _, _ = far.Write([]byte("0123456789")) }()
	l := headLimit{from: near, left: 4}
	buffer := make([]byte, 10)
	if n, err := l.Read(buffer); n != 4 || err != nil {
		t.Errorf("read %d, %v", n, err)
	}
	if n, err := l.Read(buffer); n != 0 || !errors.Is(err, errHeadTooLarge) {
		t.Errorf("read %d, %v behind the limit", n, err)
	}
	l.left = noLimit
	if n, err := l.Read(buffer); n != 6 || err != nil {
		t.Errorf("read %d, %v without a limit", n, err)
	}
}
