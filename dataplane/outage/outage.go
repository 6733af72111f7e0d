// Package outage keeps the log readable while something is away: each thing
// that cannot be done is said once when it begins and once when it is over,
// however often it is tried in between. Metrics and readiness tell how it
// stands meanwhile.
package outage

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// Book keeps the outages of one part of the program. It is safe for concurrent
// use.
type Book struct {
	log   *slog.Logger
	going atomic.Int32 // outages, so that success costs nothing while there are none

	mu    sync.Mutex
	since map[string]time.Time
}

// New makes a book that tells log.
func New(log *slog.Logger) *Book { return &Book{log: log, since: map[string]time.Time{}} }

// Failed takes down how a try ended and returns whether it failed. what is a
// verb with its object, "claim deliveries"; the first failure is logged as
// "cannot claim deliveries; trying again" with the error and args, the first
// success behind it as "can claim deliveries again". A try that was given up
// because its caller stops says nothing.
func (b *Book) Failed(what string, err error, args ...any) bool {
	if err == nil {
		if b.going.Load() > 0 {
			b.over(what)
		}
		return false
	}
	if errors.Is(err, context.Canceled) {
		return true
	}
	b.mu.Lock()
	_, told := b.since[what]
	if !told {
		b.since[what] = time.Now()
		b.going.Add(1)
	}
	b.mu.Unlock()
	if !told {
		b.log.Warn("cannot "+what+"; trying again", append([]any{"error", err}, args...)...)
	}
	return true
}

func (b *Book) over(what string) {
	b.mu.Lock()
	begun, told := b.since[what]
	if told {
		delete(b.since, what)
		b.going.Add(-1)
	}
	b.mu.Unlock()
	if told {
		b.log.Info("can "+what+" again", "after", time.Since(begun).Round(time.Millisecond))
	}
}
