package dataplane

import (
	"context"
	"time"

	"github.com/streaming-hub/streaming-hub/dataplane/dispatch"
	"github.com/streaming-hub/streaming-hub/dataplane/ingest"
	"github.com/streaming-hub/streaming-hub/db"
	"github.com/streaming-hub/streaming-hub/hub"
)

// ingestPool is what ingest hands new deliveries to: the pool of this process,
// or nobody where this process does not deliver. Then they wait in the queue
// for the processes that do.
func ingestPool(c Config, pool *dispatch.Pool) ingest.Pool {
	if c.Deliver {
		return pool
	}
	return nobody{}
}

type nobody struct{}

func (nobody) Reserve([]db.NewDelivery)                                       {}
func (nobody) Submit([]db.NewDelivery, map[hub.EventID]*hub.Event, time.Time) {}
func (nobody) Cancel([]db.NewDelivery)                                        {}
func (nobody) Lease() time.Duration                                           { return 0 }
func (nobody) AwaitRoom(context.Context, int) func()                          { return func() {} }
