package health

import (
	"context"
	"maps"
	"time"

	"github.com/streaming-hub/streaming-hub/db"
	"github.com/streaming-hub/streaming-hub/hub"
)

const (
	goneReason = "the receiver answered 410: it is gone"
	// tellAgain is how long a process does not repeat what the kill switch kept
	// from being done under FAILURE_RATE, where no span remembers it.
	tellAgain = time.Hour
)

// disableGone disables the subscriptions whose receiver answered 410.
func (b *Board) disableGone(ctx context.Context) error {
	b.mu.Lock()
	gone := b.gone
	b.gone = map[place]hub.TenantID{}
	b.mu.Unlock()
	for at, tenant := range gone {
		if err := b.giveUp(ctx, tenant, at); err != nil {
			b.mu.Lock()
			maps.Copy(b.gone, gone)
			b.mu.Unlock()
			return err
		}
		delete(gone, at)
	}
	return nil
}

// giveUp disables a subscription that still leads to where 410 came from and
// still wants that; with the kill switch it only says so.
func (b *Board) giveUp(ctx context.Context, tenant hub.TenantID, at place) error {
	if !b.deps.Act {
		return b.tellGone(ctx, tenant, at)
	}
	done, err := b.deps.Store.DisableSubscription(ctx, b.disabling(tenant, at.subscription, b.now(), func(s *hub.EventSubscription, span db.FailureSpan) (string, db.FailureSpan) {
		if !s.DisableOnGone || s.Destination != at.destination {
			return "", span
		}
		return goneReason, span
	}))
	if err == nil && done {
		b.disabled.WithLabelValues("gone", "yes").Inc()
		b.deps.Log.Warn("an event subscription was disabled: its receiver answered 410", "subscription", at.subscription.String())
	}
	return err
}

// tellGone says what would have been done, of a subscription under
// FAILURE_RATE: there is no span to keep the verdict with.
func (b *Board) tellGone(ctx context.Context, tenant hub.TenantID, at place) error {
	now := b.now()
	b.mu.Lock()
	before, told := b.told[at]
	b.mu.Unlock()
	if told && now.Sub(before) <= tellAgain {
		return nil
	}
	if err := b.deps.Store.PublishNotices(ctx, b.id(now), []hub.Notice{{
		Kind: hub.NoticeWouldDisable, At: now, Tenant: tenant, Subscription: at.subscription, Destination: at.destination,
		Reason: goneReason + switchedOff,
	}}); err != nil {
		return err
	}
	b.disabled.WithLabelValues("gone", "no").Inc()
	b.mu.Lock()
	b.told[at] = now
	b.mu.Unlock()
	return nil
}
