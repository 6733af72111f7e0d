package sink

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"github.com/streaming-hub/streaming-hub/hub"
)

// tempting is a job with all that would make net/http's own transports send a
// request a second time.
func tempting(url string, body []byte) Job {
	job := jobTo(url, 5*time.Second)
	job.Event.Body = body
	job.Event.Extensions = []hub.Attribute{{Name: "idempotency-key", Value: "x"}}
	job.Headers = []hub.Header{{Name: "Idempotency-Key", Value: "x"}, {Name: "X-Idempotency-Key", Value: "y"}}
	return job
}

var bodies = map[string][]byte{"body": []byte(`{"b":2}`), "empty": nil, "large": make([]byte, 60<<10)}

// An attempt is one request at the receiver, whatever the connection does. The
// receiver counts.
func TestAttempt_is_one_request(t *testing.T) {
	t.Run("on_a_kept_connection_that_the_receiver_closes_instead_of_answering", func(t *testing.T) {
		for name, body := range bodies {
			t.Run(name, func(t *testing.T) {
				p := newPeer(t, func(c *caller) {
					if c.read() != nil && c.say(ok) {
						c.read() // read in whole, never answered
					}
				})
				w := newSink(t, development)
				for n := 1; n <= 6; n++ {
					a := attempt(t, w, tempting(p.url(), body))
					if n%2 == 0 {
						wantFailure(t, a, hub.ErrReset, hub.PhaseAnswer)
					} else {
						wantFailure(t, a, "", "")
					}
					p.wantRequests(t, n)
					got := p.requests[n-1]
					if got.Header.Get("Idempotency-Key") != "x" || string(got.body) != string(body) {
						t.Errorf("Idempotency-Key %q, body of %d bytes", got.Header.Get("Idempotency-Key"), len(got.body))
					}
				}
			})
		}
	})
	t.Run("on_a_connection_that_closes_when_idle", func(t *testing.T) {
		p := newPeer(t, func(c *caller) {
			if c.read() != nil {
				c.say(ok)
			}
		})
		w := newSink(t, development)
		failed := 0
		const attempts = 100
		for range attempts {
			if a := attempt(t, w, tempting(p.url(), []byte("x"))); a.Failure.Failed() {
				wantFailure(t, a, hub.ErrReset, "")
				failed++
			}
		}
		if _, got := p.counts(); got > attempts || got < attempts-failed {
			t.Errorf("%d attempts, %d of them failed, were %d requests", attempts, failed, got)
		}
	})
	t.Run("and_a_connection_known_to_be_closed_is_not_used", func(t *testing.T) {
		p := newPeer(t, func(c *caller) {
			if c.read() != nil {
				c.say(ok)
			}
		})
		w := newSink(t, development)
		for n := 1; n <= 20; n++ {
			wantFailure(t, attempt(t, w, tempting(p.url(), []byte("x"))), "", "")
			p.wantRequests(t, n)
			w.waitForEnd(t)
		}
	})
}

// waitForEnd waits until the sink knows that all its kept connections are
// closed.
func (w *Webhook) waitForEnd(t *testing.T) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for begun := time.Now(); ; <-tick.C {
		open := 0
		w.pool.mu.Lock()
		for _, list := range w.pool.idle {
			for _, c := range list {
				if !c.ended() {
					open++
				}
			}
		}
		w.pool.mu.Unlock()
		if open == 0 {
			return
		}
		if time.Since(begun) > 5*time.Second {
			t.Fatal("a connection that the receiver closed still counts as open")
		}
	}
}

const maxStream = 1<<31 - 1

