package db_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/streaming-hub/streaming-hub/db"
	"github.com/streaming-hub/streaming-hub/hub"
)

// replicas opens the database as two processes do.
func (l *lab) replicas() (list [2]*db.DB) {
	l.Helper()
	for i := range list {
		d, err := db.Open(l.Context(), db.Config{DSN: l.dsn, MaxConns: 4, Hot: true, Name: "replica"})
		if err != nil {
			l.Fatal(err)
		}
		l.Cleanup(d.Close)
		list[i] = d
	}
	return list
}

// cut breaks connections of the replicas off at random moments of their work,
// so many times.
func (l *lab) cut(ctx context.Context, times int64) (cuts int64) {
	for ctx.Err() == nil && cuts < times {
		var n int64
		_, err := l.raw.Exec(ctx, `SELECT pg_sleep(random() * 0.05)`)
		if err == nil {
			err = l.raw.QueryRow(ctx, `SELECT count(*) FILTER (WHERE pg_terminate_backend(pid)) FROM (
				SELECT pid FROM pg_stat_activity WHERE application_name = 'replica' AND datname = current_database() AND state <> 'idle'
				ORDER BY random() LIMIT 1) one`).Scan(&n)
		}
		if err == nil {
			cuts += n
		}
	}
	return cuts
}

// Whatever is cut off, each delivery of the job is released once, tried once,
// and counted once.
func TestReplay_survives_kills_at_any_moment(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	s := l.opened("acme")
	const items = 2000
	s.died(items)
	id := l.job("acme", hub.ReplayFilter{})
	replicas := l.replicas()
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	wg.Go(func() { l.cut(ctx, 10) })
	for j := l.jobOf(id); j.State == hub.JobPreviewing; j = l.jobOf(id) {
		_, _ = replicas[0].ScanReplay(ctx, id, 100, newID()) // its errors are the point
	}
	if j := l.started(id); j.Total != items || j.State != hub.JobReady {
		t.Fatalf("%s with %d items", j.State, j.Total)
	}
	l.wantCount("items in order", items, `SELECT count(*) FROM (SELECT ordinal, row_number() OVER (ORDER BY delivery_id) - 1 AS n FROM replay_items) i WHERE ordinal = n`)

	var cuts int64
	wg.Go(func() { cuts = l.cut(ctx, 60) })
	for _, d := range replicas {
		wg.Go(func() { // the dispatcher
			for ctx.Err() == nil {
				claims, err := d.ClaimLanes(ctx, []db.LaneQuota{{Lane: s.lane, Quota: 50}}, 500*time.Millisecond)
				if err != nil || len(claims) == 0 {
					continue
				}
				outcomes := make([]hub.Outcome, len(claims))
				for i := range claims {
					outcomes[i] = outcome(claims[i], hub.Delivered)
				}
				_, _ = d.RecordOutcomes(ctx, newID(), outcomes)
			}
		})
	}
	wg.Go(func() { // the runner of the other replica
		for ctx.Err() == nil {
			_, _ = replicas[1].StepReplay(ctx, id, newID(), releasing(20))
		}
	})
	for j := l.jobOf(id); j.State == hub.JobRunning; j = l.jobOf(id) {
		_, _ = replicas[0].StepReplay(ctx, id, newID(), releasing(20))
	}
	cancel()
	wg.Wait()
	if t.Logf("%d connections were cut while it ran", cuts); cuts < 10 {
		t.Errorf("only %d connections were cut", cuts)
	}
	j := l.jobOf(id)
	if j.State != hub.JobCompleted || j.Released != items || j.Skipped != 0 || j.Tried != items || j.Failed != 0 || j.Delivered != items || j.Dead != 0 {
		t.Errorf("%+v", j)
	}
	l.wantItems(id, hub.ItemDelivered, items)
	l.wantCount("deliveries with one attempt of the second run", items, `SELECT count(*) FROM (
		SELECT delivery_id FROM attempts WHERE run = 2 GROUP BY delivery_id HAVING count(*) = 1 AND bool_and(state = 'DELIVERED')) once`)
	l.wantCount("attempts", 2*items, `SELECT count(*) FROM attempts`)
	l.wantCount("rows in the queue", 0, `SELECT count(*) FROM delivery_queue`)
}
