package dispatch

// How ingest hands new deliveries to the workers of its own process, which
// saves the way through the queue.

import (
	"context"
	"sync"
	"time"

	"github.com/streaming-hub/streaming-hub/db"
	"github.com/streaming-hub/streaming-hub/hub"
)

// Reserve gives a lease token to the deliveries that this process will attempt
// itself, right after they are stored: those that are due, whose lane has no
// backlog and no reason to wait, and for which there is room.
func (p *Pool) Reserve(deliveries []db.NewDelivery) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stopping {
		return
	}
	for i := range deliveries {
		d := &deliveries[i]
		key := db.Lane{Tenant: d.Delivery.Tenant, Destination: d.Delivery.Destination}
		if why := p.leaves(d, key); why != "" {
			p.deps.Metrics.Queued.WithLabelValues(why).Inc()
			continue
		}
		d.LeaseToken = p.deps.Token()
		p.hold(p.lane(key), int(d.Delivery.BodyBytes), 1)
	}
}

// leaves says why a new delivery is left to the queue; "" when it is not.
func (p *Pool) leaves(d *db.NewDelivery, key db.Lane) string {
	switch {
	case d.DueIn > 0:
		return "later"
	case d.Limited:
		return "limited"
	case p.bytes >= maxHeldBytes:
		return "no_room"
	case p.hasBacklog(key):
		return "backlog"
	}
	held, c := 0, p.conductOf(key)
	if l, ok := p.lanes[key]; ok {
		held = l.held
	}
	suspect := c.manner.Suspect()
	room := p.room
	if held == 0 {
		room += Newcomers(p.room) // a flood of others does not keep it out
	}
	if suspect && p.suspectHeld >= SuspectRoom(p.deps.Workers) || !suspect && p.held-p.suspectHeld >= room {
		return "no_room"
	}
	ramp := p.deps.Circuits.Ramp(key)
	if held >= LaneShare(p.room, suspect, c.manner.Allowance(p.deps.Workers, ramp)) {
		return "lane_share"
	}
	if a := p.deps.Circuits.Admit(key, false); !a.Allow || a.Probe || ramp > 0 {
		return "circuit"
	}
	if allow, try := p.deps.Health.Admit(key); !allow || try {
		return "disabled"
	}
	return ""
}

// AwaitRoom waits until the workers can take n more deliveries and the queue
// has no backlog, if they are fast enough for that to come soon; at most
// maxYield. With slow destinations it returns at once: their deliveries wait
// in the queue, not in Kafka. Until taken is called, the room counts as
// promised to the caller, so that two batches do not count on the same.
func (p *Pool) AwaitRoom(ctx context.Context, n int) (taken func()) {
	deadline := time.NewTimer(maxYield)
	defer deadline.Stop()
	tick := time.NewTicker(yieldStep)
	defer tick.Stop()
	for over := false; ; {
		p.mu.Lock()
		used := p.held - p.suspectHeld + p.promised
		free := p.backlog.len() == 0 && (used == 0 || used+n <= p.room)
		slow := p.timed && p.pace*maxYield.Seconds() < float64(n)
		if free || slow || over {
			p.promised += n
			p.mu.Unlock()
			return sync.OnceFunc(func() {
				p.mu.Lock()
				p.promised -= n
				p.mu.Unlock()
			})
		}
		p.mu.Unlock()
		select {
		case <-tick.C:
		case <-deadline.C:
			over = true
		case <-ctx.Done():
			over = true
		}
	}
}

// Submit hands over the deliveries that were reserved and are now stored, and
// notes which lanes have work in the database. leasedAt is a time before the
// lease began.
func (p *Pool) Submit(deliveries []db.NewDelivery, events map[hub.EventID]*hub.Event, leasedAt time.Time) {
	p.mu.Lock()
	overflow := false
	for i := range deliveries {
		d := &deliveries[i]
		if d.LeaseToken != 0 {
			p.enqueue(&job{
				claim: db.Claim{Delivery: d.Delivery, LeaseToken: d.LeaseToken},
				event: events[d.Delivery.Event], leaseEnds: leasedAt.Add(p.deps.Lease),
			})
		} else if d.DueIn <= 0 {
			p.addBacklog(db.Lane{Tenant: d.Delivery.Tenant, Destination: d.Delivery.Destination})
			overflow = true
		}
	}
	stopping := p.stopping
	p.mu.Unlock()
	if overflow {
		p.signal()
	}
	if stopping {
		p.giveBackWaiting(context.Background())
	}
}

// Cancel takes reservations back: their batch was not stored.
func (p *Pool) Cancel(deliveries []db.NewDelivery) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range deliveries {
		d := &deliveries[i]
		if d.LeaseToken != 0 {
			key := db.Lane{Tenant: d.Delivery.Tenant, Destination: d.Delivery.Destination}
			p.drop(key, int(d.Delivery.BodyBytes))
			d.LeaseToken = 0
		}
	}
}