// On HTTP/2 a receiver can say that it did not process a request, and clients
// commonly send it again by themselves. Here that is the retry policy's to do.
func TestAttempt_is_one_request_over_HTTP_2(t *testing.T) {
	ca := newAuthority(t)
	for _, row := range []struct {
		name string
		// spoil does what the case is about with a request that was read.
		spoil func(c *h2caller, r *h2request)
		class hub.ErrorClass // "" when the attempt is a success
	}{
		{"GOAWAY_below_the_stream", func(c *h2caller, r *h2request) { _ = c.WriteGoAway(r.stream-1, http2.ErrCodeNo, nil); c.drain() }, hub.ErrReset},
		{"GOAWAY_below_the_stream_and_closed", func(c *h2caller, r *h2request) { _ = c.WriteGoAway(r.stream-1, http2.ErrCodeNo, nil) }, hub.ErrReset},
		{"GOAWAY_below_the_stream_for_an_error", func(c *h2caller, r *h2request) {
			_ = c.WriteGoAway(r.stream-1, http2.ErrCodeEnhanceYourCalm, []byte("too_many"))
			c.drain()
		}, hub.ErrReset},
		{"GOAWAY_0", func(c *h2caller, _ *h2request) { _ = c.WriteGoAway(0, http2.ErrCodeInternal, nil) }, hub.ErrReset},
		{"GOAWAY_at_the_stream_and_closed", func(c *h2caller, r *h2request) { _ = c.WriteGoAway(r.stream, http2.ErrCodeNo, nil) }, hub.ErrReset},
		{"GOAWAY_at_the_stream_and_answered", func(c *h2caller, r *h2request) {
			_ = c.WriteGoAway(r.stream, http2.ErrCodeNo, nil)
			c.answer(r.stream, "200", "ok")
			c.drain()
		}, ""},
		{"GOAWAY_graceful_and_answered", func(c *h2caller, r *h2request) {
			_ = c.WriteGoAway(maxStream, http2.ErrCodeNo, nil)
			c.answer(r.stream, "200", "ok")
			_ = c.WriteGoAway(r.stream, http2.ErrCodeNo, nil)
			c.drain()
		}, ""},
		{"GOAWAY_twice_the_second_below", func(c *h2caller, r *h2request) {
			_ = c.WriteGoAway(maxStream, http2.ErrCodeNo, nil)
			_ = c.WriteGoAway(r.stream-1, http2.ErrCodeNo, nil)
			c.drain()
		}, hub.ErrReset},
		{"REFUSED_STREAM", func(c *h2caller, r *h2request) { _ = c.WriteRSTStream(r.stream, http2.ErrCodeRefusedStream); c.drain() }, hub.ErrReset},
		{"REFUSED_STREAM_and_closed", func(c *h2caller, r *h2request) { _ = c.WriteRSTStream(r.stream, http2.ErrCodeRefusedStream) }, hub.ErrReset},
		{"PROTOCOL_ERROR", func(c *h2caller, r *h2request) { _ = c.WriteRSTStream(r.stream, http2.ErrCodeProtocol); c.drain() }, hub.ErrProtocol},
		{"INTERNAL_ERROR", func(c *h2caller, r *h2request) { _ = c.WriteRSTStream(r.stream, http2.ErrCodeInternal); c.drain() }, hub.ErrReset},
		{"CANCEL", func(c *h2caller, r *h2request) { _ = c.WriteRSTStream(r.stream, http2.ErrCodeCancel); c.drain() }, hub.ErrReset},
		{"NO_ERROR_before_an_answer", func(c *h2caller, r *h2request) { _ = c.WriteRSTStream(r.stream, http2.ErrCodeNo); c.drain() }, hub.ErrReset},
		{"HTTP_1_1_REQUIRED", func(c *h2caller, r *h2request) {
			_ = c.WriteRSTStream(r.stream, http2.ErrCodeHTTP11Required)
			c.drain()
		}, hub.ErrReset},
		{"closed", func(*h2caller, *h2request) {}, hub.ErrReset},
		{"reset", func(c *h2caller, _ *h2request) { abort(c.conn.NetConn()) }, hub.ErrReset},
	} {
		for kept := range 2 {
			for name, body := range bodies {
				t.Run(fmt.Sprintf("%s/%s/after_%d", row.name, name, kept), func(t *testing.T) {
					p := newH2Peer(t, ca, func(c *h2caller) {
						for n := 0; ; n++ {
							r := c.read()
							if r == nil {
								return
							}
							if n == kept {
								row.spoil(c, r)
								return
							}
							c.answer(r.stream, "200", "ok")
						}
					})
					w := trusting(t, development, ca)
					hits := 0
					for range 2 {
						for range kept {
							wantFailure(t, attempt(t, w, tempting(p.secure(), body)), "", "")
							hits++
							p.wantRequests(t, hits)
						}
						a := attempt(t, w, tempting(p.secure(), body))
						hits++
						wantFailure(t, a, row.class, "")
						if row.class != "" && (a.Answer.Status != 0 || a.Answer.RemoteIP != "127.0.0.1" || a.Answer.TLSVersion != "TLS 1.3") {
							t.Errorf("answer = %+v", a.Answer)
						}
						p.wantRequests(t, hits)
						if got := p.requests[hits-1]; string(got.body) != string(body) || got.Header.Get("idempotency-key") != "x" {
							t.Errorf("request %d has a body of %d bytes, headers %v", hits, len(got.body), got.Header)
						}
					}
					if conns, _ := p.counts(); conns != 2 {
						t.Errorf("%d connections, want one for each time it was spoilt", conns)
					}
				})
			}
		}
	}
	t.Run("GOAWAY_while_idle_leads_to_a_fresh_connection", func(t *testing.T) {
		p := newH2Peer(t, ca, func(c *h2caller) {
			if r := c.read(); r != nil {
				c.answer(r.stream, "200", "ok")
				_ = c.WriteGoAway(r.stream, http2.ErrCodeNo, nil)
				c.drain()
			}
		})
		w := trusting(t, development, ca)
		for n := 1; n <= 10; n++ {
			wantFailure(t, attempt(t, w, tempting(p.secure(), []byte("x"))), "", "")
			p.wantRequests(t, n)
			w.waitForEnd(t)
		}
	})
	t.Run("closing_just_as_it_is_reused", func(t *testing.T) {
		p := newH2Peer(t, ca, func(c *h2caller) {
			if r := c.read(); r != nil {
				c.answer(r.stream, "200", "ok")
			}
		})
		w := trusting(t, development, ca)
		failed := 0
		const attempts = 50
		for range attempts {
			if a := attempt(t, w, tempting(p.secure(), []byte("x"))); a.Failure.Failed() {
				wantFailure(t, a, hub.ErrReset, "")
				failed++
			}
		}
		if _, got := p.counts(); got > attempts || got < attempts-failed {
			t.Errorf("%d attempts, %d of them failed, were %d requests", attempts, failed, got)
		}
	})
}

