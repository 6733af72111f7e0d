package ingest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"testing"
	"time"

	"github.com/streaming-hub/streaming-hub/db"
	"github.com/streaming-hub/streaming-hub/hub"
)

// memoryInbox stores batches as the database does, and fails when told to.
type memoryInbox struct {
	// before, if any, is asked before a batch is stored, outside the lock.
	before func(w db.IngestWrites) error

	mu         sync.Mutex
	changed    chan struct{} // closed and made anew with every change
	next       map[hub.TenantID]int64
	keys       map[hub.ID]hub.ID
	events     []hub.Event
	quarantine []db.QuarantinedRecord
	deliveries []db.NewDelivery
	asked      []int // keys of each batch
	progress   map[db.Progress]int64
	behind     int64 // what the ledger holds back, to see what is made of it
}

func newInbox() *memoryInbox {
	return &memoryInbox{changed: make(chan struct{}), next: map[hub.TenantID]int64{}, keys: map[hub.ID]hub.ID{}, progress: map[db.Progress]int64{}}
}

func (m *memoryInbox) Ingest(ctx context.Context, b db.IngestBatch, plan func(context.Context, db.IngestState) (db.IngestWrites, error)) error {
	m.mu.Lock()
	state := db.IngestState{Tenants: map[hub.TenantID]db.TenantCounter{}, Known: map[hub.ID]hub.ID{}, Asked: map[hub.ID]struct{}{}}
	for _, t := range b.Tenants {
		state.Tenants[t] = db.TenantCounter{NextSeq: max(1, m.next[t]), ConfigVersion: 1}
	}
	for _, k := range b.Keys {
		state.Asked[k] = struct{}{}
		if content, ok := m.keys[k]; ok {
			state.Known[k] = content
		}
	}
	m.mu.Unlock()
	w, err := plan(ctx, state)
	if err != nil {
		return err
	}
	if m.before != nil {
		if err := m.before(w); err != nil {
			return err
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, k := range w.Keys {
		if _, ok := m.keys[k.Key]; ok {
			return errors.New("the key is there already") // two partitions at once: tried again
		}
	}
	for _, k := range w.Keys {
		m.keys[k.Key] = k.ContentHash
	}
	maps.Copy(m.next, w.NextSeqs)
	for _, e := range w.Events {
		e.Record.Topic, e.Record.Partition = w.Record.Topic, w.Record.Partition
		m.events = append(m.events, e)
	}
	m.quarantine = append(m.quarantine, w.Quarantine...)
	m.deliveries = append(m.deliveries, w.Deliveries...)
	m.asked = append(m.asked, len(b.Keys))
	if w.Progress != nil {
		at := db.Progress{Topic: w.Progress.Topic, Partition: w.Progress.Partition}
		m.progress[at] = max(m.progress[at], w.Progress.Next)
	}
	m.note()
	return nil
}

func (m *memoryInbox) StoredUpTo(_ context.Context, partitions []db.Progress) (map[db.Progress]int64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	stored := map[db.Progress]int64{}
	for _, at := range partitions {
		stored[at] = m.progress[at] - m.behind
	}
	return stored, nil
}

// note wakes those who wait; the lock is held.
func (m *memoryInbox) note() {
	close(m.changed)
	m.changed = make(chan struct{})
}

// member is one process's way to an inbox; seen are the events it stored.
type member struct {
	*memoryInbox
	seen int
}

func (m *member) Ingest(ctx context.Context, b db.IngestBatch, plan func(context.Context, db.IngestState) (db.IngestWrites, error)) error {
	stored := 0
	err := m.memoryInbox.Ingest(ctx, b, func(ctx context.Context, s db.IngestState) (db.IngestWrites, error) {
		w, err := plan(ctx, s)
		stored = len(w.Events)
		return w, err
	})
	if err == nil {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.seen += stored
		m.note()
	}
	return err
}

// wait returns once done says so of what is stored.
func (m *memoryInbox) wait(t *testing.T, what string, done func() bool) {
	t.Helper()
	limit := time.After(40 * time.Second)
	for {
		m.mu.Lock()
		ok, changed := done(), m.changed
		m.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-changed:
		case <-limit:
			t.Fatalf("waited too long for %s", what)
		}
	}
}

func (m *memoryInbox) waitEvents(t *testing.T, n int) {
	t.Helper()
	m.wait(t, fmt.Sprint(n, " events"), func() bool { return len(m.events) >= n })
}
