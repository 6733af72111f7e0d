package db

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/streaming-hub/streaming-hub/hub"
	"github.com/streaming-hub/streaming-hub/hub/health"
)

// repolice brings what the failure policies know of a destination in line with
// its new policy, which is stored already: nothing of a policy that judges it
// no longer keeps anything back. It returns what is to be told.
func (d *DB) repolice(ctx context.Context, tx pgx.Tx, was, dest hub.Destination, now time.Time) (told []hub.Notice, err error) {
	if was.FailurePolicy == dest.FailurePolicy {
		return nil, nil
	}
	if dest.FailurePolicy.Kind == hub.FailureRate {
		if told, err = d.forgetSpans(ctx, tx, dest, now); err != nil {
			return nil, err
		}
		if err := d.queries.EnsureRates(ctx, tx, []hub.ID{dest.ID.ID}); err != nil {
			return nil, err
		}
	}
	rows, err := d.queries.LockRate(ctx, tx, dest.ID.ID)
	if err != nil || len(rows) == 0 {
		return told, err
	}
	before := rateOf(&rows[0])
	after := before.Repolicied(was.FailurePolicy, dest.FailurePolicy, now)
	if after == before {
		return told, nil
	}
	if err := d.queries.UpdateRate(ctx, tx, rateParams(dest.ID.ID, &after)); err != nil {
		return nil, err
	}
	if !isOff(before) || isOff(after) {
		return told, nil
	}
	if err := d.resumeDestination(ctx, tx, Lane{Tenant: dest.Tenant, Destination: dest.ID}, before.Judged, now); err != nil {
		return nil, err
	}
	return append(told, hub.Notice{
		Kind: hub.NoticeRecovered, At: now, Tenant: dest.Tenant, Destination: dest.ID,
		Reason: "the destination has another failure policy; it had been " + string(before.Judged),
	}), nil
}

// isOff reports whether FAILURE_RATE has switched a destination off.
func isOff(r health.Rate) bool { return r.Judged == health.Disabled || r.Judged == health.Frozen }

// forgetSpans drops the failure spans of all subscriptions of a destination,
// which FAILURE_RATE judges now: no success would end them any more.
func (d *DB) forgetSpans(ctx context.Context, tx pgx.Tx, dest hub.Destination, now time.Time) (told []hub.Notice, err error) {
	rows, err := d.queries.LockSpansOfDestination(ctx, tx, dest.ID.ID)
	if err != nil {
		return nil, err
	}
	for i := range rows {
		if err := d.queries.ClearSpan(ctx, tx, rows[i].SubscriptionID); err != nil {
			return nil, err
		}
		told = append(told, hub.Notice{
			Kind: hub.NoticeSpanCleared, At: now, Tenant: dest.Tenant, Destination: dest.ID,
			Subscription: hub.SubscriptionID{ID: rows[i].SubscriptionID},
			Reason:       "the destination has another failure policy", Span: &hub.SpanNotice{},
		})
	}
	return told, nil
}

// resumeDestination lets a destination begin anew, which stood as was: what is
// held for one that was switched off is asked to go on, and one probe goes
// before everything that waited.
func (d *DB) resumeDestination(ctx context.Context, tx pgx.Tx, l Lane, was health.RateState, now time.Time) error {
	if was != health.Active {
		if err := d.addDestinationChores(ctx, tx, l); err != nil {
			return err
		}
	}
	return d.restartBreaker(ctx, tx, l, now)
}
