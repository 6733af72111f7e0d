package circuit

import (
	"context"
	"time"

	"github.com/streaming-hub/streaming-hub/db"
	"github.com/streaming-hub/streaming-hub/hub"
	"github.com/streaming-hub/streaming-hub/hub/breaker"
)

const (
	// shareEvery is how often sums are written and changes of other replicas
	// are read.
	shareEvery = time.Second
	// Rows of one write, and of one read.
	maxWrite, maxRead = 200, 1000
	// overlap is read again each time: a transaction may commit a little after
	// others that began later.
	overlap = 15 * time.Second
	// forgetAfter bounds memory: a closed circuit that nobody used is dropped.
	forgetAfter = 10 * time.Minute
)

// Run shares with the other replicas until ctx ends, and then writes what is
// left.
func (b *Board) Run(ctx context.Context) error {
	tick := time.NewTicker(shareEvery)
	defer tick.Stop()
	failing := false
	note := func(err error) {
		switch {
		case err != nil && !failing && ctx.Err() == nil:
			b.deps.Log.Warn("cannot share circuit breakers; going on with what is known", "error", err)
		case err == nil && failing:
			b.deps.Log.Info("circuit breakers are shared again")
		}
		failing = err != nil
	}
	note(b.read(ctx))
	for {
		select {
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
			defer cancel()
			if err := b.write(last, false); err != nil {
				b.deps.Log.Warn("the last outcomes did not reach the circuit breakers", "error", err)
			}
			return nil
		case <-b.wake:
			if !failing {
				note(b.write(ctx, true))
			}
		case <-tick.C:
			err := b.read(ctx)
			if err == nil {
				err = b.write(ctx, false)
			}
			note(err)
			b.forget()
		}
	}
}

// TakeProbe makes an attempt the probe of its open circuit. It is false when
// another one was quicker; who asks then asks Admit again.
func (b *Board) TakeProbe(ctx context.Context, lane db.Lane, attempt hub.AttemptID) (generation int64, taken bool, err error) {
	now := b.now()
	states, err := b.deps.Store.ChangeBreakers(ctx, []db.Lane{lane}, hub.NewID(now, b.deps.Random), func(_ int, s breaker.State) (breaker.State, []hub.Notice) {
		after, ok := breaker.TakeProbe(s, attempt, now)
		if taken = ok; !ok {
			return s, nil
		}
		return after, notices(lane, s, after, now)
	})
	if err != nil {
		return 0, false, err
	}
	b.mu.Lock()
	b.adopt(lane, states[0], now)
	b.mu.Unlock()
	if taken {
		b.moves.WithLabelValues(string(breaker.HalfOpen)).Inc()
	}
	return states[0].Generation, taken, nil
}

// adopt takes a stored state unless a newer one is known. b.mu is held.
func (b *Board) adopt(lane db.Lane, s breaker.State, now time.Time) (moved bool) {
	e, ok := b.entries[lane]
	if !ok {
		e = &entry{usedAt: now}
		b.entries[lane] = e
	}
	before := e.view
	if s.Version >= e.stored.Version {
		e.stored = s
	}
	e.look(now)
	return breaker.Moved(before, e.view)
}

// read takes over what replicas wrote since the last time.
func (b *Board) read(ctx context.Context) error {
	b.mu.Lock()
	from, most := b.since.Add(-overlap), maxRead
	b.mu.Unlock()
	for {
		rows, err := b.deps.Store.BreakersChangedSince(ctx, from, most)
		if err != nil {
			return err
		}
		var moved []db.Lane
		now := b.now()
		b.mu.Lock()
		for _, r := range rows {
			if r.ChangedAt.After(b.since) {
				b.since = r.ChangedAt
			}
			if _, known := b.entries[r.Lane]; !known && r.State.Settled(now) {
				continue
			}
			if b.adopt(r.Lane, r.State, now) {
				moved = append(moved, r.Lane)
			}
		}
		b.mu.Unlock()
		b.tell(moved)
		if len(rows) < most {
			return nil
		}
		// Others may have changed in the same microsecond.
		if next := rows[len(rows)-1].ChangedAt.Add(-time.Microsecond); next.After(from) {
			from = next
		} else {
			most *= 2
		}
	}
}

