package dispatch

import (
	"context"
	"fmt"

	"github.com/streaming-hub/streaming-hub/db"
	"github.com/streaming-hub/streaming-hub/hub"
)

// A delivery whose lease ended without an outcome may be one that processes
// die of. From then on it runs alone: of all such deliveries a process attempts
// one at a time, and it notes in the database that it begins. Only a lease that
// ends after such a note is counted against the delivery, so that a crash
// never poisons those that merely were under way beside it.

// alone reports whether a lease of the delivery has ended without an outcome.
func (j *job) alone() bool { return j.claim.Reclaims > 0 }

// nextAlone is the next of them whose turn it is.
func (p *Pool) nextAlone() *job {
	if len(p.alone) == 0 || p.aloneRuns {
		return nil
	}
	j := p.alone[0]
	key := j.lane()
	l := p.lane(key)
	if !p.paced(key, l) {
		return nil
	}
	p.alone = p.alone[1:]
	p.aloneRuns = true
	p.start(key, l, j)
	return j
}

// beginAlone notes that a lone run begins; false when the lease was lost or
// the note could not be made.
func (p *Pool) beginAlone(ctx context.Context, j *job) bool {
	leaseEnds := p.deps.Now().Add(p.deps.Lease)
	ours, err := p.deps.Queue.BeginAlone(ctx, j.claim, p.deps.Lease)
	if p.outages.Failed("begin a lone run, whose lease runs out", err, "delivery", j.claim.Delivery.ID.String()) {
		return false
	}
	j.leaseEnds = leaseEnds
	return ours
}

// poisoned reports whether a claim has used up its lone runs.
func poisoned(c *db.Claim, threshold int) bool { return int(c.Reclaims)-1 > threshold }

// buryPoison ends the claims that have used up their lone runs and returns the
// others.
func (p *Pool) buryPoison(ctx context.Context, claims []db.Claim) []db.Claim {
	kept := make([]db.Claim, 0, len(claims))
	var poison []db.Claim
	for _, c := range claims {
		if poisoned(&c, p.deps.Poison) {
			poison = append(poison, c)
		} else {
			kept = append(kept, c)
		}
	}
	if len(poison) == 0 {
		return kept
	}
	events, err := p.eventsOf(ctx, poison)
	if err != nil {
		p.giveBack(poison, db.Release{}) // they end when the database answers
		return kept
	}
	for i := range poison {
		c := &poison[i]
		why := fmt.Sprintf("%d attempts in a row ended without a recorded outcome: their processes died, or stood still for longer than the lease", c.Reclaims-1)
		p.deps.Log.Error("a delivery is given up as poison", "delivery", c.Delivery.ID.String(), "lone_runs", c.Reclaims-1)
		p.outcomes.write(ctx, p.end(&c.Delivery, c.LeaseToken, events[c.Delivery.Event], hub.DeadPoison, why))
		p.mu.Lock()
		p.drop(db.Lane{Tenant: c.Delivery.Tenant, Destination: c.Delivery.Destination}, int(c.Delivery.BodyBytes))
		p.mu.Unlock()
	}
	return kept
}
