package replay

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/streaming-hub/streaming-hub/db"
	"github.com/streaming-hub/streaming-hub/hub"
	"github.com/streaming-hub/streaming-hub/hub/hubtest"
	"github.com/streaming-hub/streaming-hub/hub/replay"
)

// callTakes is how long a call of memory takes.
const callTakes = 2 * time.Millisecond

var errKilled = errors.New("killed")

// memory is a Store, and the receivers behind the queue: what is released is
// tried a little later.
type memory struct {
	mu    sync.Mutex
	jobs  []*memoryJob // the oldest first
	calls int
	fail  error // of each step and scan
	// kill, if any, is told of the calls by number; it says whether the process
	// dies before or after the transaction of the call is committed.
	kill func(call int, committed bool) bool
}

// memoryJob is one job with its items.
type memoryJob struct {
	hub.ReplayJob
	source  int64 // how much its preview will find
	scans   int
	steps   int
	busy    bool // a replica holds the row
	items   []hub.ItemState
	out     []release
	answers func(item int) hub.ItemState
	doubles int // items that were released once more
	paused  time.Time
}

// release is what one step released, and when.
type release struct {
	at time.Time
	n  int
}

// add makes a job of n items that is to be previewed, and then starts by itself
// at the pace.
func (m *memory) add(n int64, pace hub.ReplayPace) *memoryJob {
	j := &memoryJob{source: n, answers: func(int) hub.ItemState { return hub.ItemDelivered }}
	j.ID.ID, j.State, j.CreatedAt, j.Pace = hubtest.NewID(), hub.JobPreviewing, time.Now(), pace
	m.mu.Lock()
	defer m.mu.Unlock()
	m.jobs = append(m.jobs, j)
	return j
}

// call is the part of a call that every one has.
func (m *memory) call(ctx context.Context, transaction func() error) error {
	time.Sleep(callTakes)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.calls++
	call := m.calls
	if m.kill != nil && m.kill(call, false) {
		return errKilled
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	err := transaction()
	if m.kill != nil && m.kill(call, true) {
		return errKilled
	}
	return err
}

func (m *memory) ActiveReplayJobs(ctx context.Context, limit int) (list []db.ActiveJob, err error) {
	err = m.call(ctx, func() error {
		for _, j := range m.jobs {
			if !j.State.Ended() && j.State != hub.JobPaused && len(list) < limit {
				list = append(list, db.ActiveJob{ID: j.ID, State: j.State, CreatedAt: j.CreatedAt})
			}
		}
		return nil
	})
	return list, err
}

// locked runs a transaction under a job's row lock, unless somebody else has it.
func (m *memory) locked(ctx context.Context, id hub.JobID, transaction func(*memoryJob) error) (got bool, err error) {
	m.mu.Lock()
	i := slices.IndexFunc(m.jobs, func(j *memoryJob) bool { return j.ID == id })
	j := m.jobs[i]
	if got = !j.busy; got {
		j.busy = true
	}
	m.mu.Unlock()
	if !got {
		return false, nil
	}
	err = m.call(ctx, func() error {
		if m.fail != nil {
			return m.fail
		}
		return transaction(j)
	})
	m.mu.Lock()
	defer m.mu.Unlock()
	j.busy = false
	return true, err
}

func (m *memory) ScanReplay(ctx context.Context, id hub.JobID, chunk int, _ hub.ID) (more bool, err error) {
	_, err = m.locked(ctx, id, func(j *memoryJob) error {
		if j.State != hub.JobPreviewing {
			return nil
		}
		j.scans++
		j.Total += min(int64(chunk), j.source-j.Total)
		if more = j.Total < j.source; !more {
			j.State, j.PreviewedAt = hub.JobReady, time.Now()
			j.items = make([]hub.ItemState, j.Total)
			if j.Pace.RatePerSecond > 0 {
				_, err := replay.Start(&j.ReplayJob, j.Pace, time.Now())
				return err
			}
		}
		return nil
	})
	return more, err
}

func (m *memory) StepReplay(ctx context.Context, id hub.JobID, _ hub.ID, decide func(*hub.ReplayJob, time.Time) replay.Step) (bool, error) {
	return m.locked(ctx, id, func(j *memoryJob) error {
		j.steps++
		s := decide(&j.ReplayJob, time.Now())
		first := int(j.Released + j.Skipped)
		for i := range s.Release {
			if j.items[first+i] != "" {
				j.doubles++
			}
			j.items[first+i] = hub.ItemReleased
		}
		j.Released += int64(s.Release)
		if s.Release > 0 {
			j.out = append(j.out, release{time.Now(), s.Release})
		}
		if s.State == hub.JobPaused {
			j.paused = time.Now()
		}
		j.PacedTo, j.CanaryPassed, j.State, j.PausedBy, j.Reason = s.PacedTo, s.CanaryPassed, s.State, s.PausedBy, s.Reason
		return nil
	})
}

// deliver tries what was released, until ctx ends.
func (m *memory) deliver(ctx context.Context) {
	tick := time.NewTicker(30 * time.Millisecond)
	defer tick.Stop()
	tried := map[*memoryJob]int{}
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		m.mu.Lock()
		for _, j := range m.jobs {
			for ; tried[j] < len(j.items) && j.items[tried[j]] == hub.ItemReleased; tried[j]++ {
				i := tried[j]
				j.Tried++
				switch j.items[i] = j.answers(i); j.items[i] {
				case hub.ItemDelivered:
					j.Delivered++
				case hub.ItemDead:
					j.Failed++
					j.Dead++
				}
			}
		}
		m.mu.Unlock()
	}
}

// do looks at the jobs while nobody else does.
func (m *memory) do(look func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	look()
}
