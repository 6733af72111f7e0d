// Package circuittest keeps circuit breakers in memory, for tests in fake
// time. Several boards may share one Memory, as replicas share a database.
package circuittest

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/streaming-hub/streaming-hub/db"
	"github.com/streaming-hub/streaming-hub/hub"
	"github.com/streaming-hub/streaming-hub/hub/breaker"
)

// Memory is a store of circuit breakers.
type Memory struct {
	mu      sync.Mutex
	rows    map[db.Lane]db.StoredBreaker
	notices []hub.Notice
	away    bool
	writes  int
}

// ErrAway is what a Memory that is away answers.
var ErrAway = errors.New("the database is away")

// SetAway makes every call fail, or succeed again.
func (m *Memory) SetAway(away bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.away = away
}

// BreakersChangedSince is as that of db.DB.
func (m *Memory) BreakersChangedSince(_ context.Context, since time.Time, limit int) ([]db.StoredBreaker, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.away {
		return nil, ErrAway
	}
	var list []db.StoredBreaker
	for _, r := range m.rows {
		if r.ChangedAt.After(since) {
			list = append(list, r)
		}
	}
	slices.SortFunc(list, func(a, b db.StoredBreaker) int {
		return cmp.Or(a.ChangedAt.Compare(b.ChangedAt), a.Compare(b.Lane))
	})
	return list[:min(limit, len(list))], nil
}

// ChangeBreakers is as that of db.DB.
func (m *Memory) ChangeBreakers(_ context.Context, lanes []db.Lane, _ hub.ID, change func(int, breaker.State) (breaker.State, []hub.Notice)) ([]breaker.State, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.away {
		return nil, ErrAway
	}
	if m.rows == nil {
		m.rows = map[db.Lane]db.StoredBreaker{}
	}
	m.writes++
	states := make([]breaker.State, len(lanes))
	for i, lane := range lanes {
		before := m.rows[lane].State
		after, told := change(i, before)
		m.notices = append(m.notices, told...)
		if after != before {
			after.Version = before.Version + 1
			m.rows[lane] = db.StoredBreaker{Lane: lane, State: after, ChangedAt: time.Now()}
		}
		states[i] = after
	}
	return states, nil
}

// State is a breaker as it is stored.
func (m *Memory) State(lane db.Lane) breaker.State {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.rows[lane].State
}

// Notices are those published so far.
func (m *Memory) Notices() []hub.Notice {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.notices)
}

// Writes counts the calls of ChangeBreakers.
func (m *Memory) Writes() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.writes
}
