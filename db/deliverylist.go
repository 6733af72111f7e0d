package db

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/streaming-hub/streaming-hub/db/internal/dbsqlc"
	"github.com/streaming-hub/streaming-hub/hub"
)

// Bounds of one page's work, in birth rows: how many are looked at together,
// and after how many a page with a filter ends however few it found. 2000 rows
// cost some 30 ms.
const (
	walkChunk = 250
	walkLimit = 2000
)

// DeliveryFilter says which deliveries are listed; zero fields do not filter.
type DeliveryFilter struct {
	Tenant       hub.TenantID
	Subscription hub.SubscriptionID
	Event        hub.EventID
	States       []hub.State
}

// ByEnd reports whether the list is walked by the ends of deliveries, the
// latest end first, instead of by their birth. So it is when only dead or
// discarded ones are wanted, and nothing narrower drives the list.
func (f *DeliveryFilter) ByEnd() bool {
	ends := len(f.States) > 0 && !slices.ContainsFunc(f.States, func(s hub.State) bool {
		return s != hub.Dead && s != hub.Discarded
	})
	return ends && f.Subscription.IsZero() && f.Event.IsZero()
}

func (f *DeliveryFilter) passes(s *hub.Standing) bool {
	return (f.Tenant == "" || s.Tenant == f.Tenant) &&
		(f.Subscription.IsZero() || s.Subscription == f.Subscription) &&
		(f.Event.IsZero() || s.Event == f.Event) &&
		(len(f.States) == 0 || slices.Contains(f.States, s.State))
}

// DeliveryPage is a page of deliveries and the snapshot in which it was read.
type DeliveryPage struct {
	Deliveries []hub.Standing
	// Positions are the places of the deliveries in the walk.
	Positions []hub.ID
	// More says that the walk goes on from End; there may be nothing left.
	More     bool
	End      hub.ID
	Snapshot string
}

// DeliveryPage reads up to limit deliveries behind the position before, the
// newest first. Its work is bounded whatever the history holds; a page can be
// short while More is true.
func (d *DB) DeliveryPage(ctx context.Context, f DeliveryFilter, before hub.ID, limit int) (page DeliveryPage, err error) {
	err = pgx.BeginTxFunc(ctx, d.pool, snapshotRead, func(tx pgx.Tx) error {
		if err := d.walk(ctx, tx, &f, before, limit, &page); err != nil {
			return err
		}
		page.Snapshot, err = d.queries.FeedSnapshot(ctx, tx)
		return err
	})
	if err != nil {
		return page, fmt.Errorf("list deliveries: %w", err)
	}
	return page, nil
}

func (d *DB) walk(ctx context.Context, tx pgx.Tx, f *DeliveryFilter, before hub.ID, limit int, page *DeliveryPage) error {
	chunk := limit + 1 // one more shows whether there is more
	if len(f.States) > 0 {
		chunk = max(chunk, walkChunk)
	}
	page.End = before
	for scanned := 0; ; {
		births, positions, end, err := d.births(ctx, tx, f, page.End, chunk)
		if err != nil {
			return err
		}
		standings, err := d.standings(ctx, tx, births)
		if err != nil {
			return err
		}
		for i := range standings {
			if !f.passes(&standings[i]) {
				continue
			}
			if len(page.Deliveries) == limit {
				page.End, page.More = page.Positions[limit-1], true
				return nil
			}
			page.Deliveries = append(page.Deliveries, standings[i])
			page.Positions = append(page.Positions, positions[i])
		}
		if end.IsZero() {
			return nil
		}
		page.End = end
		if scanned += chunk; scanned >= walkLimit {
			page.More = true
			return nil
		}
	}
}

