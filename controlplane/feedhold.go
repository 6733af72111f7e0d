package controlplane

import (
	"context"
	"strings"
	"sync"
	"time"
)

// holdLookEvery is how often the oldest running transaction is looked at.
const holdLookEvery = 2 * time.Second

// FeedHold watches what the live feed waits for. The feed is read below the
// oldest running transaction, whoever runs it, so one write transaction that
// hangs anywhere in the cluster holds up every reader. Nothing is lost, but
// nothing is live any more, and people must be told why.
type FeedHold struct {
	mu     sync.Mutex
	oldest string
	since  time.Time
	held   time.Duration
}

// FeedMoment reads Postgres' present snapshot, in its form xmin:xmax:running.
type FeedMoment interface {
	FeedSnapshot(ctx context.Context) (string, error)
}

// Run looks until ctx ends. A database that is away is told elsewhere.
func (h *FeedHold) Run(ctx context.Context, feed FeedMoment, now func() time.Time) error {
	tick := time.NewTicker(holdLookEvery)
	defer tick.Stop()
	for {
		if snapshot, err := feed.FeedSnapshot(ctx); err == nil {
			h.Note(snapshot, now())
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// Note takes in a snapshot: while the same transaction stays the oldest
// running one, the feed is held since it was first seen to be.
func (h *FeedHold) Note(snapshot string, now time.Time) {
	oldest, rest, _ := strings.Cut(snapshot, ":")
	next, _, _ := strings.Cut(rest, ":")
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case oldest == next: // none runs that another has overtaken
		h.oldest, h.held = "", 0
	case oldest != h.oldest:
		h.oldest, h.since, h.held = oldest, now, 0
	default:
		h.held = now.Sub(h.since)
	}
}

// Held is for how long one transaction has held up the feed, at least, as of
// the last look; 0 when none does.
func (h *FeedHold) Held() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.held
}