// The two protocols carry the same request and the same answer.
func TestAttempt_over_HTTP_2(t *testing.T) {
	ca := newAuthority(t)
	p := newH2Peer(t, ca, func(c *h2caller) {
		for r := c.read(); r != nil; r = c.read() {
			_ = c.headers(r.stream, false, ":status:201", "x-b: 2", "x-a: 1", "retry-after: 7")
			_ = c.WriteData(r.stream, true, []byte("thanks"))
		}
	})
	w := trusting(t, development, ca)
	job := jobTo(p.secure(), 5*time.Second)
	job.Headers = []hub.Header{{Name: "X-Team", Value: "blue"}}
	first, second := attempt(t, w, job), attempt(t, w, job)
	for n, a := range []hub.Attempt{first, second} {
		wantFailure(t, a, "", "")
		got := p.requests[n]
		for name, want := range map[string]string{
			":method": "POST", ":path": "/hook?a=b", ":scheme": "https", ":authority": strings.Replace(p.addr, "127.0.0.1", "localhost", 1),
			"content-type": "application/json", "content-length": "16", "user-agent": "streaming-hub/1.2.3", "x-team": "blue",
			"x-lerian-delivery-id": job.AttemptID.String(), "webhook-id": job.Delivery.ID.String(), "ce-id": "loan%201",
		} {
			if values := got.Header.Values(name); len(values) == 0 {
				values = got.Header[name]
				if len(values) != 1 || values[0] != want {
					t.Errorf("%s: %q, want %q", name, values, want)
				}
			} else if len(values) != 1 || values[0] != want {
				t.Errorf("%s: %q, want %q", name, values, want)
			}
		}
		if got.Header.Get("accept-encoding") != "" || got.Header.Get("webhook-signature") == "" || string(got.body) != string(job.Event.Body) {
			t.Errorf("headers %v, body %q", got.Header, got.body)
		}
		if a.Answer.Status != 201 || a.Answer.Snippet != "thanks" || a.Answer.Truncated || a.Answer.RetryAfter != "7" ||
			a.Answer.RemoteIP != "127.0.0.1" || a.Answer.TLSVersion != "TLS 1.3" || len(a.Answer.Headers) != 3 || a.Answer.Headers[1].Name != "X-A" {
			t.Errorf("answer = %+v", a.Answer)
		}
	}
	if got := first.Timings; got.Connect == 0 || got.TLS == 0 || got.FirstByte < got.TLS || got.Total < got.FirstByte {
		t.Errorf("timings of the first = %+v", got)
	}
	if got := second.Timings; got.DNS != 0 || got.Connect != 0 || got.TLS != 0 || got.FirstByte == 0 || got.Total < got.FirstByte {
		t.Errorf("timings of the second = %+v, want it on the connection of the first", got)
	}
	if conns, _ := p.counts(); conns != 1 {
		t.Errorf("%d connections", conns)
	}
	t.Run("no_body_either_way_keeps_the_connection", func(t *testing.T) {
		for _, body := range bodies {
			p := newH2Peer(t, ca, func(c *h2caller) {
				for r := c.read(); r != nil; r = c.read() {
					c.answer(r.stream, "204", "")
				}
			})
			for range 50 {
				job := jobTo(p.secure(), 5*time.Second)
				job.Event.Body = body
				wantFailure(t, attempt(t, w, job), "", "")
			}
			if conns, n := p.counts(); conns != 1 || n != 50 {
				t.Errorf("%d connections for %d requests", conns, n)
			}
		}
	})
}
