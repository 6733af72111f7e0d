package health

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/streaming-hub/streaming-hub/db"
	"github.com/streaming-hub/streaming-hub/hub"
	"github.com/streaming-hub/streaming-hub/hub/health"
)

// maxOff bounds what is read of destinations that are switched off. Those
// beyond it are attempted until they are switched off again.
const maxOff = 20_000

// isOff reports whether a destination is switched off.
func isOff(r health.Rate) bool { return r.Judged == health.Disabled || r.Judged == health.Frozen }

// readRates learns which destinations are switched off. All others are not:
// what this process believed of them is given up.
func (b *Board) readRates(ctx context.Context) error {
	list, err := b.deps.Store.RatesNotActive(ctx, maxOff)
	if err == nil && !b.deps.Act {
		list, err = nil, b.lift(ctx, list)
	}
	if err != nil {
		return err
	}
	now := b.now()
	b.mu.Lock()
	defer b.mu.Unlock()
	still := make(map[db.Lane]bool, len(list))
	for _, r := range list {
		still[r.Lane] = true
		b.rate(r.Lane, now).stored = r.Rate
	}
	for lane, r := range b.rates {
		if !still[lane] && isOff(r.stored) {
			r.stored = health.Rate{}
		}
	}
	return nil
}

// lift lets the destinations go on that were switched off before the kill
// switch was. Their counts stay, and show what would be.
func (b *Board) lift(ctx context.Context, off []db.StoredRate) error {
	for some := range slices.Chunk(off, maxWrite) {
		lanes := make([]db.Lane, len(some))
		for i := range some {
			lanes[i] = some[i].Lane
		}
		now := b.now()
		if _, err := b.deps.Store.ChangeRates(ctx, lanes, b.id(now), func(i int, stored health.Rate) (health.Rate, []hub.Notice) {
			if !isOff(stored) {
				return stored, nil
			}
			return stored.Lifted(), []hub.Notice{{
				Kind: hub.NoticeRecovered, At: now, Tenant: lanes[i].Tenant, Destination: lanes[i].Destination,
				Reason: "automatic disabling is switched off; it had been " + string(stored.Judged),
			}}
		}); err != nil {
			return err
		}
	}
	return nil
}

// writeRates stores what only this process knows.
func (b *Board) writeRates(ctx context.Context) error {
	for {
		lanes, sums := b.collectRates()
		if len(lanes) == 0 {
			return nil
		}
		now := b.now()
		after, err := b.deps.Store.ChangeRates(ctx, lanes, b.id(now), func(i int, stored health.Rate) (health.Rate, []hub.Notice) {
			r := stored.Apply(sums[i].delta, now, sums[i].settings)
			if t := sums[i].tried; t != nil {
				r = r.After(t.outcome, true, t.at, sums[i].settings)
			}
			if !b.deps.Act && isOff(r) {
				// The counts go on and show what would be; nothing is switched off.
				r = r.Lifted()
				if stored.State(now, sums[i].settings) != health.Active {
					return r, nil // told already
				}
				b.disabled.WithLabelValues("failure_rate", "no").Inc()
				return r, []hub.Notice{{
					Kind: hub.NoticeWouldDisable, At: now, Tenant: lanes[i].Tenant, Destination: lanes[i].Destination,
					Reason: countsOf(r) + switchedOff,
				}}
			}
			return r, b.rateNotices(lanes[i], stored, r, now)
		})
		b.mu.Lock()
		for i, lane := range lanes {
			r := b.rates[lane]
			if err != nil {
				r.delta = sums[i].delta.Then(r.delta)
				if r.tried == nil {
					r.tried = sums[i].tried
				}
				continue
			}
			r.stored = after[i]
		}
		b.mu.Unlock()
		if err != nil {
			return err
		}
		if len(lanes) < maxWrite {
			return nil
		}
	}
}

func (b *Board) collectRates() (lanes []db.Lane, sums []rate) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for lane, r := range b.rates {
		if r.delta.Empty() && r.tried == nil {
			continue
		}
		lanes, sums = append(lanes, lane), append(sums, *r)
		r.delta, r.tried = health.RateDelta{}, nil
		if len(lanes) == maxWrite {
			break
		}
	}
	return lanes, sums
}

func countsOf(r health.Rate) string {
	return fmt.Sprintf("%d of %d attempts failed, %d in a row", r.Failures, r.Attempts, r.Row)
}

func (b *Board) rateNotices(lane db.Lane, before, after health.Rate, now time.Time) []hub.Notice {
	n := hub.Notice{At: now, Tenant: lane.Tenant, Destination: lane.Destination}
	counts := countsOf(after)
	switch {
	case after.Judged == health.Frozen && before.Judged != health.Frozen:
		n.Kind, n.Reason = hub.NoticeFrozen, counts
		b.disabled.WithLabelValues("frozen", "yes").Inc()
	case isOff(after) && !isOff(before):
		n.Kind, n.Reason = hub.NoticeAutoDisabled, counts
		b.disabled.WithLabelValues("failure_rate", "yes").Inc()
	case isOff(before) && !isOff(after):
		n.Kind, n.Reason = hub.NoticeRecovered, "the tried delivery succeeded"
	default:
		return nil
	}
	return []hub.Notice{n}
}

// sweepRates freezes the destinations whose last success has become too old
// since the last try. Those whose policy this process does not know are judged
// when they are tried.
func (b *Board) sweepRates(ctx context.Context) error {
	if !b.deps.Act {
		return nil
	}
	now := b.now()
	var lanes []db.Lane
	var settings []health.RateSettings
	b.mu.Lock()
	for lane, r := range b.rates {
		known := r.settings != health.RateSettings{}
		if known && r.stored.Judged == health.Disabled && r.stored.State(now, r.settings) == health.Frozen && len(lanes) < maxWrite {
			lanes, settings = append(lanes, lane), append(settings, r.settings)
		}
	}
	b.mu.Unlock()
	if len(lanes) == 0 {
		return nil
	}
	after, err := b.deps.Store.ChangeRates(ctx, lanes, b.id(now), func(i int, stored health.Rate) (health.Rate, []hub.Notice) {
		if !isOff(stored) {
			return stored, nil
		}
		r := stored.Judge(now, settings[i])
		return r, b.rateNotices(lanes[i], stored, r, now)
	})
	if err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, lane := range lanes {
		b.rate(lane, now).stored = after[i]
	}
	return nil
}

// TakeTry takes the one try of a disabled destination under its policy; false
// when another process was quicker, or when the destination is not to be tried
// any more.
func (b *Board) TakeTry(ctx context.Context, lane db.Lane, policy hub.FailurePolicy) (taken bool, err error) {
	now, settings := b.now(), health.RateSettingsOf(policy)
	after, err := b.deps.Store.ChangeRates(ctx, []db.Lane{lane}, b.id(now), func(_ int, stored health.Rate) (health.Rate, []hub.Notice) {
		r, ok := stored.TakeTry(now, settings)
		taken = ok
		return r, b.rateNotices(lane, stored, r, now)
	})
	if err != nil {
		return false, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	r := b.rate(lane, now)
	r.settings, r.stored = settings, after[0]
	return taken, nil
}

// OffLanes are the lanes of destinations that are switched off, in no order.
func (b *Board) OffLanes() []db.Lane {
	b.mu.Lock()
	defer b.mu.Unlock()
	var lanes []db.Lane
	for lane, r := range b.rates {
		if isOff(r.stored) {
			lanes = append(lanes, lane)
		}
	}
	return lanes
}
