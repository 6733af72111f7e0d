package pull

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/streaming-hub/streaming-hub/db"
	"github.com/streaming-hub/streaming-hub/hub"
	"github.com/streaming-hub/streaming-hub/hub/match"
)

const (
	// maxScan bounds the rows that one request looks at, however few of them
	// its filter lets through.
	maxScan = 5000
	// scanChunk is how many of them one statement reads.
	scanChunk = 1000
	// maxAnswer bounds an answer, in bytes as estimated by cost. A single event
	// may be larger, in base64 with many attributes.
	maxAnswer = 8 << 20
	// readTimeout bounds one statement.
	readTimeout = 10 * time.Second
)

// Store reads events.
type Store interface {
	SeqStore
	ScanEvents(ctx context.Context, tenant hub.TenantID, after int64, since time.Time, limit int) ([]db.EventMark, error)
	Events(ctx context.Context, ids []hub.ID) ([]hub.Event, error)
}

// filter is a list of wishes, all of which an event has to meet.
type filter []hub.EventSubscription

func (f filter) wants(e *hub.Event) bool {
	for i := range f {
		if !match.Wants(e, &f[i]) {
			return false
		}
	}
	return true
}

// page is what a request found so far.
type page struct {
	tenant  hub.TenantID
	from    int64          // the cursor that it began with
	at      int64          // every event up to here was looked at
	made    time.Time      // when the event with seq at was made; zero if not known
	newest  int64          // seq of the tenant's newest event
	picked  []db.EventMark // those that the filter lets through
	bytes   int            // estimated size of the answer
	scanned int            // rows looked at
	full    bool           // nothing more goes into this answer
}

// cost estimates what an event takes in an answer: its body in base64 and
// its attributes.
func cost(m *db.EventMark) int { return int(m.BodyBytes)/3*4 + 1024 }

// newest reads a tenant's newest seq.
func (a *API) newest(ctx context.Context, t hub.TenantID) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	seqs, err := a.deps.Store.NewestSeqs(ctx, []hub.TenantID{t})
	return seqs[t], err
}

// open begins a page at the place that the request names.
func (a *API) open(ctx context.Context, t hub.TenantID, p *params) (*page, error) {
	newest, err := a.newest(ctx, t)
	if err != nil {
		return nil, err
	}
	g := &page{tenant: t, newest: newest}
	switch p.start {
	case latest:
		g.at = newest
	case earliest:
		if g.at, err = a.oldest(ctx, t, newest); err != nil {
			return nil, err
		}
	default:
		if g.at = p.after; g.at > newest {
			return nil, cursorAhead(t, g.at, newest)
		}
		g.made = a.places.made(t, g.at)
	}
	g.from = g.at
	return g, nil
}

// oldest is the cursor before the oldest event that is kept.
func (a *API) oldest(ctx context.Context, t hub.TenantID, newest int64) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	marks, err := a.deps.Store.ScanEvents(ctx, t, 0, time.Time{}, 1)
	if err != nil || len(marks) == 0 {
		return newest, err
	}
	return marks[0].Event.Seq - 1, nil
}

// fill looks at the events up to the newest until the page is full.
func (a *API) fill(ctx context.Context, g *page, f filter, limit int) error {
	for !g.full && g.at < g.newest {
		want := limit
		if len(f) > 0 {
			want = min(scanChunk, maxScan-g.scanned)
		}
		marks, err := a.scan(ctx, g, want)
		var gone *fault
		if errors.As(err, &gone) && gone.status == http.StatusGone && g.at > g.from {
			g.full = true // the reader gets this much first, and hears of it then
			return nil
		}
		if err != nil {
			return err
		}
		for i := range marks {
			m := &marks[i]
			wanted := f.wants(&m.Event)
			if wanted && len(g.picked) > 0 && g.bytes+cost(m) > maxAnswer {
				g.full = true
				return nil
			}
			g.at, g.made = m.Event.Seq, m.Event.ID.Time()
			g.newest = max(g.newest, g.at)
			g.scanned++
			if wanted {
				g.picked, g.bytes = append(g.picked, *m), g.bytes+cost(m)
			}
			if len(g.picked) == limit || g.scanned == maxScan {
				g.full = true
				return nil
			}
		}
	}
	return nil
}

// scan reads the events that follow each other without a gap behind the page.
// There is one, for the newest seq was read before: when it is missing,
// retention has dropped it.
func (a *API) scan(ctx context.Context, g *page, limit int) ([]db.EventMark, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	since := g.made
	for {
		marks, err := a.deps.Store.ScanEvents(ctx, g.tenant, g.at, since, limit)
		if err != nil {
			return nil, err
		}
		a.deps.Metrics.Scanned.Add(float64(len(marks)))
		run := 0
		for run < len(marks) && marks[run].Event.Seq == g.at+1+int64(run) {
			run++
		}
		switch {
		case run > 0:
			return marks[:run], nil
		case !since.IsZero():
			since = time.Time{} // a clock may have been wrong: look everywhere
		case len(marks) > 0:
			first := marks[0].Event.Seq
			return nil, cursorExpired(g.at, first, first-1)
		default:
			return nil, cursorExpired(g.at, 0, g.newest)
		}
	}
}
