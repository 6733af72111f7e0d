package dispatch

import (
	"context"
	"errors"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/streaming-hub/streaming-hub/db"
	"github.com/streaming-hub/streaming-hub/hub"
	"github.com/streaming-hub/streaming-hub/hub/limit"
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
	deleted  bool // all subscriptions
	shares   map[db.Lane]map[hub.ID]limit.Share
	free     map[db.Lane]time.Time
	// onClaim, if any, is called when claims are made and not yet answered.
	onClaim func()
}

type queueRow struct {
	delivery hub.Delivery
	due      time.Time
	until    time.Time
	token    int64
	reclaims int16
	alone    bool
	held     bool
}

type released struct {
	id     hub.DeliveryID
	putOff time.Duration
	hold   bool
	to     hub.DestinationID
	at     time.Time
}

var errAway = errors.New("the database is away")

func (q *memoryQueue) insert(list []db.NewDelivery, lease time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, d := range list {
		row := &queueRow{delivery: d.Delivery, due: time.Now().Add(d.DueIn), token: d.LeaseToken}
		if d.Last {
			row.delivery.LastAt = row.due
		}
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
	heads := map[db.Lane]time.Duration{}
	for _, r := range q.rows {
		lane := db.Lane{Tenant: r.delivery.Tenant, Destination: r.delivery.Destination}
		due := time.Until(r.due)
		if r.held {
			due = math.MaxInt64
		}
		if first, ok := heads[lane]; lane.Compare(after) > 0 && (!ok || due < first) {
			heads[lane] = due
		}
	}
	var list []db.LaneHead
	for lane, due := range heads {
		list = append(list, db.LaneHead{Lane: lane, DueIn: due})
	}
	slices.SortFunc(list, func(x, y db.LaneHead) int { return x.Compare(y.Lane) })
	return list[:min(limit, len(list))], nil
}

func (q *memoryQueue) ClaimLanes(_ context.Context, quotas []db.LaneQuota, lease time.Duration) (claims []db.Claim, err error) {
	if q.onClaim != nil {
		defer q.onClaim()
	}
	return q.claim(quotas, lease, func(*queueRow) bool { return true })
}

func (q *memoryQueue) ClaimLast(_ context.Context, quotas []db.LaneQuota, lease time.Duration) ([]db.Claim, error) {
	testsOnly := map[db.Lane]bool{}
	for _, quota := range quotas {
		testsOnly[quota.Lane] = quota.TestsOnly
	}
	return q.claim(quotas, lease, func(r *queueRow) bool {
		return !r.delivery.LastAt.IsZero() && !r.delivery.LastAt.After(time.Now()) &&
			(r.delivery.Test || !testsOnly[db.Lane{Tenant: r.delivery.Tenant, Destination: r.delivery.Destination}])
	})
}

func (q *memoryQueue) claim(quotas []db.LaneQuota, lease time.Duration, which func(*queueRow) bool) (claims []db.Claim, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.away {
		return nil, errAway
	}
	for _, quota := range quotas {
		var ready []*queueRow
		for _, r := range q.rows {
			lane := db.Lane{Tenant: r.delivery.Tenant, Destination: r.delivery.Destination}
			if lane == quota.Lane && !r.held && !r.due.After(time.Now()) && !r.until.After(time.Now()) && which(r) {
				ready = append(ready, r)
			}
		}
		slices.SortFunc(ready, func(x, y *queueRow) int { return x.due.Compare(y.due) })
		for _, r := range ready[:min(quota.Quota, len(ready))] {
			switch {
			case r.token == 0:
			case r.alone:
				r.reclaims++
			default:
				r.reclaims = max(r.reclaims, 1)
			}
			q.tokens++
			r.alone = false
			r.token, r.until = 1_000_000+q.tokens, time.Now().Add(lease)
			claims = append(claims, db.Claim{Delivery: r.delivery, LeaseToken: r.token, Reclaims: r.reclaims})
		}
	}
	q.claimed += len(claims)
	return claims, nil
}

func (q *memoryQueue) BeginAlone(_ context.Context, c db.Claim, lease time.Duration) (bool, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.away {
		return false, errAway
	}
	r := q.rows[c.Delivery.ID]
	if r == nil || r.token != c.LeaseToken {
		return false, nil
	}
	r.alone, r.until = true, time.Now().Add(lease)
	return true, nil
}

func (q *memoryQueue) SubscriptionExists(context.Context, hub.SubscriptionID) (bool, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return !q.deleted, nil
}

func (q *memoryQueue) ShareLimits(_ context.Context, holder hub.ID, _ time.Duration, requests []db.LimitRequest) ([]db.LimitGrant, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.away {
		return nil, errAway
	}
	if q.shares == nil {
		q.shares, q.free = map[db.Lane]map[hub.ID]limit.Share{}, map[db.Lane]time.Time{}
	}
	grants := make([]db.LimitGrant, len(requests))
	for i, r := range requests {
		if r.RateLimit > 0 {
			starts, after := limit.Rate(r.RateLimit, time.Until(q.free[r.Lane]), r.Starts)
			grants[i].Starts, q.free[r.Lane] = starts, time.Now().Add(after)
		}
		if r.MaxInFlight > 0 {
			if q.shares[r.Lane] == nil {
				q.shares[r.Lane] = map[hub.ID]limit.Share{}
			}
			var others []limit.Share
			for h, s := range q.shares[r.Lane] {
				if h != holder {
					others = append(others, s)
				}
			}
			grants[i].Slots = limit.Slots(r.MaxInFlight, others, r.Wanted, r.Running)
			q.shares[r.Lane][holder] = limit.Share{Slots: grants[i].Slots, Wanted: r.Wanted}
		}
	}
	return grants, nil
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

func (q *memoryQueue) ReleaseLeases(_ context.Context, releases []db.Release) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.away {
		return errAway
	}
	for _, c := range releases {
		if r := q.rows[c.Claim.Delivery.ID]; r != nil && r.token == c.Claim.LeaseToken {
			r.token, r.until, r.alone = 0, time.Time{}, false
			if c.PutOff > 0 {
				r.due = time.Now().Add(c.PutOff)
			}
			if c.Hold {
				r.held = true
			}
			if !c.To.IsZero() {
				r.delivery.Destination = c.To
			}
			q.released = append(q.released, released{c.Claim.Delivery.ID, c.PutOff, c.Hold, c.To, time.Now()})
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
		r.due, r.token, r.until, r.reclaims, r.alone = o.Decision.NextAt, 0, time.Time{}, 0, false
		r.delivery.LastAt = o.Decision.LastAt
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
