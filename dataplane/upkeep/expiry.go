package upkeep

import (
	"context"

	"github.com/streaming-hub/streaming-hub/db"
	"github.com/streaming-hub/streaming-hub/hub"
	"github.com/streaming-hub/streaming-hub/hub/fingerprint"
	"github.com/streaming-hub/streaming-hub/hub/health"
	"github.com/streaming-hub/streaming-hub/hub/retry"
)

// maxFrozen bounds the destinations looked after in one round.
const maxFrozen = 20_000

// holdFrozen takes what came since for destinations that are frozen out of the
// lanes, and ends what has waited for them past the age limit of the workfront
// preset, where the subscription has such a policy.
func (l *Lanes) holdFrozen(ctx context.Context) error {
	off, err := l.Store.RatesNotActive(ctx, maxFrozen)
	if err != nil {
		return err
	}
	for _, r := range off {
		if r.Rate.Judged != health.Frozen {
			continue
		}
		if err := drain(ctx, func() (int, error) { return l.Store.HoldLane(ctx, r.Lane, choreBatch) }); err != nil {
			return err
		}
		known, err := l.Tenants.Get(ctx, []hub.TenantID{r.Tenant})
		if err != nil {
			return err
		}
		for _, route := range known[r.Tenant].RoutesTo(r.Destination) {
			if route.Policy.Kind != hub.RetryExponential {
				continue
			}
			since := l.Now().Add(-retry.ExponentialAgeLimit)
			if err := drain(ctx, func() (int, error) {
				return l.Store.EndHeld(ctx, route.Subscription.ID, since, choreBatch, hub.NewID(l.Now(), l.Random), func(d hub.Delivery) db.Dead {
					return l.dead(d, hub.DeadDroppedFrozen, "the destination is frozen, and the delivery has waited past its age limit")
				})
			}); err != nil {
				return err
			}
		}
	}
	return nil
}

// expire ends what still waits when its event's retention ends, so that the
// event may go.
func (l *Lanes) expire(ctx context.Context) error {
	if l.EventRetention <= 0 {
		return nil
	}
	return drain(ctx, func() (int, error) {
		made := l.Now().Add(-l.EventRetention)
		return l.Store.ExpireWaiting(ctx, made, choreBatch, hub.NewID(l.Now(), l.Random), func(d hub.Delivery) db.Dead {
			return l.dead(d, hub.DeadExpired, "the event's retention ended while the delivery waited")
		})
	})
}

func (l *Lanes) dead(d hub.Delivery, reason hub.DeadReason, text string) db.Dead {
	return db.Dead{
		Delivery: d, ID: hub.NewID(l.Now(), l.Random), Reason: reason, Text: text,
		Fingerprint: fingerprint.Of(fingerprint.Cause{Destination: d.Destination, Reason: reason}),
	}
}

// drain repeats a step until it finds less than a whole batch.
func drain(ctx context.Context, step func() (int, error)) error {
	for ctx.Err() == nil {
		n, err := step()
		if err != nil || n < choreBatch {
			return err
		}
	}
	return nil
}
