package sink

import (
	"crypto/tls"
	"crypto/x509"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"github.com/streaming-hub/streaming-hub/hub"
)

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
