package sink

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"
)

// stepping is a clock that tests move.
type stepping struct {
	mu  sync.Mutex
	now time.Time
}

func (s *stepping) read() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now
}

func (s *stepping) step(d time.Duration) {
	s.mu.Lock()
	s.now = s.now.Add(d)
	s.mu.Unlock()
}

func (p *pool) idleCount() (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, list := range p.idle {
		n += len(list)
	}
	if n != p.count {
		panic(fmt.Sprintf("the pool counts %d, there are %d", p.count, n))
	}
	return n
}

func TestPool(t *testing.T) {
	clocked := func(t *testing.T) (*Webhook, *stepping) {
		clock := &stepping{now: time.Now()}
		w := newSink(t, development)
		w.pool.now = clock.read
		return w, clock
	}
	send := func(t *testing.T, w *Webhook, p *peer) {
		t.Helper()
		wantFailure(t, attempt(t, w, jobTo(p.url(), 5*time.Second)), "", "")
	}
	wantConns := func(t *testing.T, p *peer, want int) {
		t.Helper()
		if got, _ := p.counts(); got != want {
			t.Errorf("%d connections, want %d", got, want)
		}
	}
	t.Run("idle_connection_ends_after_a_minute", func(t *testing.T) {
		w, clock := clocked(t)
		p := answering(t, ok)
		send(t, w, p)
		clock.step(maxIdleTime)
		w.pool.sweep()
		send(t, w, p)
		wantConns(t, p, 1)
		clock.step(maxIdleTime + time.Second)
		w.pool.sweep()
		if n := w.pool.idleCount(); n != 0 || len(w.pool.idle) != 0 {
			t.Errorf("%d connections and %d places are kept", n, len(w.pool.idle))
		}
		p.wantEnded(t)
		send(t, w, p)
		wantConns(t, p, 2)
	})
	t.Run("busy_connection_ends_after_its_age_so_that_a_name_is_looked_up_again", func(t *testing.T) {
		w, clock := clocked(t)
		p := answering(t, ok)
		for range 25 { // half a minute apart
			send(t, w, p)
			clock.step(30 * time.Second)
		}
		wantConns(t, p, 2)
	})
	t.Run("connection_that_the_receiver_closed_is_forgotten", func(t *testing.T) {
		w, _ := clocked(t)
		p := newPeer(t, func(c *caller) { c.read(); c.say(ok) })
		send(t, w, p)
		w.waitForEnd(t)
		w.pool.sweep()
		if n := w.pool.idleCount(); n != 0 {
			t.Errorf("%d connections are kept", n)
		}
	})
	t.Run("closing_ends_idle_connections_and_keeps_no_more", func(t *testing.T) {
		w, _ := clocked(t)
		p := answering(t, ok)
		send(t, w, p)
		w.Close()
		p.wantEnded(t)
		send(t, w, p) // still possible, without keeping
		p.wantEnded(t)
		if n := w.pool.idleCount(); n != 0 {
			t.Errorf("%d connections are kept", n)
		}
	})
	t.Run("answer_that_closes_is_not_kept", func(t *testing.T) {
		w, _ := clocked(t)
		p := answering(t, "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok")
		send(t, w, p)
		if n := w.pool.idleCount(); n != 0 {
			t.Errorf("%d connections are kept", n)
		}
	})
	t.Run("is_bounded_and_lets_a_long_idle_one_go", func(t *testing.T) {
		w, clock := clocked(t)
		p := answering(t, ok)
		send(t, w, p)
		kept := w.pool.pop(place{scheme: "http", address: p.addr})
		now := clock.read()
		for i := range maxIdle {
			c := &connection{carrier: kept.carrier, place: place{address: fmt.Sprint(i / 4)}}
			if !w.pool.keep(c, now.Add(time.Duration(i))) {
				t.Fatal("not kept")
			}
		}
		if !w.pool.keep(kept, now.Add(time.Hour)) {
			t.Error("the newest is not kept")
		}
		if n := w.pool.idleCount(); n != maxIdle {
			t.Errorf("%d connections are kept", n)
		}
	})
	t.Run("a_place_is_bounded", func(t *testing.T) {
		w, clock := clocked(t)
		p := answering(t, ok)
		send(t, w, p)
		at := place{scheme: "http", address: p.addr}
		kept := w.pool.pop(at)
		for range maxIdlePerPlace {
			w.pool.keep(&connection{carrier: kept.carrier, place: at}, clock.read())
		}
		if w.pool.keep(kept, clock.read()) {
			t.Error("one more was kept")
		}
	})
}

func TestTargets_are_bounded(t *testing.T) {
	known := &targets{policy: development}
	for i := range maxTargets + 10 {
		if known.of(fmt.Sprintf("http://127.0.0.1/%d", i)).refused != nil {
			t.Fatal("refused")
		}
	}
	n := 0
	known.known.Range(func(_, _ any) bool { n++; return true })
	if n > maxTargets || known.of("http://127.0.0.1/1") != known.of("http://127.0.0.1/1") {
		t.Errorf("%d are kept", n)
	}
}

// Nothing of an attempt goes on behind its back: a connection that does not
// come about is given up with the attempt that wanted it.
func TestPool_dial_ends_with_its_attempt(t *testing.T) {
	w := newSink(t, development)
	ended := make(chan error, 1)
	w.guard.resolver = &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		<-ctx.Done()
		select {
		case ended <- ctx.Err():
		default:
		}
		return nil, ctx.Err()
	}}
	a := attempt(t, w, jobTo("http://hangs.test/", short))
	if a.Failure.Class != "TIMEOUT" {
		t.Errorf("failure = %+v", a.Failure)
	}
	select {
	case <-ended:
	case <-time.After(5 * time.Second):
		t.Error("the look-up goes on")
	}
	if n := w.pool.idleCount(); n != 0 {
		t.Errorf("%d connections are kept", n)
	}
}

// A failure's line tells nothing of this machine: neither the address that it
// dialled from nor that of its name server.
func TestAttempt_detail_tells_nothing_of_the_hub(t *testing.T) {
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	reset := newPeer(t, func(c *caller) { c.read(); abort(c.Conn) })
	mute := newPeer(t, func(c *caller) { c.read(); c.drain() })
	w := newSink(t, development)
	for _, url := range []string{"http://" + closed.Addr().String(), reset.url(), mute.url(), "https://" + reset.addr} {
		a := attempt(t, w, jobTo(url, short))
		if !a.Failure.Failed() || strings.Contains(a.Failure.Detail, "127.0.0.1") || strings.Contains(a.Failure.Detail, "->") {
			t.Errorf("%s: %+v", url, a.Failure)
		}
	}
	w.guard.resolver = &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, closed.Addr().String()) // nobody answers
	}}
	a := attempt(t, w, jobTo("http://name.test/", 5*time.Second))
	wantFailure(t, a, "DNS", "DNS")
	if strings.Contains(a.Failure.Detail, "127.0.0.1") || strings.Contains(a.Failure.Detail, ":53") || !strings.Contains(a.Failure.Detail, "name.test") {
		t.Errorf("detail %q", a.Failure.Detail)
	}
}
