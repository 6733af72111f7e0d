// Package health applies the failure policies: it sums what this process sees
// of subscriptions and destinations, shares it with the other replicas, and
// switches off what a policy gives up.
//
//	board.go   what this process saw, and what may be attempted
//	spans.go   FAILURE_SPAN: writes spans, sweeps them, disables subscriptions
//	gone.go    receivers that answered 410
//	rates.go   FAILURE_RATE: writes rates, sweeps them, takes tries
//
// The rules are in hub/health. What must hold, and why:
//
//   - A verdict is found again under the lock under which it is acted on, so a
//     subscription is switched off once, however many replicas see why, and not
//     at all when a success came in between.
//   - Of what only succeeds nothing is written.
//   - The kill switch stops what is done, not what is found: the verdict is
//     shown, and told once.
package health

import (
	"context"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/streaming-hub/streaming-hub/dataplane/dispatch"
	"github.com/streaming-hub/streaming-hub/db"
	"github.com/streaming-hub/streaming-hub/hub"
	"github.com/streaming-hub/streaming-hub/hub/health"
)

// Store keeps what the policies of all replicas count.
type Store interface {
	SpansChangedSince(ctx context.Context, since time.Time, limit int) ([]db.FailureSpan, time.Time, error)
	LongSpans(ctx context.Context, began time.Time, after hub.SubscriptionID, limit int) ([]db.FailureSpan, error)
	ChangeSpans(ctx context.Context, wanted []db.FailureSpan, feedID hub.ID, change func(i int, stored db.FailureSpan) (db.FailureSpan, []hub.Notice)) ([]db.FailureSpan, error)
	DisableSubscription(ctx context.Context, r db.AutoDisable) (bool, error)
	RatesNotActive(ctx context.Context, limit int) ([]db.StoredRate, error)
	ChangeRates(ctx context.Context, lanes []db.Lane, feedID hub.ID, change func(i int, stored health.Rate) (health.Rate, []hub.Notice)) ([]health.Rate, error)
	PublishNotices(ctx context.Context, feedID hub.ID, notices []hub.Notice) error
}

// Deps are what a Board works with.
type Deps struct {
	Store Store
	// Span are the gates of FAILURE_SPAN.
	Span health.SpanSettings
	// Act is the kill switch: when false verdicts are found and shown, and
	// nothing is switched off.
	Act     bool
	Now     func() time.Time
	Random  io.Reader
	Metrics prometheus.Registerer
	Log     *slog.Logger
}

// Board holds what this process saw and has not shared, and what it knows of
// others. It is safe for concurrent use.
type Board struct {
	deps     Deps
	wake     chan struct{}
	disabled *prometheus.CounterVec

	mu    sync.Mutex
	spans map[place]*span
	rates map[db.Lane]*rate
	gone  map[place]hub.TenantID // answered 410, and asked to be disabled then
	told  map[place]time.Time    // when it was told what the kill switch kept from being done
	since time.Time
}

// place is a subscription with the destination that it had: after a change of
// the URL, what is under way to the old one says nothing about the new one.
type place struct {
	subscription hub.SubscriptionID
	destination  hub.DestinationID
}

// span is one subscription's.
type span struct {
	tenant hub.TenantID
	open   bool // as far as is known, a span is stored
	delta  health.SpanDelta
	gone   bool // the receiver answered 410, and the kill switch is on
	usedAt time.Time
}

// rate is one destination's.
type rate struct {
	settings health.RateSettings // zero until this process attempted it
	stored   health.Rate         // as far as is known
	delta    health.RateDelta
	tried    *tried
	usedAt   time.Time
}

// tried is the outcome of the one try of a disabled destination.
type tried struct {
	outcome health.Outcome
	at      time.Time
}

// New makes an empty board.
func New(d Deps) *Board {
	if d.Span.Validate() != nil {
		d.Span = health.DefaultSpan()
	}
	b := &Board{
		deps: d, wake: make(chan struct{}, 1), spans: map[place]*span{}, rates: map[db.Lane]*rate{},
		gone: map[place]hub.TenantID{}, told: map[place]time.Time{},
		disabled: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "streaming_hub_switched_off_total",
			Help: "What this process switched off, or would have without the kill switch, by why.",
		}, []string{"why", "done"}),
	}
	if d.Metrics != nil {
		d.Metrics.MustRegister(b.disabled)
	}
	return b
}

// Record takes an attempt that ended now.
func (b *Board) Record(o dispatch.Observed) {
	outcome := health.OutcomeOf(o.Class, o.Replay)
	now := b.now()
	b.mu.Lock()
	defer b.mu.Unlock()
	gone := o.Gone && !o.Replay
	if o.Policy.Kind == hub.FailureRate || o.Try {
		b.recordRate(o, outcome, now)
	} else {
		b.recordSpan(o, outcome, gone && !b.deps.Act, now)
		gone = gone && b.deps.Act
	}
	if gone {
		b.gone[place{o.Subscription, o.Lane.Destination}] = o.Lane.Tenant
		b.signal()
	}
}

