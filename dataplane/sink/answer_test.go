package sink

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/streaming-hub/streaming-hub/hub"
)

// short is a timeout that tests wait for.
const short = 300 * time.Millisecond

// contextEndingOn ends once the peer has read a request.
func contextEndingOn(t *testing.T, p *peer) (context.Context, func()) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for range tick.C {
			if _, n := p.counts(); n > 0 {
				cancel()
				return
			}
		}
	}()
	return ctx, func() { <-done }
}

func TestAttempt_body_changes_nothing(t *testing.T) {
	chunk := fmt.Sprintf("%x\r\n%s\r\n", 8192, strings.Repeat("x", 8192))
	for name, serve := range map[string]func(c *caller, status string){
		"endless_chunks": func(c *caller, status string) {
			c.say("HTTP/1.1 " + status + "\r\nTransfer-Encoding: chunked\r\n\r\n")
			for c.say(chunk) {
			}
		},
		"ten_gigabytes": func(c *caller, status string) {
			c.say("HTTP/1.1 " + status + "\r\nContent-Length: 10000000000\r\n\r\n")
			for c.say(chunk) {
			}
		},
		"endless_until_closed": func(c *caller, status string) {
			c.say("HTTP/1.1 " + status + "\r\n\r\n")
			for c.say(chunk) {
			}
		},
	} {
		for _, status := range []string{"200 OK", "500 Oh"} {
			t.Run(name+"/"+status[:3], func(t *testing.T) {
				t.Parallel()
				p := newPeer(t, func(c *caller) {
					if c.read() != nil {
						serve(c, status)
					}
				})
				begun := time.Now()
				a := attempt(t, newSink(t, development), jobTo(p.url(), 20*time.Second))
				if status == "200 OK" {
					wantFailure(t, a, "", "")
				} else {
					wantFailure(t, a, hub.ErrStatus, hub.PhaseAnswer)
				}
				if len(a.Answer.Snippet) != maxSnippet || !a.Answer.Truncated {
					t.Errorf("kept %d bytes, truncated %t", len(a.Answer.Snippet), a.Answer.Truncated)
				}
				if took := time.Since(begun); took > 10*time.Second {
					t.Errorf("the attempt took %s", took)
				}
				p.wantEnded(t) // dropped, not read on
				p.wantRequests(t, 1)
			})
		}
	}
	for _, status := range []string{"200 OK", "500 Oh"} {
		t.Run("slow_drip/"+status[:3], func(t *testing.T) {
			t.Parallel()
			p := newPeer(t, func(c *caller) {
				c.read()
				c.say("HTTP/1.1 " + status + "\r\nContent-Length: 1000\r\n\r\n")
				c.drip(20*time.Millisecond, "x")
			})
			begun := time.Now()
			a := attempt(t, newSink(t, development), jobTo(p.url(), short))
			if took := time.Since(begun); took < short {
				t.Errorf("it ended after %s, before the body's time was up", took)
			}
			if status == "200 OK" {
				wantFailure(t, a, "", "")
			} else {
				wantFailure(t, a, hub.ErrStatus, hub.PhaseAnswer)
			}
			if !strings.HasPrefix(a.Answer.Snippet, "x") || !a.Answer.Truncated {
				t.Errorf("answer = %+v", a.Answer)
			}
			p.wantEnded(t)
		})
	}
	t.Run("gzip_stays_as_it_came", func(t *testing.T) {
		var packed bytes.Buffer
		z := gzip.NewWriter(&packed)
		_, _ = io.WriteString(z, strings.Repeat("bomb", 1<<20))
		z.Close()
		p := answering(t, fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n%s", packed.Len(), packed.String()))
		a := attempt(t, newSink(t, development), jobTo(p.url(), 5*time.Second))
		wantFailure(t, a, "", "")
		if strings.Contains(a.Answer.Snippet, "bombbomb") {
			t.Error("the body was unpacked")
		}
		if got := p.requests[0].Header.Get("Accept-Encoding"); got != "" {
			t.Errorf("Accept-Encoding: %s was sent", got)
		}
	})
	t.Run("cut_short", func(t *testing.T) {
		p := newPeer(t, func(c *caller) {
			c.read()
			c.say("HTTP/1.1 202 Accepted\r\nContent-Length: 10\r\n\r\nabc")
		})
		a := attempt(t, newSink(t, development), jobTo(p.url(), 5*time.Second))
		wantFailure(t, a, "", "")
		if a.Answer.Snippet != "abc" || !a.Answer.Truncated {
			t.Errorf("answer = %+v", a.Answer)
		}
	})
}

func TestAttempt_connections_are_few(t *testing.T) {
	p := answering(t, "HTTP/1.1 200 OK\r\nContent-Length: 2048\r\n\r\n"+strings.Repeat("x", 2048))
	w := newSink(t, development)
	for range 200 {
		wantFailure(t, attempt(t, w, jobTo(p.url(), 5*time.Second)), "", "")
	}
	if conns, _ := p.counts(); conns != 1 {
		t.Errorf("200 attempts took %d connections", conns)
	}
}

func TestAttempt_timeout_in_each_phase(t *testing.T) {
	for _, row := range []struct {
		name, scheme string
		phase        hub.Phase
		body         int
		serve        func(c *caller)
	}{
		{name: "tls_handshake_never_ends", scheme: "https", phase: hub.PhaseTLS, serve: (*caller).drain},
		{name: "request_is_never_read", scheme: "http", phase: hub.PhaseRequest, body: 16 << 20, serve: func(c *caller) {
			// A full window, until the hub gives up.
			n := 0
			every(20*time.Millisecond, func() bool {
				_, err := c.Conn.Read(make([]byte, 1))
				n++
				return err == nil && n < 25
			})
			c.drain()
		}},
		{name: "no_answer", scheme: "http", phase: hub.PhaseAnswer, serve: func(c *caller) { c.read(); c.drain() }},
		{name: "status_line_drips", scheme: "http", phase: hub.PhaseAnswer, serve: func(c *caller) {
			c.read()
			c.drip(20*time.Millisecond, "HTTP/1.1 200 OK")
		}},
		{name: "headers_drip", scheme: "http", phase: hub.PhaseAnswer, serve: func(c *caller) {
			c.read()
			c.say("HTTP/1.1 200 OK\r\n")
			every(20*time.Millisecond, func() bool { return c.say("X-A: b\r\n") })
		}},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			p := newPeer(t, row.serve)
			job := jobTo(row.scheme+"://"+p.addr, short)
			job.Event.Body = make([]byte, row.body)
			w := newSink(t, development)
			a := attempt(t, w, job)
			wantFailure(t, a, hub.ErrTimeout, row.phase)
			if a.Answer.Status != 0 || a.Timings.Total < int32(short.Microseconds()) {
				t.Errorf("status %d after %d µs", a.Answer.Status, a.Timings.Total)
			}
			p.wantEnded(t)
		})
	}
}

