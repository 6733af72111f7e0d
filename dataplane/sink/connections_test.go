package sink

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"github.com/streaming-hub/streaming-hub/hub"
)

// One receiver's stall holds up the attempt that it belongs to, not the next
// one to the same place.
func TestAttempt_stalled_stream_hurts_no_other(t *testing.T) {
	ca := newAuthority(t)
	stalled := make(chan struct{})
	p := newH2Peer(t, ca, func(c *h2caller) {
		for r := c.head(); r != nil; r = c.head() {
			if r.header[":path"][0] == "/slow" {
				close(stalled)
				c.drain() // no window, no answer
				return
			}
			for r.body == nil {
				frame, err := c.ReadFrame()
				if err != nil {
					return
				}
				if data, isData := frame.(*http2.DataFrame); isData && data.StreamEnded() {
					r.body = data.Data()
				}
				c.heed(frame)
			}
			c.answer(r.stream, "200", "ok")
		}
	})
	w := trusting(t, development, ca)
	slow := jobTo(strings.Replace(p.secure(), "/hook?a=b", "/slow", 1), 10*time.Second)
	slow.Event.Body = make([]byte, 1<<20)
	done := make(chan hub.Attempt, 1)
	ctx, stop := context.WithCancel(t.Context())
	go func() { done <- w.Attempt(ctx, slow) }()
	<-stalled
	for range 20 {
		wantFailure(t, attempt(t, w, jobTo(p.secure(), time.Second)), "", "")
	}
	if conns, _ := p.counts(); conns != 2 {
		t.Errorf("%d connections, want one for the stalled attempt and one for all others", conns)
	}
	stop()
	wantFailure(t, <-done, hub.ErrCancelled, "")
}

func TestAttempt_connections(t *testing.T) {
	ca := newAuthority(t)
	pair := ca.issue(t, func(*x509.Certificate) {})
	answer := head200 + "Content-Length: 2048\r\n\r\n" + strings.Repeat("x", 2048)
	t.Run("are_few_over_TLS", func(t *testing.T) {
		p := newPeer(t, func(c *caller) {
			if c = c.secured(&tls.Config{Certificates: []tls.Certificate{pair}}); c != nil {
				for c.read() != nil && c.say(answer) {
				}
			}
		})
		w := trusting(t, development, ca)
		for range 1000 {
			wantFailure(t, attempt(t, w, jobTo(p.secure(), 5*time.Second)), "", "")
		}
		if conns, n := p.counts(); conns != 1 || n != 1000 {
			t.Errorf("%d connections for %d requests", conns, n)
		}
	})
	t.Run("are_few_over_HTTP_2", func(t *testing.T) {
		p := newH2Peer(t, ca, func(c *h2caller) {
			for r := c.read(); r != nil && c.answer(r.stream, "200", strings.Repeat("x", 2048)); r = c.read() {
			}
		})
		w := trusting(t, development, ca)
		for range 1000 {
			wantFailure(t, attempt(t, w, jobTo(p.secure(), 5*time.Second)), "", "")
		}
		if conns, n := p.counts(); conns != 1 || n != 1000 {
			t.Errorf("%d connections for %d requests", conns, n)
		}
	})
	t.Run("are_as_many_as_attempts_at_a_time", func(t *testing.T) {
		p := answering(t, answer)
		w := newSink(t, development)
		const together = 4
		done := make(chan struct{})
		for range together {
			go func() {
				defer func() { done <- struct{}{} }()
				for range 50 {
					wantFailure(t, attempt(t, w, jobTo(p.url(), 5*time.Second)), "", "")
				}
			}()
		}
		for range together {
			<-done
		}
		if conns, n := p.counts(); conns > together || n != together*50 {
			t.Errorf("%d connections for %d requests, %d at a time", conns, n, together)
		}
	})
	t.Run("large_error_body_is_not_drained", func(t *testing.T) {
		written := make(chan int, 1)
		p := newPeer(t, func(c *caller) {
			c.read()
			c.say("HTTP/1.1 500 Oh\r\nContent-Length: 5242880\r\n\r\n")
			_ = c.Conn.(*net.TCPConn).SetWriteBuffer(4 << 10)
			n := 0
			for n < 5<<20 && c.say(strings.Repeat("x", 4<<10)) {
				n += 4 << 10
			}
			written <- n
		})
		w := newSink(t, development)
		w.guard.dialer.ControlContext = smallReceiveBuffer
		a := attempt(t, w, jobTo(p.url(), 5*time.Second))
		wantFailure(t, a, hub.ErrStatus, hub.PhaseAnswer)
		if len(a.Answer.Snippet) != maxSnippet || !a.Answer.Truncated {
			t.Errorf("kept %d bytes", len(a.Answer.Snippet))
		}
		if n := <-written; n >= 1<<20 {
			t.Errorf("%d bytes of the body were taken", n)
		}
	})
}
