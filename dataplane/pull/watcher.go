package pull

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/streaming-hub/streaming-hub/dataplane/outage"
	"github.com/streaming-hub/streaming-hub/db"
	"github.com/streaming-hub/streaming-hub/hub"
)

// watchEvery is how long an event that another process stored can go
// unnoticed by the long polls of this one. NOTIFY would be faster and is not
// used: it makes all commits of ingest wait for each other.
const watchEvery = 500 * time.Millisecond

// SeqStore knows the newest seqs.
type SeqStore interface {
	NewestSeqs(ctx context.Context, tenants []hub.TenantID) (map[hub.TenantID]int64, error)
}

// Inbox stores batches of events.
type Inbox interface {
	Ingest(ctx context.Context, b db.IngestBatch, plan func(context.Context, db.IngestState) (db.IngestWrites, error)) error
}

// Watcher wakes long polls. A process has one for all of them: what it stores
// itself wakes at once, and one query asks for what others stored, over the
// tenants that somebody waits for. It is safe for concurrent use.
type Watcher struct {
	store SeqStore
	log   *slog.Logger

	mu      sync.Mutex
	tenants map[hub.TenantID]*watched
}

// watched is a tenant that somebody waits for.
type watched struct {
	waiters int
	newest  int64
	grown   chan struct{} // closed when newest grows
}

// NewWatcher makes a watcher; Run does the work.
func NewWatcher(store SeqStore, log *slog.Logger) *Watcher {
	return &Watcher{store: store, log: log, tenants: map[hub.TenantID]*watched{}}
}

// Run looks for what other processes stored until ctx ends.
func (w *Watcher) Run(ctx context.Context) error {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	outages := outage.New(w.log)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		outages.Failed("look for new events, long polls wait", w.look(ctx))
	}
}

func (w *Watcher) look(ctx context.Context) error {
	w.mu.Lock()
	tenants := make([]hub.TenantID, 0, len(w.tenants))
	for t := range w.tenants {
		tenants = append(tenants, t)
	}
	w.mu.Unlock()
	if len(tenants) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	newest, err := w.store.NewestSeqs(ctx, tenants)
	if err == nil {
		w.stored(newest)
	}
	return err
}

// stored wakes those who wait for something up to the tenants' newest seqs.
func (w *Watcher) stored(newest map[hub.TenantID]int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for t, seq := range newest {
		if one, ok := w.tenants[t]; ok && seq > one.newest {
			one.newest = seq
			close(one.grown)
			one.grown = make(chan struct{})
		}
	}
}

// join begins to watch a tenant; what is stored from now on ends a wait. Each
// join needs its leave.
func (w *Watcher) join(t hub.TenantID) (leave func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	one := w.tenants[t]
	if one == nil {
		one = &watched{grown: make(chan struct{})}
		w.tenants[t] = one
	}
	one.waiters++
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if one.waiters--; one.waiters == 0 {
			delete(w.tenants, t)
		}
	}
}

// wait returns the newest seq of a joined tenant as soon as it is larger than
// after; ok is false when the context ended before.
func (w *Watcher) wait(ctx context.Context, t hub.TenantID, after int64) (newest int64, ok bool) {
	for {
		w.mu.Lock()
		one := w.tenants[t]
		newest, grown := one.newest, one.grown
		w.mu.Unlock()
		if newest > after {
			return newest, true
		}
		select {
		case <-grown:
		case <-ctx.Done():
			return newest, false
		}
	}
}

// Inbox is an inbox whose batches wake the long polls of this process as soon
// as they are stored.
func (w *Watcher) Inbox(of Inbox) Inbox { return announcing{of, w} }

type announcing struct {
	Inbox
	watcher *Watcher
}

func (a announcing) Ingest(ctx context.Context, b db.IngestBatch, plan func(context.Context, db.IngestState) (db.IngestWrites, error)) error {
	newest := map[hub.TenantID]int64{}
	err := a.Inbox.Ingest(ctx, b, func(ctx context.Context, s db.IngestState) (db.IngestWrites, error) {
		writes, err := plan(ctx, s)
		clear(newest)
		for t, next := range writes.NextSeqs {
			newest[t] = next - 1
		}
		return writes, err
	})
	if err == nil {
		a.watcher.stored(newest)
	}
	return err
}
