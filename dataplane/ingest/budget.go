package ingest

import (
	"context"
	"sync"
)

// byteBudget counts the bytes queued in all partitions, so that polling stops
// while they are too many: memory stays bounded at any backlog.
type byteBudget struct {
	limit int

	mu   sync.Mutex
	used int
	free chan struct{} // closed while used is below the limit
}

func newByteBudget(limit int) *byteBudget {
	b := &byteBudget{limit: limit, free: make(chan struct{})}
	close(b.free)
	return b
}

func (b *byteBudget) add(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	before := b.used < b.limit
	b.used += n
	switch after := b.used < b.limit; {
	case before && !after:
		b.free = make(chan struct{})
	case !before && after:
		close(b.free)
	}
}

// wait returns true once there is room, false when ctx ends first.
func (b *byteBudget) wait(ctx context.Context) bool {
	b.mu.Lock()
	free := b.free
	b.mu.Unlock()
	select {
	case <-free:
		return true
	case <-ctx.Done():
		return false
	}
}
