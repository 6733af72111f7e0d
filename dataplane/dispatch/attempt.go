package dispatch

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/streaming-hub/streaming-hub/dataplane/sink"
	"github.com/streaming-hub/streaming-hub/dataplane/snapshot"
	"github.com/streaming-hub/streaming-hub/db"
	"github.com/streaming-hub/streaming-hub/hub"
	"github.com/streaming-hub/streaming-hub/hub/breaker"
	"github.com/streaming-hub/streaming-hub/hub/fingerprint"
	"github.com/streaming-hub/streaming-hub/hub/retry"
)

const (
	// leaseMargin is kept between the end of an attempt's timeout and the end
	// of its lease, for recording the outcome and for clocks that differ.
	leaseMargin = 2 * time.Second
	// probeDelay is how long after taking a probe its attempt may still begin,
	// so that it ends well within breaker.ProbeLease.
	probeDelay = breaker.ProbeLease - hub.MaxTimeout - 10*time.Second
)

// work attempts jobs one after the other until the pool stops.
func (p *Pool) work(ctx context.Context) {
	for {
		j := p.take()
		if j == nil {
			return
		}
		attempted, succeeded := p.guarded(ctx, j)
		p.finish(j, attempted, succeeded)
	}
}

// guarded is attempt, kept from taking the process down. A panic is a fault of
// ours that the delivery provokes: its lease runs out, and if that goes on it
// ends as poison.
func (p *Pool) guarded(ctx context.Context, j *job) (attempted, succeeded bool) {
	defer func() {
		if fault := recover(); fault != nil {
			p.deps.Metrics.Panics.Inc()
			p.deps.Log.Error("an attempt panicked; the lease of its delivery runs out",
				"delivery", j.claim.Delivery.ID.String(), "panic", fmt.Sprint(fault), "stack", string(debug.Stack()))
		}
	}()
	return p.attempt(ctx, j)
}

// attempt makes one attempt, or gives the delivery back or ends it when none
// may be made. Giving back uses up no attempt.
func (p *Pool) attempt(ctx context.Context, j *job) (attempted, succeeded bool) {
	d := &j.claim.Delivery
	route, refused := p.route(ctx, j)
	if refused != nil {
		p.refuse(ctx, j, refused)
		return false, false
	}
	if j.alone() && !p.beginAlone(ctx, j) {
		return false, false
	}
	id := hub.AttemptID{ID: hub.NewID(p.deps.Now(), p.deps.Random)}
	pass, refused := p.admit(ctx, j, route, id)
	if refused != nil {
		p.refuse(ctx, j, refused)
		return false, false
	}
	started := p.deps.Now()
	event := p.deps.Tracer.Outbound(j.event, id)
	made := p.deps.Sink.Attempt(ctx, sink.Job{
		Event: event, Delivery: d, AttemptID: id, Number: d.Attempts + 1,
		URL: route.Destination.URL, Signer: route.Signer, Timeout: route.Subscription.Timeout,
		Headers: route.Headers, Credential: route.Credential, Certificate: route.Certificate,
	})
	switch made.Failure.Class {
	case hub.ErrCancelled:
		p.giveProbeBack(j, pass)
		return false, false // the process is being ended; the lease runs out by itself
	case hub.ErrNoSecret:
		p.giveProbeBack(j, pass)
		p.unsigned(errors.New(made.Failure.Detail))
		p.refuse(ctx, j, &refusal{why: "unsigned", way: db.Release{PutOff: 10 * time.Second}})
		return false, false
	}
	now := p.deps.Now()
	decision := Decide(d, &made, route.Policy, p.deps.Jitter(), now)
	p.deps.Metrics.attempt(&made, &decision)
	if d.Attempts == 0 {
		p.deps.Metrics.FirstAttemptDelay.Observe(started.Sub(d.ReceivedAt).Seconds())
	}
	if !d.Test {
		p.learn(j, route, pass, &made, now)
	}
	if event != j.event {
		made.TraceParent = event.TraceParent
	}
	outcome := hub.Outcome{
		Delivery: *d, Token: j.claim.LeaseToken, Attempt: made, Decision: decision,
		EventType: j.event.Key(), Source: j.event.Source,
	}
	p.deps.Tracer.Attempted(j.event, &outcome, route.Destination.URL, now)
	p.outcomes.write(ctx, outcome)
	return true, !made.Failure.Failed()
}

