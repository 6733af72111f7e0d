package e2e

import (
	"context"
	"net"
	"net/url"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// relay stands between a program and its database and can be frozen: what is
// sent then is neither passed on nor refused, as by a server that hangs or a
// network that swallows.
type relay struct {
	listener net.Listener
	to       string

	mu     sync.Mutex
	thawed chan struct{} // closed while it passes on
	ended  chan struct{}
	all    sync.WaitGroup
}

func newRelay(t *testing.T, to string) *relay {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{listener: listener, to: to, thawed: make(chan struct{}), ended: make(chan struct{})}
	close(r.thawed)
	r.all.Go(func() {
		for {
			near, err := listener.Accept()
			if err != nil {
				return
			}
			r.all.Go(func() { r.serve(near) })
		}
	})
	t.Cleanup(func() {
		listener.Close()
		close(r.ended)
		r.all.Wait()
	})
	return r
}

func (r *relay) freeze() {
	r.mu.Lock()
	r.thawed = make(chan struct{})
	r.mu.Unlock()
}

// passes waits while the relay is frozen; false when it has ended.
func (r *relay) passes() bool {
	r.mu.Lock()
	thawed := r.thawed
	r.mu.Unlock()
	select {
	case <-thawed:
		return true
	case <-r.ended:
		return false
	}
}

func (r *relay) serve(near net.Conn) {
	defer near.Close()
	if !r.passes() {
		return
	}
	far, err := net.Dial("tcp", r.to)
	if err != nil {
		return
	}
	defer far.Close()
	var both sync.WaitGroup
	pass := func(to, from net.Conn) {
		defer to.Close()
		buffer := make([]byte, 32<<10)
		for {
			n, err := from.Read(buffer)
			if !r.passes() {
				return
			}
			if _, failed := to.Write(buffer[:n]); err != nil || failed != nil {
				return
			}
		}
	}
	both.Go(func() { pass(far, near) })
	both.Go(func() { pass(near, far) })
	done := make(chan struct{})
	go func() { both.Wait(); close(done) }()
	select {
	case <-done:
	case <-r.ended:
		near.Close()
		far.Close()
		<-done
	}
}

// TestDatabaseHangs freezes the way to the database under load and asks the
// data plane to stop: it ends in time, and the next one finds everything.
func TestDatabaseHangs(t *testing.T) {
	const shutdown = 6 * time.Second
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	defer cancel()
	rig := newKillRig(ctx, t)
	dsn, err := url.Parse(rig.dsn)
	if err != nil || dsn.Host == "" || strings.Contains(rig.dsn, "host=") {
		t.Skipf("the database is not reached by host and port: %v", err)
	}
	way := newRelay(t, dsn.Host)
	direct := rig.dsn
	dsn.Host = way.listener.Addr().String()
	rig.dsn = dsn.String()
	plane := rig.startOn(t, rig.broker.Brokers(), "STREAMING_HUB_SHUTDOWN_TIMEOUT="+shutdown.String())
	plane.ready(ctx, t)
	rig.produce(ctx, t, 0, 200)
	eventually(ctx, t, func() bool { return rig.receiver.Counts().Distinct == 200 }, rig.say)

	way.freeze()
	rig.produce(ctx, t, 200, 400) // they are being stored when the stop comes
	plane.unready(ctx, t, "")
	begun := time.Now()
	if err := plane.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- plane.cmd.Wait() }()
	select {
	case err := <-ended:
		t.Logf("the data plane ended %s after it was asked to: %v", time.Since(begun).Round(time.Millisecond), err)
	case <-time.After(shutdown + 10*time.Second):
		_ = plane.cmd.Process.Signal(syscall.SIGQUIT)
		t.Fatalf("the data plane has not ended: %v", <-ended)
	}

	rig.dsn = direct
	rig.startOn(t, rig.broker.Brokers()).ready(ctx, t)
	eventually(ctx, t, func() bool { return rig.receiver.Counts().Distinct == 400 }, rig.say)
	eventually(ctx, t, func() bool { return rig.finished(ctx, t) == 400 }, rig.say)
}
