package upkeep

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/streaming-hub/streaming-hub/dataplane/outage"
	"github.com/streaming-hub/streaming-hub/dataplane/snapshot"
	"github.com/streaming-hub/streaming-hub/db"
	"github.com/streaming-hub/streaming-hub/hub"
	"github.com/streaming-hub/streaming-hub/hub/retry"
)

const (
	// choresEvery is how soon a change of a subscription reaches what waits.
	choresEvery = 500 * time.Millisecond
	// choreBatch is how many deliveries one transaction moves.
	choreBatch = 500
	// lastsEvery is how often deliveries are looked for that have waited past
	// their age limit without a try.
	lastsEvery = time.Minute
	lastsBatch = 1000
)

// LaneStore is what Lanes asks of Postgres.
type LaneStore interface {
	DoChore(ctx context.Context, batch int, feedID hub.ID, ending func(hub.Delivery) db.Dead) (bool, error)
	StaleLasts(ctx context.Context, after hub.DeliveryID, made time.Time, limit int) ([]hub.Delivery, error)
	FixLasts(ctx context.Context, ids []hub.DeliveryID, from []time.Time) error
	ForgetSlots(ctx context.Context) error
	RatesNotActive(ctx context.Context, limit int) ([]db.StoredRate, error)
	HoldLane(ctx context.Context, l db.Lane, limit int) (int, error)
	EndHeld(ctx context.Context, sub hub.SubscriptionID, since time.Time, limit int, feedID hub.ID, ending func(hub.Delivery) db.Dead) (int, error)
	ExpireWaiting(ctx context.Context, made time.Time, limit int, feedID hub.ID, ending func(hub.Delivery) db.Dead) (int, error)
	ForgetIdempotencyKeys(ctx context.Context, before time.Time) (int, error)
}

// Tenants knows the retry policies of subscriptions.
type Tenants interface {
	Get(ctx context.Context, ids []hub.TenantID) (map[hub.TenantID]*snapshot.Tenant, error)
}

// Lanes keeps the queue's lanes in line with what became of subscriptions, and
// sees to it that no delivery waits behind an open circuit for ever.
type Lanes struct {
	Store   LaneStore
	Tenants Tenants
	Now     func() time.Time
	Random  io.Reader
	Log     *slog.Logger
	// EventRetention is when an event goes; what waits for longer ends then. 0
	// for never. IdempotencyTTL is for how long answers are remembered.
	EventRetention, IdempotencyTTL time.Duration

	moved prometheus.Counter
	after hub.DeliveryID // how far the queue was walked for lasts
	walks int
}

// Register makes the metric.
func (l *Lanes) Register(r prometheus.Registerer) {
	l.moved = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "streaming_hub_lane_chore_steps_total",
		Help: "Steps that held, resumed, moved or ended the waiting deliveries of a changed subscription.",
	})
	r.MustRegister(l.moved)
}

// Run works until ctx ends.
func (l *Lanes) Run(ctx context.Context) error {
	chores, lasts := time.NewTicker(choresEvery), time.NewTicker(lastsEvery)
	defer chores.Stop()
	defer lasts.Stop()
	outages := outage.New(l.Log)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-chores.C:
			outages.Failed("bring lanes in line", l.doChores(ctx))
		case <-lasts.C:
			outages.Failed("do what upkeep does every minute", l.everyMinute(ctx))
		}
	}
}

// everyMinute does what is not urgent; what fails keeps nothing else from being
// done.
func (l *Lanes) everyMinute(ctx context.Context) error {
	var errs []error
	for _, do := range []func(context.Context) error{
		l.fixLasts, l.holdFrozen, l.expire, l.Store.ForgetSlots, l.forgetKeys,
	} {
		errs = append(errs, do(ctx))
	}
	return errors.Join(errs...)
}

// forgetKeys drops the answers that are remembered for nobody any more.
func (l *Lanes) forgetKeys(ctx context.Context) error {
	if l.IdempotencyTTL <= 0 {
		return nil
	}
	_, err := l.Store.ForgetIdempotencyKeys(ctx, l.Now().Add(-l.IdempotencyTTL))
	return err
}

func (l *Lanes) doChores(ctx context.Context) error {
	for ctx.Err() == nil {
		did, err := l.Store.DoChore(ctx, choreBatch, hub.NewID(l.Now(), l.Random), l.ending)
		if err != nil || !did {
			return err
		}
		l.moved.Inc()
	}
	return nil
}

// ending is the end of a delivery whose subscription was deleted.
func (l *Lanes) ending(d hub.Delivery) db.Dead {
	return l.dead(d, hub.DeadSubscriptionDeleted, "the event subscription was deleted while the delivery waited")
}

// fixLasts finds deliveries that have reached the shortest age limit without
// anybody having fixed their last attempt: they were never tried, because
// their circuit was open all the time. From their age limit on they may run
// behind it. The walk goes by age and sees each delivery once, and once an hour
// all again: those that were held meanwhile.
func (l *Lanes) fixLasts(ctx context.Context) error {
	if l.walks++; l.walks%60 == 0 {
		l.after = hub.DeliveryID{}
	}
	for ctx.Err() == nil {
		list, err := l.Store.StaleLasts(ctx, l.after, l.Now().Add(-retry.CurveAgeLimit), lastsBatch)
		if err != nil || len(list) == 0 {
			return err
		}
		var tenants []hub.TenantID
		for i := range list {
			tenants = append(tenants, list[i].Tenant)
		}
		known, err := l.Tenants.Get(ctx, tenants)
		if err != nil {
			return err
		}
		var ids []hub.DeliveryID
		var from []time.Time
		for i := range list {
			d := &list[i]
			if route := known[d.Tenant].Route(d.Subscription); route != nil {
				ids = append(ids, d.ID)
				from = append(from, lastOf(route.Policy, d))
			}
		}
		if err := l.Store.FixLasts(ctx, ids, from); err != nil {
			return err
		}
		l.after = list[len(list)-1].ID
		if len(list) < lastsBatch {
			return nil
		}
	}
	return nil
}

// lastOf is from when on the next attempt of a waiting delivery is its last. A
// delivery that was never tried has skipped its first try when it was due.
func lastOf(p hub.RetryPolicy, d *hub.Delivery) time.Time {
	skipped := d.FirstFailedAt
	if skipped.IsZero() {
		skipped = d.DueAt
	}
	return retry.LastFrom(p, d.RunAttempts+1, d.DueAt, d.ReceivedAt, skipped)
}
