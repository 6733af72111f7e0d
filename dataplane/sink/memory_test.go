package sink

import (
	"context"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"
)

// What a receiver can make one attempt hold in memory. The receivers are in
// this process too, so the bound is generous.
func TestAttempt_memory(t *testing.T) {
	const (
		together = 64
		bound    = 1 << 20 // bytes an attempt
	)
	ca := newAuthority(t)
	manyHeaders := strings.Repeat("a:\r\n", 8000)
	for name, receiver := range map[string]func(t *testing.T, holding *sync.WaitGroup) (*peer, string){
		"body_that_stops_before_the_limit": func(t *testing.T, holding *sync.WaitGroup) (*peer, string) {
			p := newPeer(t, func(c *caller) {
				c.read()
				c.say("HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\n\r\n" + strings.Repeat("\xff\x00", maxBodyRead/2-1))
				holding.Done()
				<-c.peer.released
			})
			return p, p.url()
		},
		"headers_that_stop_before_the_limit": func(t *testing.T, holding *sync.WaitGroup) (*peer, string) {
			p := newPeer(t, func(c *caller) {
				c.read()
				c.say(head200 + manyHeaders[:maxResponseHeaderBytes-1000])
				holding.Done()
				<-c.peer.released
			})
			return p, p.url()
		},
		"HTTP_2_body_as_wide_as_the_window": func(t *testing.T, holding *sync.WaitGroup) (*peer, string) {
			p := newH2Peer(t, ca, func(c *h2caller) {
				r := c.read()
				if c.window == 0 || c.window > maxBodyRead {
					t.Errorf("the hub takes %d bytes unread", c.window)
				}
				_ = c.headers(r.stream, false, ":status:200")
				for range 3 {
					_ = c.WriteData(r.stream, false, []byte(strings.Repeat("x", 16<<10)))
				}
				holding.Done()
				<-c.peer.released
			})
			return p, p.secure()
		},
		"HTTP_2_headers_without_end": func(t *testing.T, holding *sync.WaitGroup) (*peer, string) {
			p := newH2Peer(t, ca, func(c *h2caller) {
				r := c.read()
				_ = c.WriteHeaders(http2.HeadersFrameParam{StreamID: r.stream, BlockFragment: []byte{0x88}})
				for range 30 {
					_ = c.WriteContinuation(r.stream, false, []byte(strings.Repeat("\x88", 1<<10)))
				}
				holding.Done()
				<-c.peer.released
			})
			return p, p.secure()
		},
	} {
		t.Run(name, func(t *testing.T) {
			var holding sync.WaitGroup
			holding.Add(together)
			p, url := receiver(t, &holding)
			w := trusting(t, development, ca)
			job := jobTo(url, 20*time.Second)
			ctx, stop := context.WithCancel(t.Context())
			before := heldMemory()
			var attempts sync.WaitGroup
			for range together {
				attempts.Go(func() { w.Attempt(ctx, job) })
			}
			holding.Wait()
			each := (heldMemory() - before) / together
			stop()
			attempts.Wait()
			close(p.released)
			t.Logf("%d bytes an attempt, receiver included", each)
			if each > bound {
				t.Errorf("%d bytes an attempt, at most %d are meant", each, bound)
			}
		})
	}
	t.Run("what_is_kept_of_thousands_of_headers", func(t *testing.T) {
		var text strings.Builder
		for i := range 3000 {
			text.WriteString(string(rune('a'+i%26)) + string(rune('a'+i/26%26)) + string(rune('a'+i/676)) + ":x\r\n")
		}
		p := answering(t, head200+text.String()+"Content-Length: 0\r\n\r\n")
		a := attempt(t, newSink(t, development), jobTo(p.url(), 5*time.Second))
		wantFailure(t, a, "", "")
		if n := len(a.Answer.Headers); n != maxResponseHeaders {
			t.Errorf("%d header lines are kept", n)
		}
	})
}

// heldMemory is what lives on the heap and the stacks, without garbage.
func heldMemory() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}
