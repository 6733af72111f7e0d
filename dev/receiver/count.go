package receiver

import (
	"net/http"
	"sync"
	"sync/atomic"

	"github.com/streaming-hub/streaming-hub/hub"
)

// counter counts requests by webhook-id. It is split so that many connections
// do not wait for one lock; an id costs about 40 bytes.
type counter struct {
	requests   atomic.Int64
	unverified atomic.Int64
	distinct   atomic.Int64
	shards     [64]countShard
}

type countShard struct {
	mu    sync.Mutex
	times map[hub.ID]uint32
	_     [40]byte // a cache line of its own
}

// Counts sums up what came.
type Counts struct {
	Requests   int64 `json:"requests"`
	Distinct   int64 `json:"distinct"`   // different webhook-ids
	Repeats    int64 `json:"repeats"`    // requests beyond the first of an id
	Unverified int64 `json:"unverified"` // requests without two right signatures
}

func (c *counter) add(h http.Header, verified bool) {
	if !verified {
		c.unverified.Add(1)
	}
	// An id of another form than ours is counted as a request only.
	if id, err := hub.ParseID(h.Get("webhook-id")); err == nil {
		s := &c.shards[id[15]%64]
		s.mu.Lock()
		if s.times == nil {
			s.times = map[hub.ID]uint32{}
		}
		s.times[id]++
		first := s.times[id] == 1
		s.mu.Unlock()
		if first {
			c.distinct.Add(1)
		}
	}
	c.requests.Add(1)
}

func (c *counter) clear() {
	for i := range c.shards {
		s := &c.shards[i]
		s.mu.Lock()
		s.times = nil
		s.mu.Unlock()
	}
	c.requests.Store(0)
	c.unverified.Store(0)
	c.distinct.Store(0)
}

// Counts are cheap to read while requests come in; they are exact when none is
// under way.
func (r *Receiver) Counts() Counts {
	n, d := r.counts.requests.Load(), r.counts.distinct.Load()
	return Counts{Requests: n, Distinct: d, Repeats: n - d, Unverified: r.counts.unverified.Load()}
}

// Times is how often a webhook-id came.
func (r *Receiver) Times(id hub.ID) int {
	s := &r.counts.shards[id[15]%64]
	s.mu.Lock()
	defer s.mu.Unlock()
	return int(s.times[id])
}

// Clear forgets all requests and counts; secrets and scripts stay.
func (r *Receiver) Clear() {
	r.log.clear()
	r.counts.clear()
}
