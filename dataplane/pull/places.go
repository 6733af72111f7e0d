package pull

import (
	"sync"
	"time"

	"github.com/streaming-hub/streaming-hub/hub"
)

// maxPlaces bounds the memory of places, about 1 MiB.
const maxPlaces = 8192

// places remember when the event of a cursor that was given out was made, so
// that the next read leaves out the partitions before it: with 40 partitions
// that is a third to a quarter of the time. A place that was forgotten costs
// only that.
type places struct {
	mu sync.Mutex
	at map[place]time.Time
}

type place struct {
	tenant hub.TenantID
	seq    int64
}

func (p *places) made(tenant hub.TenantID, seq int64) time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.at[place{tenant, seq}]
}

func (p *places) keep(tenant hub.TenantID, seq int64, made time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.at == nil || len(p.at) >= maxPlaces {
		p.at = make(map[place]time.Time)
	}
	p.at[place{tenant, seq}] = made
}