func TestAttempt_snippet_is_text(t *testing.T) {
	rows := map[string]string{
		"latin_1_and_nul": "\xe9\x00\xff\xfe",
		"only_nul":        strings.Repeat("\x00", 12<<10),
		"only_noise":      strings.Repeat("\xffa", 12<<10),
		"replacement":     "\uFFFD",
		"surrogate":       "\xed\xa0\x80",
		"one_more":        strings.Repeat("a", maxSnippet+1),
		"exactly":         strings.Repeat("a", maxSnippet),
	}
	for before := 1; before <= 5; before++ { // the cut falls before, in and behind a character
		rows[fmt.Sprintf("cut_%d_before", before)] = strings.Repeat("a", maxSnippet-before) + "😀b"
	}
	for name, body := range rows {
		t.Run(name, func(t *testing.T) {
			p := answering(t, fmt.Sprintf("HTTP/1.1 200 O\x00K\r\nX-A: \xe9\r\nContent-Length: %d\r\n\r\n%s", len(body), body))
			a := attempt(t, newSink(t, development), jobTo(p.url(), 5*time.Second))
			wantFailure(t, a, "", "")
			got := a.Answer.Snippet
			if len(got) > maxSnippet || !utf8.ValidString(got) || strings.ContainsRune(got, 0) || got == "" {
				t.Errorf("snippet of %d bytes: %.80q", len(got), got)
			}
			if utf8.ValidString(body) && !strings.ContainsRune(body, 0) && !strings.HasPrefix(body, got) {
				t.Errorf("snippet %.80q is not the beginning of the body", got)
			}
			whole := strings.ReplaceAll(strings.ToValidUTF8(body, "\uFFFD"), "\x00", "\uFFFD")
			if wantCut := len(whole) > len(got); a.Answer.Truncated != wantCut {
				t.Errorf("truncated = %t of %d bytes, kept %d", a.Answer.Truncated, len(whole), len(got))
			}
			for _, h := range a.Answer.Headers {
				if !utf8.ValidString(h.Name) || !utf8.ValidString(h.Value) {
					t.Errorf("header %q: %q is not text", h.Name, h.Value)
				}
			}
		})
	}
}
