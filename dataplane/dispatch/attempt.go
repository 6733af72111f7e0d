package dispatch

import (
	"context"
	"time"

	"github.com/streaming-hub/streaming-hub/dataplane/sink"
	"github.com/streaming-hub/streaming-hub/dataplane/snapshot"
	"github.com/streaming-hub/streaming-hub/hub"
)

// leaseMargin is kept between the end of an attempt's timeout and the end of
// its lease, for recording the outcome and for clocks that differ.
const leaseMargin = 2 * time.Second

// work attempts jobs one after the other until the pool stops.
func (p *Pool) work(ctx context.Context) {
	for {
		j := p.take()
		if j == nil {
			return
		}
		p.attempt(ctx, j)
		p.finish(j)
	}
}

// attempt makes one attempt, or gives the delivery back when none may be made
// now. Giving back uses up no attempt.
func (p *Pool) attempt(ctx context.Context, j *job) {
	route, putOff := p.route(ctx, j)
	if route == nil {
		p.outcomes.release(j.claim, putOff)
		return
	}
	d := &j.claim.Delivery
	started := p.deps.Now()
	made := p.deps.Sink.Attempt(ctx, sink.Job{
		Event: j.event, Delivery: d,
		AttemptID: hub.AttemptID{ID: hub.NewID(started, p.deps.Random)}, Number: d.Attempts + 1,
		URL: route.Destination.URL, Signer: route.Signer, Timeout: route.Subscription.Timeout,
	})
	if made.Failure.Class == hub.ErrCancelled {
		return // the process is being ended; the lease runs out by itself
	}
	now := p.deps.Now()
	decision := Decide(d, &made, route.Policy, p.deps.Jitter(), now)
	p.deps.Metrics.attempt(&made, &decision)
	if d.Attempts == 0 {
		p.deps.Metrics.FirstAttemptDelay.Observe(started.Sub(d.ReceivedAt).Seconds())
	}
	p.outcomes.write(ctx, hub.Outcome{
		Delivery: *d, Token: j.claim.LeaseToken, Attempt: made, Decision: decision,
		EventType: j.event.Key(), Source: j.event.Source,
	})
}

// route is the way of a job, or nil and how long to put it off.
func (p *Pool) route(ctx context.Context, j *job) (*snapshot.Route, time.Duration) {
	d := &j.claim.Delivery
	tenants, err := p.deps.Tenants.Get(ctx, []hub.TenantID{d.Tenant})
	if err != nil {
		p.deps.Log.Warn("cannot read a delivery's subscription; trying again", "delivery", d.ID.String(), "error", err)
		return nil, time.Second
	}
	route := tenants[d.Tenant].Route(d.Subscription)
	switch {
	case route == nil:
		p.deps.Metrics.PutOff.WithLabelValues("no_subscription").Inc()
		return nil, time.Minute
	case !route.Subscription.Deliverable():
		p.deps.Metrics.PutOff.WithLabelValues("not_deliverable").Inc()
		return nil, 30 * time.Second
	case route.Signer == nil:
		p.deps.Metrics.PutOff.WithLabelValues("unsigned").Inc()
		p.unsigned(route.Unsigned)
		return nil, 10 * time.Second
	case p.deps.Now().Add(route.Subscription.Timeout + leaseMargin).After(j.leaseEnds):
		p.deps.Metrics.PutOff.WithLabelValues("lease_too_short").Inc()
		return nil, 0
	}
	return route, 0
}
