// Package healthtest keeps what the failure policies count in memory, for
// tests in fake time. Several boards may share one Memory, as replicas share a
// database.
package healthtest

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/streaming-hub/streaming-hub/db"
	"github.com/streaming-hub/streaming-hub/hub"
)

// Memory is a store of subscriptions, their failure spans, and the failure
// rates of destinations.
type Memory struct {
	mu            sync.Mutex
	subscriptions map[hub.SubscriptionID]hub.EventSubscription
	spans         map[hub.SubscriptionID]changedSpan
	rates         map[db.Lane]rateRow
	policies      map[db.Lane]hub.FailurePolicy // of those that were changed
	notices       []hub.Notice
	audits        []db.AuditEntry
	away          bool
	writes        int
}

// ErrAway is what a Memory that is away answers.
var ErrAway = errors.New("the database is away")

// SetAway makes every call fail, or succeed again.
func (m *Memory) SetAway(away bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.away = away
}

// AddSubscription makes a subscription known.
func (m *Memory) AddSubscription(s hub.EventSubscription) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.subscriptions == nil {
		m.subscriptions = map[hub.SubscriptionID]hub.EventSubscription{}
	}
	m.subscriptions[s.ID] = s
}

// ChangeSubscription changes a subscription as an operator does; one that is
// deleted or gets another destination has no span any more.
func (m *Memory) ChangeSubscription(id hub.SubscriptionID, change func(*hub.EventSubscription)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.subscriptions[id]
	to := s.Destination
	change(&s)
	m.subscriptions[id] = s
	if !s.DeletedAt.IsZero() || s.Destination != to {
		delete(m.spans, id)
	}
}

// Subscription is a subscription as it is stored.
func (m *Memory) Subscription(id hub.SubscriptionID) hub.EventSubscription {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.subscriptions[id]
}

// DisableSubscription is as that of db.DB.
func (m *Memory) DisableSubscription(_ context.Context, r db.AutoDisable) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.away {
		return false, ErrAway
	}
	before, known := m.subscriptions[r.Subscription]
	if !known {
		return false, nil
	}
	span := db.FailureSpan{Subscription: r.Subscription, Tenant: r.Tenant, Destination: before.Destination}
	row, there := m.spans[r.Subscription]
	if there = there && row.span.Destination == span.Destination; there {
		span = row.span
	}
	reason, after := r.Judge(&before, span)
	if reason == "" || !before.Enabled || !before.DeletedAt.IsZero() {
		return false, nil
	}
	if there {
		m.writeSpan(span, after, true)
	}
	now := before
	now.Enabled, now.DisabledBy, now.DisabledReason, now.DisabledAt = false, hub.DisabledByAuto, reason, r.At
	m.subscriptions[r.Subscription] = now
	m.notices = append(m.notices, r.Notice(reason, after))
	m.audits = append(m.audits, r.Audit(&before, &now))
	m.writes++
	return true, nil
}

// PublishNotices is as that of db.DB.
func (m *Memory) PublishNotices(_ context.Context, _ hub.ID, notices []hub.Notice) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.away {
		return ErrAway
	}
	m.notices = append(m.notices, notices...)
	return nil
}

// Notices are those published so far.
func (m *Memory) Notices() []hub.Notice {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.notices)
}

// Audits are the entries of the audit log, one for each disabling.
func (m *Memory) Audits() []db.AuditEntry {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.audits)
}

// Writes counts the transactions that were asked to write, also those in which
// nothing changed.
func (m *Memory) Writes() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.writes
}

// now is the clock in the precision of the database.
func now() time.Time { return time.Now().UTC().Truncate(time.Microsecond) }

func compareIDs(a, b hub.ID) int { return bytes.Compare(a[:], b[:]) }
