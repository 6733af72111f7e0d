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
		case <-tick.C:
			look.pace()
			if begun := p.deps.Now(); !begun.Before(look.rested) {
				look.search(ctx)
				look.rested = begun.Add(lookRest * p.deps.Now().Sub(begun))
			}
		}
	}
}

// lookout searches the queue and measures the pace.
type lookout struct {
	pool     *Pool
	after    db.Lane
	failing  bool
	rested   time.Time // no search before it
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
	l.pool.paced = l.pool.paced || l.pool.finished > 0
	l.pool.finished = 0
	l.pool.pace += (measured - l.pool.pace) / 2
	l.pool.room = Room(l.pool.deps.Workers, l.pool.pace)
}

// search walks lanes from where the last search stopped and notes those that
// have something due.
func (l *lookout) search(ctx context.Context) {
	for range stepsPerLook {
		heads, err := l.pool.deps.Queue.Lanes(ctx, l.after, lanesPerStep)
		if err != nil {
			if !l.failing && ctx.Err() == nil {
				l.pool.deps.Log.Warn("cannot look for due deliveries; trying again", "error", err)
			}
			l.failing = true
			return
		}
		if l.failing {
			l.failing = false
			l.pool.deps.Log.Info("looking for due deliveries again")
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
		quotas, seen := p.nextQuotas()
		if len(quotas) == 0 {
			return
		}
		leaseEnds := p.deps.Now().Add(p.deps.Lease)
		claims, err := p.deps.Queue.ClaimLanes(ctx, quotas, p.deps.Lease)
		if err != nil {
			if ctx.Err() == nil {
				p.deps.Log.Warn("cannot claim deliveries; trying again", "error", err)
			}
			return
		}
		p.deps.Metrics.Claimed.Add(float64(len(claims)))
		p.noteClaimed(quotas, claims, seen)
		p.load(ctx, claims, leaseEnds)
	}
}

// nextQuotas takes lanes in turn while at least half of the room is free. seen
// remembers how fresh each lane's place in the backlog was.
func (p *Pool) nextQuotas() (quotas []db.LaneQuota, seen map[db.Lane]uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	free := p.room - p.held
	if p.held > p.room/2 || p.bytes >= maxHeldBytes || p.backlog.len() == 0 {
		return nil, nil
	}
	lanes := make([]db.Lane, 0, min(free, p.backlog.len()))
	for range cap(lanes) {
		key, _ := p.backlog.next()
		lanes = append(lanes, key)
	}
	quotas = Quotas(lanes, func(key db.Lane) int {
		if l, ok := p.lanes[key]; ok {
			return l.held
		}
		return 0
	}, free, p.room)
	seen = make(map[db.Lane]uint64, len(quotas))
	for _, q := range quotas {
		seen[q.Lane] = p.added[q.Lane]
	}
	return quotas, seen
}

// noteClaimed drops lanes that had less than their quota from the backlog,
// unless something was added to them meanwhile.
func (p *Pool) noteClaimed(quotas []db.LaneQuota, claims []db.Claim, seen map[db.Lane]uint64) {
	got := make(map[db.Lane]int, len(quotas))
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range claims {
		d := &claims[i].Delivery
		key := db.Lane{Tenant: d.Tenant, Destination: d.Destination}
		got[key]++
		p.hold(p.lane(key), int(d.BodyBytes), 1)
	}
	for _, q := range quotas {
		if got[q.Lane] < q.Quota && p.added[q.Lane] == seen[q.Lane] {
			p.backlog.remove(q.Lane)
			delete(p.added, q.Lane)
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
		if err != nil {
			if ctx.Err() == nil {
				p.deps.Log.Warn("cannot load claimed events; giving them back", "error", err)
			}
			p.giveBack(append(chunk[:n:n], claims...), 0)
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
			p.giveBack(gone, 10*time.Minute)
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

// giveBack lets go of claims that no worker took, due again after putOff.
func (p *Pool) giveBack(claims []db.Claim, putOff time.Duration) {
	p.mu.Lock()
	for i := range claims {
		d := &claims[i].Delivery
		p.drop(db.Lane{Tenant: d.Tenant, Destination: d.Destination}, int(d.BodyBytes))
	}
	p.mu.Unlock()
	for i := range claims {
		p.outcomes.release(claims[i], putOff)
	}
}
