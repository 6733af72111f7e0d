package dispatch

import (
	"context"
	"time"

	"github.com/streaming-hub/streaming-hub/db"
	"github.com/streaming-hub/streaming-hub/hub"
)

const (
	// lookEvery is how often the queue is searched for work that nobody
	// announced: retries that came due, leases that ran out, and what other
	// processes left.
	lookEvery = 250 * time.Millisecond
	// Lanes per step of a search, and steps per search.
	lanesPerStep, stepsPerLook = 400, 10
	// A search that takes long, over thousands of lanes, is repeated only when
	// this many times as long has passed: it costs a tenth of a core at most.
	lookRest = 10
	// oursFor is how long a lane whose first row is due is believed to be
	// waiting for a worker of this process only.
	oursFor = time.Second
	// loadBytes bounds the bodies loaded by one statement.
	loadBytes = 8 << 20
)

// claimLoop keeps the workers supplied until ctx ends.
func (p *Pool) claimLoop(ctx context.Context) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	look := &lookout{pool: p, lastPace: p.deps.Now()}
	look.search(ctx)
	for {
		p.claimWhileRoom(ctx)
		select {
		case <-ctx.Done():
			return
		case <-p.wake:
		case <-p.due:
			look.searchRested(ctx)
		case <-tick.C:
			look.pace()
			p.noteSlow()
			p.renewLimits(ctx)
			look.last(ctx)
			look.searchRested(ctx)
		}
	}
}

// lookout searches the queue and measures the pace.
type lookout struct {
	pool     *Pool
	after    db.Lane
	rested   time.Time // no search before it
	lastOnes int       // where the round over open circuits stands
	lastAt   time.Time
	lastPace time.Time
}

// pace adapts the room to how fast deliveries are finished now.
func (l *lookout) pace() {
	now := l.pool.deps.Now()
	elapsed := now.Sub(l.lastPace).Seconds()
	if elapsed <= 0 {
		return
	}
	l.lastPace = now
	l.pool.mu.Lock()
	defer l.pool.mu.Unlock()
	measured := float64(l.pool.finished) / elapsed
	l.pool.timed = l.pool.timed || l.pool.finished > 0
	l.pool.finished = 0
	l.pool.pace += (measured - l.pool.pace) / 2
	l.pool.room = Room(l.pool.deps.Workers, l.pool.pace)
}

// searchRested searches unless the last search took so long that this one has
// to wait: looking takes a tenth of a core at most, whoever asks for it.
func (l *lookout) searchRested(ctx context.Context) {
	begun := l.pool.deps.Now()
	if begun.Before(l.rested) {
		return
	}
	l.search(ctx)
	l.rested = begun.Add(lookRest * l.pool.deps.Now().Sub(begun))
}

// search walks lanes from where the last search stopped and notes those that
// have something due.
func (l *lookout) search(ctx context.Context) {
	for range stepsPerLook {
		heads, err := l.pool.deps.Queue.Lanes(ctx, l.after, lanesPerStep)
		if l.pool.outages.Failed("look for due deliveries", err) {
			return
		}
		l.pool.mu.Lock()
		for _, h := range heads {
			if h.DueIn <= 0 && !l.pool.isOurs(h) {
				l.pool.addBacklog(h.Lane)
			}
		}
		l.pool.mu.Unlock()
		if len(heads) < lanesPerStep {
			l.after = db.Lane{} // the end: begin again next time
			return
		}
		l.after = heads[len(heads)-1].Lane
	}
}

// isOurs says that a lane's earliest row is very likely one that this process
// holds: leased rows show as due. What stands behind it is found when it is
// gone, or when it stays for longer than oursFor.
func (p *Pool) isOurs(h db.LaneHead) bool {
	l, ok := p.lanes[h.Lane]
	return ok && l.held > 0 && h.DueIn > -oursFor
}

