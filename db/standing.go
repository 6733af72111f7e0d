package db

import (
	"context"
	"time"

	"github.com/streaming-hub/streaming-hub/db/internal/dbsqlc"
	"github.com/streaming-hub/streaming-hub/hub"
)

// standings joins birth rows with queue, results and last attempts.
func (d *DB) standings(ctx context.Context, tx dbsqlc.DBTX, births []dbsqlc.Delivery) ([]hub.Standing, error) {
	if len(births) == 0 {
		return nil, nil
	}
	ids := make([]hub.ID, len(births))
	for i := range births {
		ids[i] = births[i].ID
	}
	queued, err := d.queries.QueuedByID(ctx, tx, ids)
	if err != nil {
		return nil, err
	}
	open := make(map[hub.ID]*dbsqlc.QueuedByIDRow, len(queued))
	for i := range queued {
		open[queued[i].ID] = &queued[i]
	}
	ends, err := d.lastEnds(ctx, tx, ids)
	if err != nil {
		return nil, err
	}
	tries, err := d.queries.LastAttemptHeads(ctx, tx, dbsqlc.LastAttemptHeadsParams{DeliveryIds: ids, Lowest: followers(ids)})
	if err != nil {
		return nil, err
	}
	tried := make(map[hub.ID]*dbsqlc.LastAttemptHeadsRow, len(tries))
	for i := range tries {
		tried[tries[i].DeliveryID] = &tries[i]
	}
	list := make([]hub.Standing, len(births))
	for i := range births {
		id := births[i].ID
		list[i] = standingOf(&births[i], open[id], ends[id], tried[id])
	}
	return list, nil
}

// standingOf decides the state: the queue row, else the result of the highest
// run, an end without success or a delivered attempt.
func standingOf(b *dbsqlc.Delivery, q *dbsqlc.QueuedByIDRow, end dbsqlc.LastEndsRow, try *dbsqlc.LastAttemptHeadsRow) hub.Standing {
	s := hub.Standing{Delivery: hub.Delivery{
		ID: hub.DeliveryID{ID: b.ID}, Event: hub.EventID{ID: b.EventID}, Tenant: hub.TenantID(b.TenantID),
		Subscription: hub.SubscriptionID{ID: b.SubscriptionID}, Destination: hub.DestinationID{ID: b.DestinationID},
		Run: 1,
	}}
	// A subscription can get another destination: what waits goes there, what
	// is settled went where its last attempt went.
	if try != nil {
		s.Attempts, s.Run, s.Destination.ID = try.Number, try.Run, try.DestinationID
	}
	switch {
	case q != nil:
		s.Run, s.Attempts, s.RunAttempts = q.Run, q.Attempts, q.RunAttempts
		s.ReceivedAt, s.Destination.ID, s.Test, s.State = q.ReceivedAt, q.DestinationID, q.Test, hub.Waiting
		s.FirstFailedAt, s.LastAt, s.Job.ID = orZero(q.FirstFailedAt), orZero(q.LastAt), orZero(q.JobID)
		switch {
		case q.Leased:
			s.State = hub.InFlight
		case q.Held:
			s.State = hub.Held
		default:
			s.DueAt, s.NextAt = q.DueAt, q.DueAt
		}
	case try != nil && try.State == string(hub.Delivered) && try.Run >= end.Run:
		s.State = hub.Delivered
		s.FinishedAt = try.StartedAt.Add(time.Duration(try.TotalUs) * time.Microsecond)
	case !end.ID.IsZero():
		s.State, s.Run = hub.State(end.State), end.Run
		s.LastError, s.FinishedAt = end.LastError, end.ID.Time()
		if end.DeadReason != nil {
			s.DeadReason, s.Fingerprint = hub.DeadReason(*end.DeadReason), end.Fingerprint
		}
	default:
		// The queue row goes only in the transaction that writes the end, so
		// this is a delivery whose end is past its retention.
		s.State = hub.Discarded
	}
	return s
}
