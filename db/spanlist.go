package db

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/streaming-hub/streaming-hub/db/internal/dbsqlc"
	"github.com/streaming-hub/streaming-hub/hub"
	"github.com/streaming-hub/streaming-hub/hub/health"
)

// FailureSpan is the span of one event subscription whose last attempt failed.
type FailureSpan struct {
	Subscription hub.SubscriptionID
	Destination  hub.DestinationID
	Tenant       hub.TenantID
	Span         health.Span
	Mark         int       // the highest warning given, in per cent of the window
	TrippedAt    time.Time // zero until the verdict was found
}

// SpanFilter says which failure spans are listed; zero fields do not filter.
type SpanFilter struct {
	Tenant       hub.TenantID
	Subscription hub.SubscriptionID
	Destination  hub.DestinationID
}

func (f *SpanFilter) passes(s *FailureSpan) bool {
	return (f.Tenant == "" || s.Tenant == f.Tenant) &&
		(f.Subscription.IsZero() || s.Subscription == f.Subscription) &&
		(f.Destination.IsZero() || s.Destination == f.Destination)
}

// SpanPage reads up to limit failure spans behind the subscription before, the
// subscriptions made last first, and the snapshot in which they were read.
func (d *DB) SpanPage(ctx context.Context, f SpanFilter, before hub.ID, limit int) (page Page[FailureSpan], snapshot string, err error) {
	page, snapshot, err = snapshotPage(ctx, d, func(tx pgx.Tx) (Page[FailureSpan], error) {
		return walkDown(before, limit, false, spanID, func(before hub.ID, chunk int) ([]FailureSpan, error) {
			return d.spans(ctx, tx, &f, before, chunk)
		}, each(f.passes))
	})
	if err != nil {
		return page, "", fmt.Errorf("list failure spans: %w", err)
	}
	return page, snapshot, nil
}

func spanID(s *FailureSpan) hub.ID { return s.Subscription.ID }

func (d *DB) spans(ctx context.Context, tx pgx.Tx, f *SpanFilter, before hub.ID, chunk int) ([]FailureSpan, error) {
	var rows []dbsqlc.FailureSpan
	var err error
	switch {
	case !f.Subscription.IsZero():
		if bytes.Compare(f.Subscription.ID[:], before[:]) < 0 {
			rows, err = d.queries.SpansByID(ctx, tx, []hub.ID{f.Subscription.ID})
		}
	case !f.Destination.IsZero():
		rows, err = d.queries.SpanPageOfDestination(ctx, tx, dbsqlc.SpanPageOfDestinationParams{
			DestinationID: f.Destination.ID, Before: before, Page: int32(chunk),
		})
	case f.Tenant != "":
		rows, err = d.queries.SpanPageOfTenant(ctx, tx, dbsqlc.SpanPageOfTenantParams{
			TenantID: string(f.Tenant), Before: before, Page: int32(chunk),
		})
	default:
		rows, err = d.queries.SpanPage(ctx, tx, dbsqlc.SpanPageParams{Before: before, Page: int32(chunk)})
	}
	return spansOf(rows), err
}

// SpansOf reads the failure spans of event subscriptions; one without a span is
// missing.
func (d *DB) SpansOf(ctx context.Context, ids []hub.SubscriptionID) ([]FailureSpan, error) {
	keys := make([]hub.ID, len(ids))
	for i, id := range ids {
		keys[i] = id.ID
	}
	rows, err := d.queries.SpansByID(ctx, d.pool, keys)
	if err != nil {
		return nil, fmt.Errorf("read the failure spans of %d event subscriptions: %w", len(ids), err)
	}
	return spansOf(rows), nil
}

func spansOf(rows []dbsqlc.FailureSpan) []FailureSpan {
	list := make([]FailureSpan, len(rows))
	for i := range rows {
		list[i] = spanOf(&rows[i])
	}
	return list
}

func spanOf(r *dbsqlc.FailureSpan) FailureSpan {
	return FailureSpan{
		Subscription: hub.SubscriptionID{ID: r.SubscriptionID}, Destination: hub.DestinationID{ID: r.DestinationID},
		Tenant: hub.TenantID(r.TenantID), Mark: int(r.Mark), TrippedAt: orZero(r.TrippedAt),
		Span: health.Span{FirstFailureAt: r.FirstFailureAt, LastFailureAt: r.LastFailureAt, FailureCount: r.FailureCount},
	}
}

// RatesOf reads the failure rates of destinations; one that was never judged by
// that policy is missing.
func (d *DB) RatesOf(ctx context.Context, ids []hub.DestinationID) ([]StoredRate, error) {
	rows, err := d.queries.RatesByID(ctx, d.pool, destinationKeys(ids))
	if err != nil {
		return nil, fmt.Errorf("read the failure rates of %d destinations: %w", len(ids), err)
	}
	list := make([]StoredRate, len(rows))
	for i := range rows {
		list[i] = storedRate(&rows[i])
	}
	return list, nil
}

func rateOf(r *dbsqlc.FailureRate) health.Rate {
	return health.Rate{
		Attempts: r.Attempts, Failures: r.Failures, Row: r.FailuresInRow, LastSuccessAt: r.LastSuccessAt,
		Judged: health.RateState(r.State), JudgedAt: orZero(r.StateSince), NextTryAt: orZero(r.NextTryAt),
	}
}
