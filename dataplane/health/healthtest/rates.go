package healthtest

import (
	"context"
	"slices"
	"time"

	"github.com/streaming-hub/streaming-hub/db"
	"github.com/streaming-hub/streaming-hub/hub"
	"github.com/streaming-hub/streaming-hub/hub/health"
)

// rateRow is a destination and, once it was written, its rate.
type rateRow struct {
	created time.Time
	stored  bool
	rate    health.Rate
}

// AddDestination makes a destination known; rates of others are not kept.
func (m *Memory) AddDestination(lane db.Lane, created time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.rates == nil {
		m.rates = map[db.Lane]rateRow{}
	}
	m.rates[lane] = rateRow{created: created}
}

// Rate is the rate of a destination as it is stored; zero without one.
func (m *Memory) Rate(lane db.Lane) health.Rate {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.rates[lane].rate
}

// SetRate stores a rate, as if it had been written before.
func (m *Memory) SetRate(lane db.Lane, rate health.Rate) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.rates == nil {
		m.rates = map[db.Lane]rateRow{}
	}
	row := m.rates[lane]
	row.stored, row.rate = true, spelled(rate)
	m.rates[lane] = row
}

// EnableDestination is what an operator's enabling does to the rate.
func (m *Memory) EnableDestination(lane db.Lane) {
	m.mu.Lock()
	defer m.mu.Unlock()
	row := m.rates[lane]
	row.rate = spelled(row.rate.Enabled(now()))
	m.rates[lane] = row
}

// RatesNotActive is as that of db.DB.
func (m *Memory) RatesNotActive(_ context.Context, limit int) ([]db.StoredRate, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.away {
		return nil, ErrAway
	}
	var list []db.StoredRate
	for lane, row := range m.rates {
		if (row.rate.Judged == health.Disabled || row.rate.Judged == health.Frozen) && m.judgedByRate(lane) {
			list = append(list, db.StoredRate{Lane: lane, Rate: row.rate})
		}
	}
	slices.SortFunc(list, func(a, b db.StoredRate) int { return compareIDs(a.Destination.ID, b.Destination.ID) })
	return list[:min(limit, len(list))], nil
}

// ChangeRates is as that of db.DB.
func (m *Memory) ChangeRates(_ context.Context, lanes []db.Lane, _ hub.ID, change func(int, health.Rate) (health.Rate, []hub.Notice)) ([]health.Rate, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.away {
		return nil, ErrAway
	}
	m.writes++
	rates := make([]health.Rate, len(lanes))
	for i, lane := range lanes {
		row, known := m.rates[lane]
		if !known || !m.judgedByRate(lane) {
			continue
		}
		if !row.stored {
			row.stored, row.rate = true, spelled(health.NewRate(row.created))
		}
		after, told := change(i, row.rate)
		rates[i] = after
		row.rate = spelled(after)
		m.rates[lane] = row
		m.notices = append(m.notices, told...)
	}
	return rates, nil
}

// SetPolicy changes the failure policy of a destination as an operator does.
// Until then the destination may be judged by any.
func (m *Memory) SetPolicy(lane db.Lane, was, is hub.FailurePolicy) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.policies == nil {
		m.policies = map[db.Lane]hub.FailurePolicy{}
	}
	m.policies[lane] = is
	if is.Kind == hub.FailureRate {
		for id, row := range m.spans {
			if row.span.Destination == lane.Destination {
				delete(m.spans, id)
			}
		}
	}
	row := m.rates[lane]
	row.stored, row.rate = true, spelled(row.rate.Repolicied(was, is, now()))
	m.rates[lane] = row
}

// judgedByRate reports whether FAILURE_RATE may judge a destination.
func (m *Memory) judgedByRate(lane db.Lane) bool {
	p, known := m.policies[lane]
	return !known || p.Kind == hub.FailureRate
}

// spelled is a rate as the database gives it back: ACTIVE has a name there.
func spelled(r health.Rate) health.Rate {
	if r.Judged == "" {
		r.Judged = health.Active
	}
	return r
}