// claimWhileRoom claims until the room is half full again or no lane has more.
func (p *Pool) claimWhileRoom(ctx context.Context) {
	for ctx.Err() == nil {
		quotas, seen := p.nextQuotas(ctx)
		if len(quotas) == 0 {
			return
		}
		leaseEnds := p.deps.Now().Add(p.deps.Lease)
		claims, err := p.deps.Queue.ClaimLanes(ctx, quotas, p.deps.Lease)
		if p.outages.Failed("claim deliveries", err) {
			return
		}
		p.noteClaimed(quotas, claims, seen)
		p.claimed(ctx, claims, leaseEnds)
	}
}

// claimed takes claims in.
func (p *Pool) claimed(ctx context.Context, claims []db.Claim, leaseEnds time.Time) {
	p.deps.Metrics.Claimed.Add(float64(len(claims)))
	p.mu.Lock()
	for i := range claims {
		d := &claims[i].Delivery
		p.hold(p.lane(db.Lane{Tenant: d.Tenant, Destination: d.Destination}), int(d.BodyBytes), 1)
	}
	p.mu.Unlock()
	p.load(ctx, p.buryPoison(ctx, claims), leaseEnds)
}

// noteClaimed drops lanes that had less than their quota from the backlog,
// unless something was added to them meanwhile.
func (p *Pool) noteClaimed(quotas []db.LaneQuota, claims []db.Claim, seen map[db.Lane]uint64) {
	got := make(map[db.Lane]int, len(quotas))
	for i := range claims {
		d := &claims[i].Delivery
		got[db.Lane{Tenant: d.Tenant, Destination: d.Destination}]++
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, q := range quotas {
		if got[q.Lane] < q.Quota && p.added[q.Lane] == seen[q.Lane] {
			p.dropBacklog(q.Lane)
		}
	}
}

// load fetches the events of claims, some at a time, and hands them to the
// workers.
func (p *Pool) load(ctx context.Context, claims []db.Claim, leaseEnds time.Time) {
	for len(claims) > 0 {
		bytes, n := 0, 0
		for n < len(claims) && (n == 0 || bytes+int(claims[n].Delivery.BodyBytes) <= loadBytes) {
			bytes += int(claims[n].Delivery.BodyBytes)
			n++
		}
		chunk := claims[:n]
		claims = claims[n:]
		events, err := p.eventsOf(ctx, chunk)
		if p.outages.Failed("load the events of claimed deliveries", err) {
			p.giveBack(append(chunk[:n:n], claims...), db.Release{})
			return
		}
		var gone []db.Claim
		p.mu.Lock()
		for i := range chunk {
			if ev := events[chunk[i].Delivery.Event]; ev != nil {
				p.enqueue(&job{claim: chunk[i], event: ev, leaseEnds: leaseEnds})
			} else {
				gone = append(gone, chunk[i])
			}
		}
		p.mu.Unlock()
		if len(gone) > 0 {
			p.deps.Log.Error("deliveries wait for events that are not stored any more", "deliveries", len(gone))
			p.giveBack(gone, db.Release{PutOff: 10 * time.Minute})
		}
	}
}

func (p *Pool) eventsOf(ctx context.Context, claims []db.Claim) (map[hub.EventID]*hub.Event, error) {
	events := make(map[hub.EventID]*hub.Event, len(claims))
	ids := make([]hub.ID, 0, len(claims))
	for i := range claims {
		id := claims[i].Delivery.Event
		if _, ok := events[id]; !ok {
			events[id] = nil
			ids = append(ids, id.ID)
		}
	}
	loaded, err := p.deps.Queue.Events(ctx, ids)
	if err != nil {
		return nil, err
	}
	for i := range loaded {
		events[loaded[i].ID] = &loaded[i]
	}
	return events, nil
}

// giveBack lets go of claims that no worker took, in the given way.
func (p *Pool) giveBack(claims []db.Claim, way db.Release) {
	p.mu.Lock()
	for i := range claims {
		d := &claims[i].Delivery
		p.drop(db.Lane{Tenant: d.Tenant, Destination: d.Destination}, int(d.BodyBytes))
	}
	p.mu.Unlock()
	for i := range claims {
		way.Claim = claims[i]
		p.outcomes.release(way)
	}
}
