package db

import (
	"context"
	"crypto/rand"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/streaming-hub/streaming-hub/db/internal/dbsqlc"
	"github.com/streaming-hub/streaming-hub/hub"
	"github.com/streaming-hub/streaming-hub/hub/match"
)

// eventStep is the length of a partition of events. A walk by seq leaves out
// whole partitions only: within one it would have to pass by row after row.
const eventStep = 24 * time.Hour

// scanEvents freezes the next part of a BACKFILL: events that the subscription
// wants now, were it enabled and verified, and that have no delivery for it.
// Each gets the id of its delivery.
func (d *DB) scanEvents(ctx context.Context, tx pgx.Tx, s *replayScan) error {
	r := &s.job.Range
	subs, err := d.queries.SubscriptionsByID(ctx, tx, []hub.ID{r.Subscription.ID})
	if err != nil {
		return err
	}
	if len(subs) == 0 || subs[0].DeletedAt != nil || subs[0].TenantID != string(s.job.Tenant) {
		s.fault = "its subscription was deleted"
		return nil
	}
	sub := subscriptionOf(&subs[0])
	if err := d.boundSeqs(ctx, tx, s); err != nil {
		return err
	}
	rows, err := d.eventsToBackfill(ctx, tx, s)
	if err != nil || len(rows) == 0 {
		s.done = true
		return err
	}
	last := rows[len(rows)-1].Seq
	s.row.ScannedSeq, s.done = &last, len(rows) < s.chunk
	wanted := backfillWants(&sub, r, rows)
	if len(wanted) == 0 {
		return nil
	}
	births, err := d.queries.BirthsOfEvents(ctx, tx, dbsqlc.BirthsOfEventsParams{EventIds: wanted, Lowest: followers(wanted)})
	if err != nil {
		return err
	}
	has := make(map[hub.ID]bool, len(births))
	for i := range births {
		if births[i].SubscriptionID == sub.ID.ID {
			has[births[i].EventID] = true
		}
	}
	ids := hub.NewIDs(s.now, rand.Reader)
	var items []hub.Delivery
	for _, event := range wanted {
		if !has[event] {
			items = append(items, hub.Delivery{
				ID: hub.DeliveryID{ID: ids.Next()}, Event: hub.EventID{ID: event}, Tenant: sub.Tenant,
				Subscription: sub.ID, Destination: sub.Destination,
			})
		}
	}
	_, err = d.freeze(ctx, tx, s, items)
	return err
}

// boundSeqs fixes at the first part where the walk begins and ends: what is
// stored later finds the subscription as it is then.
func (d *DB) boundSeqs(ctx context.Context, tx pgx.Tx, s *replayScan) error {
	if s.row.LastSeq != nil {
		return nil
	}
	newest, err := d.queries.NewestSeqs(ctx, tx, []string{string(s.job.Tenant)})
	if err != nil {
		return err
	}
	first, last := max(s.job.Range.FirstSeq-1, 0), int64(0)
	if len(newest) > 0 {
		last = newest[0].Newest
	}
	if to := s.job.Range.LastSeq; to > 0 {
		last = min(last, to)
	}
	s.row.ScannedSeq, s.row.LastSeq = &first, &last
	return nil
}

func (d *DB) eventsToBackfill(ctx context.Context, tx pgx.Tx, s *replayScan) ([]dbsqlc.EventsToBackfillRow, error) {
	p := dbsqlc.EventsToBackfillParams{
		TenantID: string(s.job.Tenant), After: *s.row.ScannedSeq, Last: *s.row.LastSeq, Before: hub.ID{0: 0xff}, Page: int32(s.chunk),
	}
	if from := s.job.Range.ReceivedAfter; !from.IsZero() {
		p.Lowest = hub.FloorID(from.Add(-clockSlack).Truncate(eventStep))
	}
	if until := s.job.Range.ReceivedBefore; !until.IsZero() {
		p.Before = hub.FloorID(until.Add(clockSlack).Truncate(eventStep).Add(eventStep))
	}
	return d.queries.EventsToBackfill(ctx, tx, p)
}

// backfillWants are the events of a range that a subscription would get if they
// came now and it took events.
func backfillWants(sub *hub.EventSubscription, r *hub.BackfillRange, rows []dbsqlc.EventsToBackfillRow) (ids []hub.ID) {
	ready := *sub
	ready.Enabled, ready.VerificationState = true, hub.VerificationActive
	for i := range rows {
		e := &rows[i]
		if !r.ReceivedAfter.IsZero() && e.ReceivedAt.Before(r.ReceivedAfter) || !r.ReceivedBefore.IsZero() && !e.ReceivedAt.Before(r.ReceivedBefore) {
			continue
		}
		event := hub.Event{Tenant: sub.Tenant, Source: e.Source, SchemaMajor: e.SchemaMajor}
		event.ResourceType, event.EventType, _ = strings.Cut(e.EventType, ".")
		if sub.Kind != hub.SinkPull && match.Wants(&event, &ready) {
			ids = append(ids, e.ID)
		}
	}
	return ids
}
