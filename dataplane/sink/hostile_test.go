package sink

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"github.com/streaming-hub/streaming-hub/hub"
)

// every calls do again and again, until it says that the hub is gone.
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

func TestAttempt_hostile_receiver_over_HTTP_2(t *testing.T) {
	const timeout = time.Second
	large := make([]byte, 1<<20)
	ca := newAuthority(t)
	pair := ca.issue(t, func(*x509.Certificate) {})
	run := newCrowd(t)
	for _, r := range []struct {
		name   string
		serve  func(c *h2caller)
		body   []byte
		class  []hub.ErrorClass
		status int32
		ends   bool // the connection carries no other request
	}{
		{name: "no_settings", serve: func(c *h2caller) { c.drain() }, class: []hub.ErrorClass{hub.ErrTimeout}},
		{name: "no_answer", serve: func(c *h2caller) { _ = c.WriteSettings(); c.read(); c.drain() }, class: []hub.ErrorClass{hub.ErrTimeout}},
		{name: "no_streams_allowed", serve: func(c *h2caller) {
			_ = c.WriteSettings(http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: 0})
			c.drain()
		}, class: []hub.ErrorClass{hub.ErrTimeout, hub.ErrReset}},
		{name: "no_window", body: large, serve: func(c *h2caller) {
			_ = c.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
			c.drain()
		}, class: []hub.ErrorClass{hub.ErrTimeout}},
		{name: "window_never_refilled", body: large, serve: func(c *h2caller) { _ = c.WriteSettings(); c.drain() }, class: []hub.ErrorClass{hub.ErrTimeout}},
		{name: "large_body_never_read", body: large, serve: func(c *h2caller) {
			_ = c.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1<<31 - 1})
			_ = c.WriteWindowUpdate(0, 1<<30)
			<-c.peer.released
		}, class: []hub.ErrorClass{hub.ErrTimeout, hub.ErrReset}},
		{name: "answered_without_taking_the_body", body: large, serve: func(c *h2caller) {
			_ = c.WriteSettings()
			r := c.head()
			c.answer(r.stream, "200", "")
			c.drain()
		}, class: []hub.ErrorClass{""}, status: 200, ends: true},
		{name: "refused_without_taking_the_body", body: large, serve: func(c *h2caller) {
			_ = c.WriteSettings()
			r := c.head()
			c.answer(r.stream, "413", "no")
			_ = c.WriteRSTStream(r.stream, http2.ErrCodeNo)
			c.drain()
		}, class: []hub.ErrorClass{hub.ErrStatus}, status: 413},
		{name: "hints_without_end", serve: func(c *h2caller) {
			_ = c.WriteSettings()
			for r := c.read(); c.headers(r.stream, false, ":status:103", "link: </x>") == nil; {
			}
		}, class: []hub.ErrorClass{hub.ErrProtocol}},
		{name: "a_hint_per_second", serve: func(c *h2caller) {
			_ = c.WriteSettings()
			r := c.read()
			every(time.Second/4, func() bool { return c.headers(r.stream, false, ":status:102") == nil })
		}, class: []hub.ErrorClass{hub.ErrTimeout}},
		{name: "switching_protocols", serve: func(c *h2caller) {
			_ = c.WriteSettings()
			r := c.read()
			_ = c.headers(r.stream, false, ":status:101")
			c.drain()
		}, class: []hub.ErrorClass{hub.ErrTimeout, hub.ErrProtocol}},
		{name: "10_MB_of_headers", serve: func(c *h2caller) {
			_ = c.WriteSettings()
			r := c.read()
			fields := []string{":status:200"}
			for range 10 << 10 {
				fields = append(fields, "x-a: "+strings.Repeat("b", 1000))
			}
			_ = c.headers(r.stream, true, fields...)
		}, class: []hub.ErrorClass{hub.ErrProtocol, hub.ErrReset}},
		{name: "continuations_without_end", serve: func(c *h2caller) {
			_ = c.WriteSettings()
			r := c.read()
			_ = c.WriteHeaders(http2.HeadersFrameParam{StreamID: r.stream, BlockFragment: []byte{0x88}})
			for c.WriteContinuation(r.stream, false, make([]byte, 1)) == nil {
			}
		}, class: []hub.ErrorClass{hub.ErrProtocol, hub.ErrReset, hub.ErrTimeout}},
		{name: "headers_without_end_of_headers", serve: func(c *h2caller) {
			_ = c.WriteSettings()
			r := c.read()
			_ = c.WriteHeaders(http2.HeadersFrameParam{StreamID: r.stream, BlockFragment: []byte{0x88}})
			c.drain()
		}, class: []hub.ErrorClass{hub.ErrTimeout}},
		{name: "body_without_end", serve: func(c *h2caller) {
			_ = c.WriteSettings()
			r := c.read()
			_ = c.headers(r.stream, false, ":status:200")
			for c.WriteData(r.stream, false, make([]byte, 8<<10)) == nil {
			}
		}, class: []hub.ErrorClass{""}, status: 200, ends: true},
		{name: "body_a_byte_per_second", serve: func(c *h2caller) {
			_ = c.WriteSettings()
			r := c.read()
			_ = c.headers(r.stream, false, ":status:200")
			every(time.Second/4, func() bool { return c.WriteData(r.stream, false, []byte("x")) == nil })
		}, class: []hub.ErrorClass{""}, status: 200, ends: true},
		{name: "reset_in_the_body", serve: func(c *h2caller) {
			_ = c.WriteSettings()
			r := c.read()
			_ = c.headers(r.stream, false, ":status:200", "content-length: 10")
			_ = c.WriteData(r.stream, false, []byte("abc"))
			_ = c.WriteRSTStream(r.stream, http2.ErrCodeInternal)
			c.drain()
		}, class: []hub.ErrorClass{""}, status: 200, ends: true},
		{name: "answer_without_a_status", serve: func(c *h2caller) {
			_ = c.WriteSettings()
			r := c.read()
			_ = c.headers(r.stream, true, "x-a: b")
			c.drain()
		}, class: []hub.ErrorClass{hub.ErrProtocol}},
		{name: "status_2000", serve: func(c *h2caller) { _ = c.WriteSettings(); r := c.read(); c.answer(r.stream, "2000", ""); c.drain() }, class: []hub.ErrorClass{hub.ErrProtocol}},
		{name: "status_99", serve: func(c *h2caller) { _ = c.WriteSettings(); r := c.read(); c.answer(r.stream, "99", ""); c.drain() }, class: []hub.ErrorClass{hub.ErrProtocol}},
		{name: "status_600", serve: func(c *h2caller) { _ = c.WriteSettings(); r := c.read(); c.answer(r.stream, "600", ""); c.drain() }, class: []hub.ErrorClass{hub.ErrProtocol}},
		{name: "status_in_letters", serve: func(c *h2caller) { _ = c.WriteSettings(); r := c.read(); c.answer(r.stream, "two", ""); c.drain() }, class: []hub.ErrorClass{hub.ErrProtocol}},
		{name: "data_before_headers", serve: func(c *h2caller) {
			_ = c.WriteSettings()
			r := c.read()
			_ = c.WriteData(r.stream, true, []byte("x"))
			c.drain()
		}, class: []hub.ErrorClass{hub.ErrProtocol}},
		{name: "frames_that_make_no_sense", serve: func(c *h2caller) {
			_ = c.WriteSettings()
			c.read()
			_ = c.WriteRawFrame(http2.FrameData, 0, 0, []byte("on stream 0"))
			c.drain()
		}, class: []hub.ErrorClass{hub.ErrProtocol}},
		{name: "pushed_stream", serve: func(c *h2caller) {
			_ = c.WriteSettings()
			r := c.read()
			_ = c.WritePushPromise(http2.PushPromiseParam{StreamID: r.stream, PromiseID: 2, BlockFragment: []byte{0x82}, EndHeaders: true})
			c.drain()
		}, class: []hub.ErrorClass{hub.ErrProtocol}},
		{name: "pings_without_end", serve: func(c *h2caller) {
			_ = c.WriteSettings()
			for c.WritePing(false, [8]byte{1}) == nil {
			}
		}, class: []hub.ErrorClass{hub.ErrTimeout, hub.ErrReset}},
		{name: "HTTP_1_behind_h2", serve: func(c *h2caller) { _, _ = c.conn.Write([]byte(ok)); c.drain() }, class: []hub.ErrorClass{hub.ErrReset, hub.ErrProtocol, hub.ErrTimeout}},
	} {
		run.test(r.name, func(t *testing.T) {
			p := newH2PeerWith(t, &tls.Config{Certificates: []tls.Certificate{pair}, NextProtos: []string{"h2"}}, r.serve)
			job := jobTo(p.secure(), timeout)
			if r.body != nil {
				job.Event.Body = r.body
			}
			w := trusting(t, development, ca)
			a := attempt(t, w, job)
			if !slices.Contains(r.class, a.Failure.Class) || r.status != 0 && a.Answer.Status != r.status {
				t.Errorf("status %d, failure %+v, want one of %q with status %d", a.Answer.Status, a.Failure, r.class, r.status)
			}
			if a.Failure.Failed() && r.status == 0 && a.Answer.Status != 0 {
				t.Errorf("status %d of an answer that was none", a.Answer.Status)
			}
			if _, n := p.counts(); n > 1 {
				t.Errorf("the receiver saw %d requests", n)
			}
			if n := w.pool.idleCount(); r.ends && n != 0 {
				t.Errorf("%d connections are kept", n)
			}
			w.Close()
			close(p.released)
			p.wantEnded(t)
		})
	}
	run.Wait()
}

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
