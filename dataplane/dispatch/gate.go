package dispatch

import (
	"context"
	"time"

	"github.com/streaming-hub/streaming-hub/dataplane/snapshot"
	"github.com/streaming-hub/streaming-hub/db"
	"github.com/streaming-hub/streaming-hub/hub"
)

// patientLanes is how many patient lanes are looked at, at least: those with
// limits need no room of the suspects.
const patientLanes = 8

// nextQuotas takes lanes in turn while there is room, and says how much to
// claim of each. A lane that may not go on now leaves the backlog: the next
// search finds it again, and so does a circuit that moves. seen remembers how
// fresh each lane's place in the backlog was.
func (p *Pool) nextQuotas(ctx context.Context) (quotas []db.LaneQuota, seen map[db.Lane]uint64) {
	lanes := p.candidates()
	if len(lanes) == 0 {
		return nil, nil
	}
	destinations, err := p.destinations(ctx, lanes)
	if p.outages.Failed("read the destinations of due deliveries", err) {
		return nil, nil
	}
	p.askLimits(ctx, lanes, destinations, 0)

	p.mu.Lock()
	defer p.mu.Unlock()
	asks := make([]Ask, 0, len(lanes))
	for _, key := range lanes {
		ask, blocked := p.ask(key)
		switch {
		case blocked:
			p.dropBacklog(key)
		case ask.Most > 0:
			asks = append(asks, ask)
		}
	}
	quotas = Quotas(asks, p.room-(p.held-p.suspectHeld), SuspectRoom(p.deps.Workers)-p.suspectHeld)
	seen = make(map[db.Lane]uint64, len(quotas))
	for _, q := range quotas {
		seen[q.Lane] = p.added[q.Lane]
	}
	return quotas, seen
}

// candidates are the lanes whose turn it is: as many as there is room for,
// while at least half of it is free, and of the patient ones as many as their
// own room takes.
func (p *Pool) candidates() []db.Lane {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.bytes >= maxHeldBytes {
		return nil
	}
	var lanes []db.Lane
	if held := p.held - p.suspectHeld; held <= p.room/2 {
		for range min(p.room-held, p.backlog.len()) {
			key, _ := p.backlog.next()
			lanes = append(lanes, key)
		}
	}
	for range min(max(SuspectRoom(p.deps.Workers)-p.suspectHeld, patientLanes), p.patient.len()) {
		key, _ := p.patient.next()
		lanes = append(lanes, key)
	}
	return lanes
}

// ask is how much of a lane is worth claiming; blocked when nothing is until
// something changes.
func (p *Pool) ask(key db.Lane) (a Ask, blocked bool) {
	admission := p.deps.Circuits.Admit(key, false)
	allow, try := p.deps.Health.Admit(key)
	if !admission.Allow || !allow {
		return a, true
	}
	ramp := p.deps.Circuits.Ramp(key)
	a = p.share(key, ramp)
	held := 0
	if l, ok := p.lanes[key]; ok {
		held = l.held
	}
	if ramp > 0 {
		a.Most = min(a.Most, 2*ramp-held)
	}
	if admission.Probe || try {
		a.Most = min(a.Most, 1-held) // one delivery finds out
	}
	return a, false
}

// share is how much of a lane may be claimed beside what is held of it.
func (p *Pool) share(key db.Lane, ramp int) Ask {
	c, held, waiting, running := p.conductOf(key), 0, 0, 0
	if l, ok := p.lanes[key]; ok {
		held, waiting, running = l.held, len(l.waiting), l.running
	}
	a := Ask{Lane: key, Suspect: c.manner.Suspect()}
	a.Most = LaneShare(p.room, a.Suspect, c.manner.Allowance(p.deps.Workers, ramp)) - held
	if c.pace != nil {
		a.Most = min(a.Most, c.pace.Spare(p.deps.Now(), waiting, running))
	}
	return a
}

