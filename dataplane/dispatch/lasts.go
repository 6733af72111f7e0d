package dispatch

import (
	"context"
	"slices"
	"time"

	"github.com/streaming-hub/streaming-hub/db"
)

const (
	// lastEvery is how often last attempts behind open circuits are looked for.
	lastEvery = 500 * time.Millisecond
	// lastsAtOnce is how many of one destination each time, at most: thousands
	// end within minutes, one after the other, and what may be dead is asked no
	// faster than ten times a second by a process.
	lastsAtOnce = 5
)

// last claims last attempts behind open circuits, and test sends to
// destinations that are switched off: an index of their own finds them. Each
// time it asks for as many lanes as one statement takes, in turn.
func (l *lookout) last(ctx context.Context) {
	p, now := l.pool, l.pool.deps.Now()
	if now.Sub(l.lastAt) < lastEvery {
		return
	}
	l.lastAt = now
	all := blocked(p.deps.Circuits.OpenLanes(), p.deps.Health.OffLanes())
	var some []db.LaneQuota
	for range min(len(all), lanesPerStep) {
		l.lastOnes = (l.lastOnes + 1) % len(all)
		some = append(some, all[l.lastOnes])
	}
	quotas := p.lastQuotas(ctx, some)
	if len(quotas) == 0 {
		return
	}
	leaseEnds := p.deps.Now().Add(p.deps.Lease)
	claims, err := p.deps.Queue.ClaimLast(ctx, quotas, p.deps.Lease)
	if p.outages.Failed("claim last attempts", err) {
		return
	}
	p.noteLasts(quotas, claims)
	p.claimed(ctx, claims, leaseEnds)
}

// blocked are the lanes that are not claimed otherwise, each with what may go
// all the same.
func blocked(open, off []db.Lane) []db.LaneQuota {
	switchedOff := make(map[db.Lane]bool, len(off))
	for _, l := range off {
		switchedOff[l] = true
	}
	for _, l := range open {
		if !switchedOff[l] {
			off = append(off, l)
		}
	}
	slices.SortFunc(off, db.Lane.Compare)
	quotas := make([]db.LaneQuota, len(off))
	for i, l := range off {
		quotas[i] = db.LaneQuota{Lane: l, Quota: lastsAtOnce, TestsOnly: switchedOff[l]}
	}
	return quotas
}

// lastQuotas says how much to claim of lanes that only last attempts and test
// sends may leave: no more than their destinations' limits and their share of
// the room admit. When the room is full they take that of newcomers, so that
// no backlog keeps them waiting.
func (p *Pool) lastQuotas(ctx context.Context, lanes []db.LaneQuota) []db.LaneQuota {
	if len(lanes) == 0 {
		return nil
	}
	keys, testsOnly := make([]db.Lane, len(lanes)), make(map[db.Lane]bool, len(lanes))
	for i, q := range lanes {
		keys[i], testsOnly[q.Lane] = q.Lane, q.TestsOnly
	}
	destinations, err := p.destinations(ctx, keys)
	if p.outages.Failed("read the destinations of last attempts", err) {
		return nil
	}
	p.askLimits(ctx, p.withLasts(keys), destinations, lastsAtOnce)

	p.mu.Lock()
	defer p.mu.Unlock()
	asks := make([]Ask, 0, len(lanes))
	for _, q := range lanes {
		c := p.limit(q.Lane, destinations[q.Lane])
		a := p.share(q.Lane, p.deps.Circuits.Ramp(q.Lane))
		if _, holds := p.lanes[q.Lane]; c.pace != nil && !c.lasts && !holds {
			a.Most = 1 // shows whether there are any; it waits for the limits
		}
		if a.Most = min(a.Most, q.Quota); a.Most > 0 {
			asks = append(asks, a)
		}
	}
	quotas := Quotas(asks, p.room+Newcomers(p.room)-(p.held-p.suspectHeld), SuspectRoom(p.deps.Workers)-p.suspectHeld)
	for i := range quotas {
		quotas[i].TestsOnly = testsOnly[quotas[i].Lane]
	}
	return quotas
}

// withLasts are those of the lanes of which the last look found something: for
// others nothing is asked of the database.
func (p *Pool) withLasts(lanes []db.Lane) (some []db.Lane) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, key := range lanes {
		if p.conductOf(key).lasts {
			some = append(some, key)
		}
	}
	return some
}

// noteLasts remembers of which lanes there was something.
func (p *Pool) noteLasts(quotas []db.LaneQuota, claims []db.Claim) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, q := range quotas {
		p.conductOf(q.Lane).lasts = false
	}
	for i := range claims {
		d := &claims[i].Delivery
		p.conductOf(db.Lane{Tenant: d.Tenant, Destination: d.Destination}).lasts = true
	}
}
