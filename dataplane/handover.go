package dataplane

import (
	"context"
	"log/slog"
	"time"

	"github.com/streaming-hub/streaming-hub/dataplane/dispatch"
	"github.com/streaming-hub/streaming-hub/dataplane/ingest"
	"github.com/streaming-hub/streaming-hub/db"
	"github.com/streaming-hub/streaming-hub/hub"
)

// ingestPool is what ingest hands new deliveries to: the pool of this process,
// or where this process does not deliver, an announcement to those that do.
func ingestPool(c Config, pool *dispatch.Pool, a *announcer) ingest.Pool {
	if c.Deliver {
		return pool
	}
	return a
}

// announcer leaves new deliveries in the queue and wakes the processes that
// deliver. Announcements that come while one is under way become one.
type announcer struct {
	db    *db.DB
	log   *slog.Logger
	asked chan struct{}
}

func newAnnouncer(d *db.DB, log *slog.Logger) *announcer {
	return &announcer{db: d, log: log, asked: make(chan struct{}, 1)}
}

func (*announcer) Reserve([]db.NewDelivery)              {}
func (*announcer) Cancel([]db.NewDelivery)               {}
func (*announcer) Lease() time.Duration                  { return 0 }
func (*announcer) AwaitRoom(context.Context, int) func() { return func() {} }

func (a *announcer) Submit(list []db.NewDelivery, _ map[hub.EventID]*hub.Event, _ time.Time) {
	if len(list) == 0 {
		return
	}
	select {
	case a.asked <- struct{}{}:
	default:
	}
}

// run announces until ctx ends. What fails to be announced is found by a poll.
func (a *announcer) run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-a.asked:
			if err := a.db.NotifyDue(ctx); err != nil && ctx.Err() == nil {
				a.log.Debug("cannot announce due deliveries; they are found by a poll", "error", err)
			}
		}
	}
}

// hearDue tells the pool what other processes announce, until ctx ends. Without
// the connection the pool's own poll goes on.
func hearDue(ctx context.Context, d *db.DB, pool *dispatch.Pool, log *slog.Logger) error {
	for {
		err := d.ListenDue(ctx, pool.Due)
		if ctx.Err() != nil {
			return nil
		}
		log.Debug("announcements of due deliveries are not heard; polling", "error", err)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(time.Second):
		}
	}
}