// write stores what only this process knows: all of it, or only what moves a
// circuit.
func (b *Board) write(ctx context.Context, onlyMoves bool) error {
	for {
		now := b.now()
		lanes, parts := b.collect(now, onlyMoves)
		if len(lanes) == 0 {
			return nil
		}
		phases := make([]breaker.Phase, len(lanes))
		states, err := b.deps.Store.ChangeBreakers(ctx, lanes, hub.NewID(now, b.deps.Random), func(i int, s breaker.State) (breaker.State, []hub.Notice) {
			after := parts[i].sums.apply(s, now)
			if p := parts[i].probe; p != nil {
				after = breaker.After(after, p.outcome, p.at)
			}
			phases[i] = ""
			if breaker.Moved(s, after) {
				phases[i] = after.Phase
			}
			return after, notices(lanes[i], s, after, now)
		})
		var moved []db.Lane
		b.mu.Lock()
		for i, lane := range lanes {
			e := b.entries[lane]
			e.busy = false
			if err != nil {
				// Nothing was stored, or we do not know: at worst it counts twice.
				e.sums, e.writing = e.writing.then(e.sums, now), nil
				if e.probe == nil {
					e.probe = parts[i].probe
				}
				e.look(now)
				continue
			}
			e.writing = nil
			if b.adopt(lane, states[i], now) {
				moved = append(moved, lane)
			}
		}
		b.mu.Unlock()
		if err != nil {
			return err
		}
		for _, p := range phases {
			if p != "" {
				b.moves.WithLabelValues(string(p)).Inc()
			}
		}
		b.tell(moved)
		if len(lanes) < maxWrite {
			return nil
		}
	}
}

// part is what a write adds to one breaker.
type part struct {
	sums  sums
	probe *ended
}

// collect takes what has to be written.
func (b *Board) collect(now time.Time, onlyMoves bool) (lanes []db.Lane, parts []part) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for lane, e := range b.entries {
		if e.busy || !e.unwritten(now) || onlyMoves && !breaker.Moved(e.stored, e.view) {
			continue
		}
		lanes = append(lanes, lane)
		parts = append(parts, part{e.sums, e.probe})
		e.writing, e.sums, e.probe, e.busy = e.sums, nil, nil, true
		if len(lanes) == maxWrite {
			break
		}
	}
	return lanes, parts
}

func (b *Board) tell(moved []db.Lane) {
	if b.deps.Moved != nil {
		for _, lane := range moved {
			b.deps.Moved(lane)
		}
	}
}

// forget drops what says nothing, and counts what is open.
func (b *Board) forget() {
	now := b.now()
	open := 0
	b.mu.Lock()
	for lane, e := range b.entries {
		if e.view.IsOpen() {
			open++
		}
		if !e.busy && now.Sub(e.usedAt) > forgetAfter && !e.unwritten(now) && e.view.Settled(now) {
			delete(b.entries, lane)
		}
	}
	b.mu.Unlock()
	b.open.Set(float64(open))
}

// notices tell of a move.
func notices(lane db.Lane, before, after breaker.State, now time.Time) []hub.Notice {
	n := hub.Notice{
		At: now, Tenant: lane.Tenant, Destination: lane.Destination,
		Breaker: &hub.BreakerNotice{
			Phase: string(after.Phase), Failures: after.Failures, OpenedAt: after.OpenedAt, NextProbeAt: after.NextProbeAt,
		},
	}
	switch {
	case after.Phase == before.Phase || after.Phase == breaker.Closed && !before.IsOpen():
		return nil
	case after.Phase == breaker.HalfOpen:
		n.Kind, n.Reason = hub.NoticeCircuitHalfOpen, "a probe is under way"
	case after.Phase == breaker.Open && before.Phase == breaker.HalfOpen:
		n.Kind, n.Reason = hub.NoticeCircuitOpened, "the probe failed"
	case after.Phase == breaker.Open:
		n.Kind, n.Reason = hub.NoticeCircuitOpened, breaker.Admit(after, now, false).Reason
	default:
		n.Kind, n.Reason = hub.NoticeCircuitClosed, "an attempt succeeded"
	}
	return []hub.Notice{n}
}