// pass is what an attempt was let through as.
type pass struct {
	generation int64
	probe      hub.AttemptID
	try        bool
}

// giveProbeBack lets another delivery be the probe, soon: this attempt is not
// made, or told nothing. Without it the circuit would wait for the probe's
// lease to run out. A probe that was replaced meanwhile is nobody's business.
func (p *Pool) giveProbeBack(j *job, got pass) {
	if !got.probe.IsZero() {
		p.deps.Circuits.Record(j.lane(), breaker.Outcome{Kind: breaker.Neutral, Generation: got.generation, Probe: got.probe})
	}
}

// learn tells circuit and failure policies of an attempt.
func (p *Pool) learn(j *job, route *snapshot.Route, pass pass, made *hub.Attempt, now time.Time) {
	asked, _ := retry.RetryAfter(made.Answer.Status, made.Answer.RetryAfter, now)
	p.deps.Circuits.Record(j.lane(), breaker.Outcome{
		Kind:       breaker.KindOf(made.Answer.Status, made.Failure.Class),
		Generation: pass.generation, Probe: pass.probe, RetryAfter: asked,
	})
	p.deps.Health.Record(Observed{
		Lane: j.lane(), Subscription: j.claim.Delivery.Subscription, Policy: route.Destination.FailurePolicy,
		Status: made.Answer.Status, Class: made.Failure.Class, Try: pass.try, Replay: j.claim.Delivery.Run > 1,
		Gone: made.Answer.Status == 410 && route.Subscription.DisableOnGone,
	})
}

// refusal is why there is no attempt now: the delivery is given back, or it
// ends.
type refusal struct {
	why  string // for the metric
	way  db.Release
	dead hub.DeadReason
	text string // of the end
}

func (p *Pool) refuse(ctx context.Context, j *job, r *refusal) {
	p.deps.Metrics.PutOff.WithLabelValues(r.why).Inc()
	if r.dead != "" {
		p.outcomes.write(ctx, p.end(&j.claim.Delivery, j.claim.LeaseToken, j.event, r.dead, r.text))
		return
	}
	r.way.Claim = j.claim
	p.outcomes.release(r.way)
}

// end is the outcome of a delivery that ends without a further attempt. The
// event may be nil.
func (p *Pool) end(d *hub.Delivery, token int64, ev *hub.Event, reason hub.DeadReason, text string) hub.Outcome {
	now := p.deps.Now()
	o := hub.Outcome{
		Delivery: *d, Token: token,
		Attempt: hub.Attempt{
			ID: hub.AttemptID{ID: hub.NewID(now, p.deps.Random)}, Started: now, Failure: hub.Failure{Detail: text},
		},
		Decision: hub.Decision{
			State: hub.Dead, DeadReason: reason, Reason: text,
			Fingerprint: fingerprint.Of(fingerprint.Cause{Destination: d.Destination, Reason: reason}),
		},
	}
	if ev != nil {
		o.EventType, o.Source = ev.Key(), ev.Source
	}
	return o
}

// errLeaseTooShort is told once; readiness and the metric of refusals go on.
var errLeaseTooShort = errors.New("the attempt would outlast its lease")

