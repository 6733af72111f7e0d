package dispatch

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/streaming-hub/streaming-hub/dataplane/outage"
	"github.com/streaming-hub/streaming-hub/db"
	"github.com/streaming-hub/streaming-hub/hub"
)

const (
	// maxFlush bounds the outcomes of one statement.
	maxFlush = 500
	// releaseEvery is how long releases gather before they are written.
	releaseEvery = 20 * time.Millisecond
	// Waits between tries while Postgres is away.
	firstBackoff, maxBackoff = 50 * time.Millisecond, 2 * time.Second
)

// outcomeWriter writes outcomes in batches: while one flush is under way the
// next one gathers, so the batch grows with the load and a lone outcome waits
// for nothing. Postgres being away is waited out; the bound on what is
// unwritten then stops the workers.
type outcomeWriter struct {
	deps    Deps
	outages *outage.Book
	slots   chan struct{} // one token per outcome sent and not yet written

	mu       sync.Mutex
	arrived  chan struct{}
	outcomes []hub.Outcome
	releases []db.Release
	closed   bool
}

func newOutcomeWriter(d Deps, outages *outage.Book) *outcomeWriter {
	return &outcomeWriter{deps: d, outages: outages, slots: make(chan struct{}, d.Unwritten), arrived: make(chan struct{}, 1)}
}

// write queues an outcome. It holds up its worker while too many are
// unwritten, so a crash repeats at most those and one attempt per worker. When
// ctx ends first the outcome is dropped, and the lease runs out by itself.
func (w *outcomeWriter) write(ctx context.Context, o hub.Outcome) {
	select {
	case w.slots <- struct{}{}:
	case <-ctx.Done():
		return
	}
	w.mu.Lock()
	w.outcomes = append(w.outcomes, o)
	w.mu.Unlock()
	w.signal()
}

// release queues the return of a lease without an attempt.
func (w *outcomeWriter) release(r db.Release) {
	w.mu.Lock()
	w.releases = append(w.releases, r)
	w.mu.Unlock()
	w.signal()
}

func (w *outcomeWriter) signal() {
	select {
	case w.arrived <- struct{}{}:
	default:
	}
}

// close lets run end once everything is written.
func (w *outcomeWriter) close() {
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
	w.signal()
}

// run writes until close, or until ctx ends with whatever is left unwritten:
// those leases run out.
func (w *outcomeWriter) run(ctx context.Context) {
	var lastRelease time.Time
	for {
		w.mu.Lock()
		n := min(len(w.outcomes), maxFlush)
		batch := w.outcomes[:n:n]
		w.outcomes = w.outcomes[n:]
		if len(w.outcomes) == 0 {
			w.outcomes = nil
		}
		var releases []db.Release
		if len(w.releases) > 0 && (w.closed || n == 0 || w.deps.Now().Sub(lastRelease) >= releaseEvery) {
			releases, w.releases = w.releases, nil
		}
		closed := w.closed
		w.mu.Unlock()

		if n == 0 && releases == nil {
			if closed {
				return
			}
			select {
			case <-w.arrived:
			case <-ctx.Done():
				return
			}
			continue
		}
		if n > 0 && !w.record(ctx, batch) {
			return
		}
		if releases != nil {
			lastRelease = w.deps.Now()
			w.giveBack(ctx, releases)
		}
	}
}

// record writes a batch, trying until it is written; false means ctx ended.
func (w *outcomeWriter) record(ctx context.Context, batch []hub.Outcome) bool {
	for wait := firstBackoff; ; wait = min(2*wait, maxBackoff) {
		begun := w.deps.Now()
		recorded, err := w.deps.Queue.RecordOutcomes(ctx, hub.NewID(begun, w.deps.Random), batch)
		if !w.outages.Failed("write outcomes", err, "outcomes", len(batch)) {
			w.deps.Metrics.flush(len(batch), len(batch)-len(recorded), w.deps.Now().Sub(begun))
			for range batch {
				<-w.slots
			}
			return true
		}
		if ctx.Err() != nil {
			return false
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return false
		}
	}
}

func (w *outcomeWriter) giveBack(ctx context.Context, releases []db.Release) {
	for part := range slices.Chunk(releases, maxFlush) {
		w.outages.Failed(giveLeasesBack, w.deps.Queue.ReleaseLeases(ctx, part), "deliveries", len(part))
	}
}