// births reads a chunk of the walk: birth rows, their places in it, and the
// place where the chunk ends, zero at the end of the list.
func (d *DB) births(ctx context.Context, tx pgx.Tx, f *DeliveryFilter, before hub.ID, chunk int) (births []dbsqlc.Delivery, positions []hub.ID, end hub.ID, err error) {
	q, n := d.queries, int32(chunk)
	switch {
	case f.ByEnd():
		return d.ends(ctx, tx, f, before, chunk)
	case !f.Event.IsZero():
		births, err = q.BirthsOfEvent(ctx, tx, dbsqlc.BirthsOfEventParams{
			EventID: f.Event.ID, Lowest: followers([]hub.ID{f.Event.ID}), Before: before, Page: n,
		})
	case !f.Subscription.IsZero():
		births, err = q.BirthsOfSubscription(ctx, tx, dbsqlc.BirthsOfSubscriptionParams{
			SubscriptionID: f.Subscription.ID, Before: before, Page: n,
		})
	case f.Tenant != "":
		births, err = q.BirthsOfTenant(ctx, tx, dbsqlc.BirthsOfTenantParams{TenantID: string(f.Tenant), Before: before, Page: n})
	default:
		births, err = q.Births(ctx, tx, dbsqlc.BirthsParams{Before: before, Page: n})
	}
	positions = make([]hub.ID, len(births))
	for i := range births {
		positions[i] = births[i].ID
	}
	if len(births) == chunk {
		end = positions[chunk-1]
	}
	return births, positions, end, err
}

// ends reads a chunk of the walk by ends. A delivery that ended several times,
// because it was replayed in between, stands at its last end only.
func (d *DB) ends(ctx context.Context, tx pgx.Tx, f *DeliveryFilter, before hub.ID, chunk int) (births []dbsqlc.Delivery, positions []hub.ID, end hub.ID, err error) {
	var rows []dbsqlc.EndsRow
	if f.Tenant == "" {
		rows, err = d.queries.Ends(ctx, tx, dbsqlc.EndsParams{Before: before, Page: int32(chunk)})
	} else {
		var own []dbsqlc.EndsOfTenantRow
		own, err = d.queries.EndsOfTenant(ctx, tx, dbsqlc.EndsOfTenantParams{TenantID: string(f.Tenant), Before: before, Page: int32(chunk)})
		for _, r := range own {
			rows = append(rows, dbsqlc.EndsRow(r))
		}
	}
	if err != nil || len(rows) == 0 {
		return nil, nil, end, err
	}
	if len(rows) == chunk {
		end = rows[chunk-1].ID
	}
	ids := make([]hub.ID, len(rows))
	for i, r := range rows {
		ids[i] = r.DeliveryID
	}
	last, err := d.lastEnds(ctx, tx, ids)
	if err != nil {
		return nil, nil, end, err
	}
	byID, err := d.birthsByID(ctx, tx, ids)
	if err != nil {
		return nil, nil, end, err
	}
	for _, r := range rows {
		if b, ok := byID[r.DeliveryID]; ok && last[r.DeliveryID].ID == r.ID {
			births, positions = append(births, b), append(positions, r.ID)
		}
	}
	return births, positions, end, nil
}

func (d *DB) birthsByID(ctx context.Context, tx dbsqlc.DBTX, ids []hub.ID) (map[hub.ID]dbsqlc.Delivery, error) {
	lowest, highest := bounds(ids)
	rows, err := d.queries.BirthsByID(ctx, tx, dbsqlc.BirthsByIDParams{Ids: ids, Lowest: lowest, Highest: highest})
	byID := make(map[hub.ID]dbsqlc.Delivery, len(rows))
	for _, r := range rows {
		byID[r.ID] = r
	}
	return byID, err
}

func (d *DB) lastEnds(ctx context.Context, tx dbsqlc.DBTX, ids []hub.ID) (map[hub.ID]dbsqlc.LastEndsRow, error) {
	rows, err := d.queries.LastEnds(ctx, tx, dbsqlc.LastEndsParams{DeliveryIds: ids, Lowest: followers(ids)})
	byID := make(map[hub.ID]dbsqlc.LastEndsRow, len(rows))
	for _, r := range rows {
		byID[r.DeliveryID] = r
	}
	return byID, err
}

