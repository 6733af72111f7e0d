// Package circuit keeps the circuit breakers of destinations: what this
// process saw, together with what all replicas stored.
//
//	board.go   the breakers in memory: who may go, what came of it
//	share.go   writes sums and probes, reads what other replicas wrote
//
// The rules are in hub/breaker. What must hold, and why:
//
//   - Attempts are judged against the stored state plus what this process has
//     not written yet, so a destination that breaks is left alone at once.
//   - A probe runs only after its state is stored under the row's lock: there
//     is one in the whole cluster.
//   - Of a destination that only succeeds nothing is ever written, and its
//     attempts cost one look-up in memory.
//   - While the database is away sums grow and no probe is let through: the
//     dispatcher could claim nothing anyhow.
package circuit

import (
	"context"
	"io"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/streaming-hub/streaming-hub/db"
	"github.com/streaming-hub/streaming-hub/hub"
	"github.com/streaming-hub/streaming-hub/hub/breaker"
)

// Store keeps the breakers of all replicas.
type Store interface {
	BreakersChangedSince(ctx context.Context, since time.Time, limit int) ([]db.StoredBreaker, error)
	ChangeBreakers(ctx context.Context, lanes []db.Lane, feedID hub.ID, change func(i int, stored breaker.State) (breaker.State, []hub.Notice)) ([]breaker.State, error)
}

// Deps are what a Board works with.
type Deps struct {
	Store  Store
	Now    func() time.Time
	Random io.Reader
	// Moved, if any, is called without a lock when a circuit moved: lanes that
	// were blocked may go on.
	Moved   func(db.Lane)
	Metrics prometheus.Registerer
	Log     *slog.Logger
}

// Board holds the breakers that this process knows. It is safe for concurrent
// use.
type Board struct {
	deps Deps
	wake chan struct{} // something is to be stored now

	mu      sync.Mutex
	entries map[db.Lane]*entry
	since   time.Time // of the database clock: read up to here
	open    prometheus.Gauge
	moves   *prometheus.CounterVec
}

// entry is one destination's breaker.
type entry struct {
	stored  breaker.State
	view    breaker.State // stored plus what is not written
	sums    sums          // not written, and not being written
	writing sums          // being written
	probe   *ended        // outcome of our probe, not written
	busy    bool          // a write of it is under way
	usedAt  time.Time
}

// sums are outcomes in the order of their generations: what was admitted after
// a circuit moved here must not hide what moved it.
type sums []breaker.Delta

// add is the sums with one more outcome.
func (s sums) add(o breaker.Outcome, now time.Time) sums {
	if n := len(s); n > 0 && (s[n-1].Empty() || o.Generation <= s[n-1].Generation) {
		s[n-1] = s[n-1].Add(o, now)
		return s
	}
	return append(s, breaker.Delta{}.Add(o, now))
}

// then is the sums of s and, after them, of next.
func (s sums) then(next sums, now time.Time) sums {
	all := slices.Clone(s)
	for _, d := range next {
		if n := len(all); n > 0 && d.Generation <= all[n-1].Generation {
			all[n-1] = all[n-1].Then(d, now)
			continue
		}
		all = append(all, d)
	}
	return all
}

// apply is a state after the sums.
func (s sums) apply(state breaker.State, now time.Time) breaker.State {
	for _, d := range s {
		if !d.Empty() {
			state = breaker.Apply(state, d, now)
		}
	}
	return state
}

func (s sums) failed() bool {
	return slices.ContainsFunc(s, func(d breaker.Delta) bool { return d.Failed })
}

func (s sums) succeeded() bool {
	return slices.ContainsFunc(s, func(d breaker.Delta) bool { return d.Succeeded })
}

// ended is an outcome that has to be applied by itself.
type ended struct {
	outcome breaker.Outcome
	at      time.Time
}

// New makes an empty board.
func New(d Deps) *Board {
	b := &Board{
		deps: d, wake: make(chan struct{}, 1), entries: map[db.Lane]*entry{},
		open: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "streaming_hub_circuits_open", Help: "Circuits that are open or half open, as far as this process knows.",
		}),
		moves: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "streaming_hub_circuit_moves_total", Help: "Moves of circuits that this process stored, by the phase after.",
		}, []string{"phase"}),
	}
	if d.Metrics != nil {
		d.Metrics.MustRegister(b.open, b.moves)
	}
	return b
}

// Admit asks whether a delivery of the lane may be attempted now; last marks
// its last attempt.
func (b *Board) Admit(lane db.Lane, last bool) breaker.Admission {
	b.mu.Lock()
	defer b.mu.Unlock()
	e, ok := b.entries[lane]
	if !ok {
		return breaker.Admission{Allow: true}
	}
	now := b.now()
	e.usedAt = now
	a := breaker.Admit(e.view, now, last)
	if a.Probe && e.busy {
		// Our own write is about to say otherwise.
		return breaker.Admission{Allow: last, PutOff: now, Generation: a.Generation, Reason: a.Reason}
	}
	return a
}

// Ramp is how many attempts of the lane this process may have under way while
// the destination recovers; 0 for no limit.
func (b *Board) Ramp(lane db.Lane) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	if e, ok := b.entries[lane]; ok {
		return breaker.Ramp(e.view)
	}
	return 0
}

// OpenLanes are the lanes whose circuit is not closed, in no order.
func (b *Board) OpenLanes() []db.Lane {
	b.mu.Lock()
	defer b.mu.Unlock()
	var lanes []db.Lane
	for lane, e := range b.entries {
		if e.view.IsOpen() {
			lanes = append(lanes, lane)
		}
	}
	return lanes
}

// Record takes the outcome of an attempt that ended now.
func (b *Board) Record(lane db.Lane, o breaker.Outcome) {
	b.mu.Lock()
	now := b.now()
	e := b.entry(lane, now)
	before := e.view
	if o.Probe.IsZero() {
		e.sums = e.sums.add(o, now)
	} else {
		e.probe = &ended{o, now}
	}
	e.look(now)
	moved := breaker.Moved(before, e.view)
	b.mu.Unlock()
	if moved || !o.Probe.IsZero() {
		b.signal()
		if b.deps.Moved != nil {
			b.deps.Moved(lane)
		}
	}
}

// look makes the view from its parts.
func (e *entry) look(now time.Time) {
	v := e.sums.apply(e.writing.apply(e.stored, now), now)
	if e.probe != nil {
		v = breaker.After(v, e.probe.outcome, e.probe.at)
	}
	e.view = v
}

// unwritten reports whether what is known only here has to be stored.
func (e *entry) unwritten(now time.Time) bool {
	return e.probe != nil || e.sums.failed() || e.sums.succeeded() && !e.stored.Settled(now)
}

func (b *Board) entry(lane db.Lane, now time.Time) *entry {
	e, ok := b.entries[lane]
	if !ok {
		e = &entry{}
		b.entries[lane] = e
	}
	e.usedAt = now
	return e
}

// now is the clock in the precision of the store.
func (b *Board) now() time.Time { return b.deps.Now().UTC().Truncate(time.Microsecond) }

func (b *Board) signal() {
	select {
	case b.wake <- struct{}{}:
	default:
	}
}