// recordSpan takes an attempt into the subscription's sum. gone is for the
// kill switch: the verdict is kept with the span and shown there.
func (b *Board) recordSpan(o dispatch.Observed, outcome health.Outcome, gone bool, now time.Time) {
	key := place{o.Subscription, o.Lane.Destination}
	s, ok := b.spans[key]
	if !ok {
		s = &span{tenant: o.Lane.Tenant}
		b.spans[key] = s
	}
	s.usedAt = now
	s.delta = s.delta.Add(outcome, now)
	s.gone = (s.gone || gone) && s.delta.Failures.Open()
}

func (b *Board) recordRate(o dispatch.Observed, outcome health.Outcome, now time.Time) {
	r := b.rate(o.Lane, now)
	r.settings = health.RateSettingsOf(o.Policy)
	if o.Try {
		r.tried = &tried{outcome, now}
		b.signal()
		return
	}
	r.delta = r.delta.Add(outcome, now)
}

func (b *Board) rate(lane db.Lane, now time.Time) *rate {
	r, ok := b.rates[lane]
	if !ok {
		r = &rate{}
		b.rates[lane] = r
	}
	r.usedAt = now
	return r
}

// Admit says whether FAILURE_RATE lets an attempt of the destination run; try
// means that it would be the one try of a disabled destination, which needs
// TakeTry first.
func (b *Board) Admit(lane db.Lane) (allow, try bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	r, ok := b.rates[lane]
	if !ok || !b.deps.Act {
		return true, false
	}
	now := b.now()
	r.usedAt = now
	switch r.stored.Judged {
	case health.Frozen:
		return false, false
	case health.Disabled:
		// TakeTry judges the rest: it knows the policy, and stores what it finds.
		wait := r.stored.NextTryAt.Sub(now)
		return wait <= 0 || r.settings.TryEvery > 0 && wait > r.settings.TryEvery, true
	default:
		return true, false
	}
}

// now is the clock in the precision of the store.
func (b *Board) now() time.Time { return b.deps.Now().UTC().Truncate(time.Microsecond) }

func (b *Board) signal() {
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

const (
	// shareEvery is how often sums are written and changes of others read.
	shareEvery = time.Second
	// sweepEvery is how often spans are judged though nothing happens to them:
	// a minute late is nothing beside days.
	sweepEvery = time.Minute
	// forgetAfter bounds memory.
	forgetAfter = 10 * time.Minute
	// relearnEvery is how often all open spans are read. Those known to be open
	// are kept, used or not: what follows on a failure may be a day away.
	relearnEvery = time.Hour
	// Rows of one write, and of one read.
	maxWrite, maxRead = 200, 1000
	// overlap is read again each time: a transaction may commit a little after
	// others that began later.
	overlap = 15 * time.Second
)

// Run shares with the other replicas until ctx ends, and then writes what is
// left.
func (b *Board) Run(ctx context.Context) error {
	tick, sweep := time.NewTicker(shareEvery), time.NewTicker(sweepEvery)
	defer tick.Stop()
	defer sweep.Stop()
	failing := false
	step := func(ctx context.Context, steps ...func(context.Context) error) {
		var err error
		for _, do := range steps {
			if err = do(ctx); err != nil {
				break
			}
		}
		if err != nil && !failing && ctx.Err() == nil {
			b.deps.Log.Warn("cannot share failure policies; going on with what is known", "error", err)
		}
		if err == nil && failing {
			b.deps.Log.Info("failure policies are shared again")
		}
		failing = err != nil
	}
	step(ctx, b.readRates, b.readSpans)
	relearnt := b.now()
	for {
		select {
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
			defer cancel()
			step(last, b.writeRates, b.writeSpans, b.disableGone)
			return nil
		case <-b.wake:
			if !failing {
				step(ctx, b.writeRates, b.disableGone)
			}
		case <-tick.C:
			readSpans := b.readSpans
			if now := b.now(); now.Sub(relearnt) >= relearnEvery {
				readSpans, relearnt = b.relearnSpans, now
			}
			step(ctx, b.readRates, readSpans, b.writeRates, b.writeSpans, b.disableGone)
			if !failing {
				b.forget()
			}
		case <-sweep.C:
			if !failing {
				step(ctx, b.sweepSpans, b.sweepRates)
			}
		}
	}
}

// forget drops what nobody uses and nothing is to be written of.
func (b *Board) forget() {
	now := b.now()
	b.mu.Lock()
	defer b.mu.Unlock()
	for key, s := range b.spans {
		if now.Sub(s.usedAt) > forgetAfter && !s.open && !s.unwritten() {
			delete(b.spans, key)
		}
	}
	for key, at := range b.told {
		if now.Sub(at) > tellAgain {
			delete(b.told, key)
		}
	}
	for lane, r := range b.rates {
		if now.Sub(r.usedAt) > forgetAfter && r.delta.Empty() && r.tried == nil && !isOff(r.stored) {
			delete(b.rates, lane)
		}
	}
}