// DeliveriesByID reads where deliveries stand; those that do not exist are
// missing.
func (d *DB) DeliveriesByID(ctx context.Context, ids []hub.DeliveryID) (list []hub.Standing, err error) {
	keys := deliveryKeys(ids)
	err = pgx.BeginTxFunc(ctx, d.pool, snapshotRead, func(tx pgx.Tx) error {
		byID, err := d.birthsByID(ctx, tx, keys)
		if err != nil {
			return err
		}
		births := make([]dbsqlc.Delivery, 0, len(byID))
		for _, b := range byID {
			births = append(births, b)
		}
		list, err = d.standings(ctx, tx, births)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read %d deliveries: %w", len(ids), err)
	}
	return list, nil
}

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
	if try != nil {
		s.Attempts, s.Run = try.Number, try.Run
	}
	switch {
	case q != nil:
		s.Run, s.Attempts, s.RunAttempts = q.Run, q.Attempts, q.RunAttempts
		s.ReceivedAt, s.State = q.ReceivedAt, hub.Waiting
		if q.FirstFailedAt != nil {
			s.FirstFailedAt = *q.FirstFailedAt
		}
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
			s.DeadReason = hub.DeadReason(*end.DeadReason)
		}
	default:
		// The queue row goes only in the transaction that writes the end, so
		// this is a delivery whose end is past its retention.
		s.State = hub.Discarded
	}
	return s
}

// AttemptsOf reads the newest hundred attempts of each delivery, the first one
// first.
func (d *DB) AttemptsOf(ctx context.Context, ids []hub.DeliveryID) (map[hub.DeliveryID][]hub.RecordedAttempt, error) {
	keys := deliveryKeys(ids)
	rows, err := d.queries.AttemptsOfDeliveries(ctx, d.pool, dbsqlc.AttemptsOfDeliveriesParams{DeliveryIds: keys, Lowest: followers(keys)})
	if err != nil {
		return nil, fmt.Errorf("read the attempts of %d deliveries: %w", len(ids), err)
	}
	return attemptsOf(rows)
}

// LastAttempts reads the last attempt of each delivery that had one.
func (d *DB) LastAttempts(ctx context.Context, ids []hub.DeliveryID) (map[hub.DeliveryID][]hub.RecordedAttempt, error) {
	keys := deliveryKeys(ids)
	rows, err := d.queries.LastAttempts(ctx, d.pool, dbsqlc.LastAttemptsParams{DeliveryIds: keys, Lowest: followers(keys)})
	if err != nil {
		return nil, fmt.Errorf("read the last attempts of %d deliveries: %w", len(ids), err)
	}
	return attemptsOf(rows)
}

func attemptsOf(rows []dbsqlc.Attempt) (map[hub.DeliveryID][]hub.RecordedAttempt, error) {
	byDelivery := make(map[hub.DeliveryID][]hub.RecordedAttempt)
	for i := range rows {
		a, err := attemptOf(&rows[i])
		if err != nil {
			return nil, err
		}
		byDelivery[a.Delivery] = append(byDelivery[a.Delivery], a)
	}
	return byDelivery, nil
}

func attemptOf(r *dbsqlc.Attempt) (hub.RecordedAttempt, error) {
	var detail AttemptDetail
	if err := json.Unmarshal(r.Detail, &detail); err != nil {
		return hub.RecordedAttempt{}, fmt.Errorf("read the detail of attempt %s: %w", r.ID, err)
	}
	a := hub.RecordedAttempt{
		Delivery: hub.DeliveryID{ID: r.DeliveryID}, Event: hub.EventID{ID: r.EventID},
		Tenant: hub.TenantID(r.TenantID), Run: r.Run,
		Attempt: hub.Attempt{
			ID: hub.AttemptID{ID: r.ID}, Number: r.Number, Started: r.StartedAt,
			Timings: hub.Timings{
				DNS: detail.DNSMicros, Connect: detail.ConnectMicros, TLS: detail.TLSMicros,
				FirstByte: detail.FirstByteMicros, Total: r.TotalUs,
			},
			Answer: hub.Answer{
				Status: r.Status, Headers: detail.ResponseHeaders, Snippet: detail.Snippet, Truncated: detail.Truncated,
				RetryAfter: detail.RetryAfter, RemoteIP: detail.RemoteIP, TLSVersion: detail.TLSVersion,
			},
			Failure: hub.Failure{Class: hub.ErrorClass(r.ErrorClass), Phase: detail.FailurePhase, Detail: detail.FailureDetail},
		},
		Decision: hub.Decision{
			State: hub.State(r.State), DeadReason: detail.DeadReason, Counted: detail.Counted, Reason: detail.Reason,
		},
	}
	if r.NextAt != nil {
		a.Decision.NextAt = *r.NextAt
	}
	return a, nil
}

func deliveryKeys(ids []hub.DeliveryID) []hub.ID {
	keys := make([]hub.ID, len(ids))
	for i, id := range ids {
		keys[i] = id.ID
	}
	return keys
}
