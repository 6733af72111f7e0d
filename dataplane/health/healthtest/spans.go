package healthtest

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/streaming-hub/streaming-hub/db"
	"github.com/streaming-hub/streaming-hub/hub"
)

type changedSpan struct {
	span      db.FailureSpan
	changedAt time.Time
}

// Span is the failure span of a subscription as it is stored; not open when
// there is none.
func (m *Memory) Span(id hub.SubscriptionID) db.FailureSpan {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.spans[id].span
}

// SpansChangedSince is as that of db.DB.
func (m *Memory) SpansChangedSince(_ context.Context, since time.Time, limit int) ([]db.FailureSpan, time.Time, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.away {
		return nil, since, ErrAway
	}
	var rows []changedSpan
	for _, r := range m.spans {
		if r.changedAt.After(since) {
			rows = append(rows, r)
		}
	}
	slices.SortFunc(rows, func(a, b changedSpan) int {
		return cmp.Or(a.changedAt.Compare(b.changedAt), compareIDs(a.span.Subscription.ID, b.span.Subscription.ID))
	})
	rows = rows[:min(limit, len(rows))]
	last := since
	var list []db.FailureSpan
	for _, r := range rows {
		list, last = append(list, r.span), r.changedAt
	}
	return list, last, nil
}

// LongSpans is as that of db.DB.
func (m *Memory) LongSpans(_ context.Context, began time.Time, after hub.SubscriptionID, limit int) ([]db.FailureSpan, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.away {
		return nil, ErrAway
	}
	var list []db.FailureSpan
	for id, r := range m.spans {
		if sub := m.subscriptions[id]; !r.span.Span.FirstFailureAt.After(began) && compareIDs(id.ID, after.ID) > 0 &&
			sub.Enabled && m.judgedBySpan(sub, r.span.Destination) {
			list = append(list, r.span)
		}
	}
	slices.SortFunc(list, func(a, b db.FailureSpan) int { return compareIDs(a.Subscription.ID, b.Subscription.ID) })
	return list[:min(limit, len(list))], nil
}

// ChangeSpans is as that of db.DB.
func (m *Memory) ChangeSpans(_ context.Context, wanted []db.FailureSpan, _ hub.ID, change func(int, db.FailureSpan) (db.FailureSpan, []hub.Notice)) ([]db.FailureSpan, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.away {
		return nil, ErrAway
	}
	m.writes++
	result := slices.Clone(wanted)
	for i, w := range wanted {
		none := db.FailureSpan{Subscription: w.Subscription, Tenant: w.Tenant, Destination: w.Destination}
		if result[i] = none; !m.judgedBySpan(m.subscriptions[w.Subscription], w.Destination) {
			continue
		}
		row, there := m.spans[w.Subscription]
		before := row.span
		if !there || before.Destination != w.Destination {
			before = none
		}
		after, told := change(i, before)
		m.writeSpan(before, after, there)
		m.notices = append(m.notices, told...)
		result[i] = after
	}
	return result, nil
}

func (m *Memory) writeSpan(before, after db.FailureSpan, there bool) {
	switch {
	case !after.Span.Open():
		delete(m.spans, after.Subscription)
	case !there || after != before:
		if m.spans == nil {
			m.spans = map[hub.SubscriptionID]changedSpan{}
		}
		m.spans[after.Subscription] = changedSpan{after, now()}
	}
}

// judgedBySpan reports whether a subscription exists, leads to a destination,
// and that is under FAILURE_SPAN.
func (m *Memory) judgedBySpan(s hub.EventSubscription, to hub.DestinationID) bool {
	lane := db.Lane{Tenant: s.Tenant, Destination: to}
	return !s.ID.IsZero() && s.DeletedAt.IsZero() && s.Destination == to && m.policies[lane].Kind != hub.FailureRate
}