// route is the way of a job, or why it cannot go now.
func (p *Pool) route(ctx context.Context, j *job) (*snapshot.Route, *refusal) {
	d := &j.claim.Delivery
	tenant, err := p.tenant(ctx, d)
	if p.outages.Failed("read the subscriptions of deliveries", err) {
		return nil, &refusal{why: "database", way: db.Release{PutOff: time.Second}}
	}
	route := tenant.Route(d.Subscription)
	switch {
	case route == nil:
		return nil, p.withoutSubscription(ctx, d)
	case !route.Subscription.Deliverable() && !d.Test:
		return nil, &refusal{why: "not_deliverable", way: db.Release{Hold: true}}
	case route.Destination.ID != d.Destination:
		return nil, &refusal{why: "moved", way: db.Release{To: route.Destination.ID}}
	case route.Signer == nil:
		p.unsigned(route.Unsigned)
		return nil, &refusal{why: "unsigned", way: db.Release{PutOff: 10 * time.Second}}
	case p.deps.MaxBody > 0 && int(d.BodyBytes) > p.deps.MaxBody:
		return nil, &refusal{
			why: "too_large", dead: hub.DeadPayloadTooLarge,
			text: fmt.Sprintf("the event's body has %d bytes, and the hub sends at most %d", d.BodyBytes, p.deps.MaxBody),
		}
	case route.Subscription.Timeout+leaseMargin > p.deps.Lease:
		p.outages.Failed("fit the timeout of a subscription, whose deliveries wait, into DISPATCH_LEASE", errLeaseTooShort,
			"subscription", d.Subscription.String(), "timeout", route.Subscription.Timeout, "lease", p.deps.Lease)
		return nil, &refusal{why: "lease_too_short", way: db.Release{PutOff: time.Minute}}
	case !j.alone() && p.deps.Now().Add(route.Subscription.Timeout+leaseMargin).After(j.leaseEnds):
		return nil, &refusal{why: "lease_too_short"}
	}
	return route, nil
}

// tenant is what is known of a delivery's tenant, at most a second old. A test
// send is about what somebody changed just now: for it the database is asked.
func (p *Pool) tenant(ctx context.Context, d *hub.Delivery) (*snapshot.Tenant, error) {
	if d.Test {
		return p.deps.Tenants.Current(ctx, d.Tenant)
	}
	tenants, err := p.deps.Tenants.Get(ctx, []hub.TenantID{d.Tenant})
	return tenants[d.Tenant], err
}

// withoutSubscription is what becomes of a delivery whose subscription this
// process does not know: it may be too new to be known here.
func (p *Pool) withoutSubscription(ctx context.Context, d *hub.Delivery) *refusal {
	exists, err := p.deps.Queue.SubscriptionExists(ctx, d.Subscription)
	if err != nil || exists {
		return &refusal{why: "unknown_subscription", way: db.Release{PutOff: time.Second}}
	}
	return &refusal{
		why: "deleted", dead: hub.DeadSubscriptionDeleted, text: "the event subscription was deleted while the delivery waited",
	}
}

// admit asks circuit and failure policy. A probe or try is taken here, last of
// all, because from here on it is used up.
func (p *Pool) admit(ctx context.Context, j *job, route *snapshot.Route, id hub.AttemptID) (pass, *refusal) {
	d, lane := &j.claim.Delivery, j.lane()
	if d.Test {
		return pass{}, nil
	}
	allow, try := p.deps.Health.Admit(lane)
	if !allow {
		return pass{}, &refusal{why: "disabled"}
	}
	now := p.deps.Now()
	last := !d.LastAt.IsZero() && !now.Before(d.LastAt)
	a := p.deps.Circuits.Admit(lane, last)
	if !a.Allow {
		return pass{}, &refusal{why: "circuit_open"}
	}
	got := pass{generation: a.Generation}
	if a.Probe {
		generation, taken, err := p.deps.Circuits.TakeProbe(ctx, lane, id)
		switch late := p.deps.Now().Sub(now) > probeDelay; {
		case p.outages.Failed("take the probe of an open circuit", err):
			return pass{}, &refusal{why: "database", way: db.Release{PutOff: time.Second}}
		case taken && !late:
			got.generation, got.probe = generation, id
		case !last || late:
			if taken {
				p.giveProbeBack(j, pass{generation: generation, probe: id})
			}
			return pass{}, &refusal{why: "circuit_open"}
		}
	}
	if try {
		taken, err := p.deps.Health.TakeTry(ctx, lane, route.Destination.FailurePolicy)
		if err != nil || !taken {
			// The probe goes back: a lost try would cost ten minutes, so it is
			// taken last.
			p.giveProbeBack(j, got)
			return pass{}, &refusal{why: "disabled"}
		}
		got.try = true
	}
	return got, nil
}