// destinations finds the destinations of lanes; nil for one that is unknown.
func (p *Pool) destinations(ctx context.Context, lanes []db.Lane) (map[db.Lane]*hub.Destination, error) {
	ids := make([]hub.TenantID, 0, len(lanes))
	known := make(map[hub.TenantID]bool, len(lanes))
	for _, l := range lanes {
		if !known[l.Tenant] {
			known[l.Tenant] = true
			ids = append(ids, l.Tenant)
		}
	}
	tenants, err := p.deps.Tenants.Get(ctx, ids)
	if err != nil {
		return nil, err
	}
	found := make(map[db.Lane]*hub.Destination, len(lanes))
	for _, l := range lanes {
		found[l] = destinationOf(tenants[l.Tenant], l.Destination)
	}
	return found, nil
}

func destinationOf(t *snapshot.Tenant, id hub.DestinationID) *hub.Destination {
	if t == nil {
		return nil
	}
	return t.Destination(id)
}

// askLimits asks for this process's part of the limits of those lanes that
// have some: for what may run at a time, and at least for so many attempts.
func (p *Pool) askLimits(ctx context.Context, lanes []db.Lane, destinations map[db.Lane]*hub.Destination, least int) {
	now := p.deps.Now()
	var requests []db.LimitRequest
	p.mu.Lock()
	for _, key := range lanes {
		c := p.limit(key, destinations[key])
		if c.pace == nil {
			continue
		}
		if r, ask := p.limitRequest(key, c, now, max(least, c.manner.Allowance(p.deps.Workers, p.deps.Circuits.Ramp(key)))); ask {
			requests = append(requests, r)
		}
	}
	p.mu.Unlock()
	p.shareLimits(ctx, requests, now)
}

// limit takes the limits of a lane's destination as they are now; it may be
// unknown.
func (p *Pool) limit(key db.Lane, d *hub.Destination) *conduct {
	c := p.conductOf(key)
	if d == nil || !d.Limited() {
		c.pace = nil
		delete(p.limited, key)
		return c
	}
	if c.pace == nil {
		c.pace = &pace{}
	}
	p.limited[key] = c
	c.pace.Set(d)
	return c
}

// renewLimits keeps the slots of what runs, and gives back what is not used.
func (p *Pool) renewLimits(ctx context.Context) {
	now := p.deps.Now()
	var requests []db.LimitRequest
	p.mu.Lock()
	for key, c := range p.limited {
		if r, ask := p.limitRequest(key, c, now, 0); ask {
			requests = append(requests, r)
		}
	}
	p.mu.Unlock()
	p.shareLimits(ctx, requests, now)
}

func (p *Pool) limitRequest(key db.Lane, c *conduct, now time.Time, wanted int) (db.LimitRequest, bool) {
	waiting, running := 0, 0
	if l, ok := p.lanes[key]; ok {
		waiting, running = len(l.waiting), l.running
	}
	starts, slots, ask := c.pace.Asks(now, max(wanted-waiting-running, 0), waiting, running)
	if !ask {
		return db.LimitRequest{}, false
	}
	c.pace.asked = now
	return db.LimitRequest{
		Lane: key, RateLimit: c.pace.rateLimit, MaxInFlight: c.pace.maxInFlight,
		Starts: starts, Wanted: slots, Running: int32(running),
	}, true
}

func (p *Pool) shareLimits(ctx context.Context, requests []db.LimitRequest, asked time.Time) {
	if len(requests) == 0 {
		return
	}
	grants, err := p.deps.Queue.ShareLimits(ctx, p.holder, slotsFor, requests)
	if p.outages.Failed("share the limits of destinations, whose deliveries wait", err, "destinations", len(requests)) {
		return
	}
	now := p.deps.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, g := range grants {
		key := requests[i].Lane
		c := p.conductOf(key)
		if c.pace == nil {
			continue
		}
		// Starts count from the answer, later than they were given; the lease of
		// slots from the question, earlier.
		c.pace.Take(g.Starts, g.Slots, now)
		c.pace.renewed = asked
		if l, ok := p.lanes[key]; ok {
			p.place(key, l)
		}
	}
}
