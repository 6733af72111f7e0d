package circuit_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/streaming-hub/streaming-hub/dataplane/circuit"
	"github.com/streaming-hub/streaming-hub/dataplane/circuit/circuittest"
	"github.com/streaming-hub/streaming-hub/db"
	"github.com/streaming-hub/streaming-hub/hub"
	"github.com/streaming-hub/streaming-hub/hub/breaker"
	"github.com/streaming-hub/streaming-hub/hub/hubtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// cluster is two boards over one store, in a bubble of fake time.
type cluster struct {
	*testing.T
	store  circuit.Store
	memory *circuittest.Memory
	lane   db.Lane
	boards [2]*board
	now    func() time.Time // of boards that start
	log    *lockedBuffer
}

// board is one that shares.
type board struct {
	*circuit.Board
	stop  func() // waits until it has written what was left
	began time.Time

	mu    sync.Mutex
	moved []db.Lane
}

func newID() hub.ID { return hubtest.NewID() }

// bubble runs a test of two boards; change adapts what they are made of.
func bubble(t *testing.T, change func(c *cluster), test func(c *cluster)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		memory := &circuittest.Memory{}
		c := &cluster{T: t, store: memory, memory: memory, lane: db.Lane{Tenant: "acme", Destination: hub.DestinationID{ID: newID()}}, now: time.Now, log: &lockedBuffer{}}
		if change != nil {
			change(c)
		}
		c.boards[0] = c.start()
		time.Sleep(400 * time.Millisecond) // they do not tick together
		c.boards[1] = c.start()
		time.Sleep(3 * time.Second)
		defer func() {
			c.boards[0].stop()
			c.boards[1].stop()
		}()
		test(c)
	})
}

// start makes a board that knows nothing yet.
func (c *cluster) start() *board {
	b := &board{began: time.Now()}
	b.Board = circuit.New(circuit.Deps{
		Store: c.store, Now: c.now, Random: rand.Reader, Log: slog.New(slog.NewTextHandler(c.log, nil)),
		Moved: func(l db.Lane) {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.moved = append(b.moved, l)
		},
	})
	ctx, cancel := context.WithCancel(c.Context())
	done := make(chan error, 1)
	go func() { done <- b.Run(ctx) }()
	synctest.Wait()
	b.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			c.Errorf("Run = %v", err)
		}
	})
	return b
}

// writes is when a board writes next what does not move a circuit.
func (b *board) writes() time.Time {
	return b.began.Add(time.Since(b.began).Truncate(time.Second) + time.Second)
}

// pass lets time go by, and all that is due then happen.
func (c *cluster) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// share lets every board write and read.
func (c *cluster) share() { c.pass(2100 * time.Millisecond) }

// see makes n attempts end on a board, admitted just before.
func (c *cluster) see(b *board, kind breaker.Kind, n int) {
	for range n {
		b.Record(c.lane, breaker.Outcome{Kind: kind, Generation: b.Admit(c.lane, true).Generation})
	}
}

// phase is where the stored circuit stands.
func (c *cluster) phase() breaker.Phase {
	if p := c.memory.State(c.lane).Phase; p != "" {
		return p
	}
	return breaker.Closed
}

func (c *cluster) wantPhase(want breaker.Phase) {
	c.Helper()
	if c.phase() != want {
		c.Errorf("the circuit is %s, want %s: %+v", c.phase(), want, c.memory.State(c.lane))
	}
}

// probe takes the probe of the open circuit.
func (c *cluster) probe(b *board) (breaker.Outcome, bool) {
	if a := b.Admit(c.lane, false); !a.Probe {
		return breaker.Outcome{}, false
	}
	id := hub.AttemptID{ID: newID()}
	generation, taken, err := b.TakeProbe(c.Context(), c.lane, id)
	if err != nil {
		c.Fatal(err)
	}
	return breaker.Outcome{Generation: generation, Probe: id}, taken
}

func (c *cluster) told() (kinds []hub.NoticeKind) {
	for _, n := range c.memory.Notices() {
		if n.Tenant != c.lane.Tenant || n.Breaker == nil || n.At.IsZero() || n.Reason == "" {
			c.Errorf("a notice without what it is about: %+v", n)
		}
		kinds = append(kinds, n.Kind)
	}
	return kinds
}

// lockedBuffer is a log that a test reads while it is written.
type lockedBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}
