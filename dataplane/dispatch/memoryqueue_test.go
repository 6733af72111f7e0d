package dispatch

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/streaming-hub/streaming-hub/db"
	"github.com/streaming-hub/streaming-hub/hub"
)

// memoryQueue is the delivery queue on the bubble's clock: it honours due
// times, leases and tokens as the database does.
type memoryQueue struct {
	mu       sync.Mutex
	rows     map[hub.DeliveryID]*queueRow
	tokens   int64
	away     bool // every call fails
	claimed  int
	recorded []hub.Outcome
	lost     int
	released []released
	gone     bool // retention has dropped all events
	// onClaim, if any, is called when claims are made and not yet answered.
	onClaim func()
}

type queueRow struct {
	delivery hub.Delivery
	due      time.Time
	until    time.Time
	token    int64
	reclaims int16
}

type released struct {
	id     hub.DeliveryID
	putOff time.Duration
	at     time.Time
}

var errAway = errors.New("the database is away")

func (q *memoryQueue) insert(list []db.NewDelivery, lease time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, d := range list {
		row := &queueRow{delivery: d.Delivery, due: time.Now().Add(d.DueIn), token: d.LeaseToken}
		if d.LeaseToken != 0 {
			row.until = time.Now().Add(lease)
		}
		q.rows[d.Delivery.ID] = row
	}
}

func (q *memoryQueue) Lanes(_ context.Context, after db.Lane, limit int) ([]db.LaneHead, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.away {
		return nil, errAway
	}
	order := func(x, y db.Lane) int {
		return cmp.Or(cmp.Compare(x.Tenant, y.Tenant), bytes.Compare(x.Destination.ID[:], y.Destination.ID[:]))
	}
	heads := map[db.Lane]time.Duration{}
	for _, r := range q.rows {
		lane := db.Lane{Tenant: r.delivery.Tenant, Destination: r.delivery.Destination}
		due := time.Until(r.due)
		if first, ok := heads[lane]; order(lane, after) > 0 && (!ok || due < first) {
			heads[lane] = due
		}
	}
	var list []db.LaneHead
	for lane, due := range heads {
		list = append(list, db.LaneHead{Lane: lane, DueIn: due})
	}
	slices.SortFunc(list, func(x, y db.LaneHead) int { return order(x.Lane, y.Lane) })
	return list[:min(limit, len(list))], nil
}

func (q *memoryQueue) ClaimLanes(_ context.Context, quotas []db.LaneQuota, lease time.Duration) (claims []db.Claim, err error) {
	if q.onClaim != nil {
		defer q.onClaim()
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.away {
		return nil, errAway
	}
	for _, quota := range quotas {
		var ready []*queueRow
		for _, r := range q.rows {
			lane := db.Lane{Tenant: r.delivery.Tenant, Destination: r.delivery.Destination}
			if lane == quota.Lane && !r.due.After(time.Now()) && !r.until.After(time.Now()) {
				ready = append(ready, r)
			}
		}
		slices.SortFunc(ready, func(x, y *queueRow) int { return x.due.Compare(y.due) })
		for _, r := range ready[:min(quota.Quota, len(ready))] {
			if r.token != 0 {
				r.reclaims++
			}
			q.tokens++
			r.token, r.until = 1_000_000+q.tokens, time.Now().Add(lease)
			claims = append(claims, db.Claim{Delivery: r.delivery, LeaseToken: r.token, Reclaims: r.reclaims})
		}
	}
	q.claimed += len(claims)
	return claims, nil
}

func (q *memoryQueue) Events(_ context.Context, ids []hub.ID) (events []hub.Event, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.away {
		return nil, errAway
	}
	for _, id := range ids {
		if !q.gone {
			events = append(events, hub.Event{ID: hub.EventID{ID: id}, ResourceType: "loan", EventType: "approved", Source: "lender"})
		}
	}
	return events, nil
}

func (q *memoryQueue) ReleaseLeases(_ context.Context, claims []db.Claim, putOff time.Duration) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.away {
		return errAway
	}
	for _, c := range claims {
		if r := q.rows[c.Delivery.ID]; r != nil && r.token == c.LeaseToken {
			r.token, r.until = 0, time.Time{}
			if putOff > 0 {
				r.due = time.Now().Add(putOff)
			}
			q.released = append(q.released, released{c.Delivery.ID, putOff, time.Now()})
		}
	}
	return nil
}

func (q *memoryQueue) RecordOutcomes(_ context.Context, _ hub.ID, outcomes []hub.Outcome) (map[hub.DeliveryID]bool, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.away {
		return nil, errAway
	}
	recorded := map[hub.DeliveryID]bool{}
	for _, o := range outcomes {
		r := q.rows[o.Delivery.ID]
		if r == nil || r.token != o.Token {
			q.lost++
			continue
		}
		recorded[o.Delivery.ID] = true
		q.recorded = append(q.recorded, o)
		if o.Decision.State != hub.Waiting {
			delete(q.rows, o.Delivery.ID)
			continue
		}
		r.due, r.token, r.until, r.reclaims = o.Decision.NextAt, 0, time.Time{}, 0
		r.delivery.Attempts = o.Attempt.Number
		r.delivery.RunAttempts++
		if r.delivery.FirstFailedAt.IsZero() {
			r.delivery.FirstFailedAt = o.Attempt.Started
		}
	}
	return recorded, nil
}

// What tests read and change while the pool works.

func (q *memoryQueue) givenBack() []released {
	q.mu.Lock()
	defer q.mu.Unlock()
	return slices.Clone(q.released)
}

func (q *memoryQueue) history() []hub.Outcome {
	q.mu.Lock()
	defer q.mu.Unlock()
	return slices.Clone(q.recorded)
}

func (q *memoryQueue) left() (rows []queueRow) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, r := range q.rows {
		rows = append(rows, *r)
	}
	return rows
}

func (q *memoryQueue) claims() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.claimed
}

func (q *memoryQueue) setAway(away bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.away = away
}

func (q *memoryQueue) forgetEvents() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.gone = true
}
