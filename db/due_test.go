package db_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/streaming-hub/streaming-hub/hub"
)

// ear listens to due deliveries.
type ear struct {
	woken chan struct{} // one for each call of wake
	ended chan error
}

func (l *lab) listenDue(ctx context.Context) *ear {
	e := &ear{woken: make(chan struct{}, 100), ended: make(chan error, 1)}
	go func() { e.ended <- l.db.ListenDue(ctx, func() { e.woken <- struct{}{} }) }()
	return e
}

// wantWoken waits for one call of wake.
func (e *ear) wantWoken(t *testing.T, why string) {
	t.Helper()
	select {
	case <-e.woken:
	case err := <-e.ended:
		t.Fatalf("%s: it ended: %v", why, err)
	case <-time.After(10 * time.Second):
		t.Fatalf("%s: nobody was woken", why)
	}
}

func (e *ear) wantEnded(t *testing.T, why string) error {
	t.Helper()
	select {
	case err := <-e.ended:
		return err
	case <-time.After(10 * time.Second):
		t.Fatalf("%s: it goes on", why)
		return nil
	}
}

func TestListenDue(t *testing.T) {
	t.Parallel()
	t.Run("wakes_at_first_and_at_each_notification", func(t *testing.T) {
		t.Parallel()
		l := newLab(t)
		e := l.listenDue(t.Context())
		e.wantWoken(t, "it listens")
		for range 3 {
			if err := l.db.NotifyDue(t.Context()); err != nil {
				t.Fatal(err)
			}
			e.wantWoken(t, "deliveries are due")
		}
		if len(e.woken) > 0 {
			t.Errorf("woken %d times more", len(e.woken))
		}
	})
	t.Run("other_channels_wake_nobody", func(t *testing.T) {
		t.Parallel()
		l := newLab(t)
		e := l.listenDue(t.Context())
		e.wantWoken(t, "it listens")
		l.exec("NOTIFY hub_outcomes")
		l.exec("NOTIFY hub_due") // comes behind it
		e.wantWoken(t, "deliveries are due")
		if len(e.woken) > 0 {
			t.Error("woken by a channel of others")
		}
	})
	t.Run("chore_that_resumes_wakes", func(t *testing.T) {
		t.Parallel()
		d := newDepot(t, 1, 0)
		d.disable()
		d.chore(d.lane)
		d.finish()
		e := d.listenDue(t.Context())
		e.wantWoken(t, "it listens")
		d.enable()
		d.chore(d.lane)
		d.work(10)
		e.wantWoken(t, "a held delivery is due again")
	})
	t.Run("lost_connection_ends_it", func(t *testing.T) {
		t.Parallel()
		l := newLab(t)
		e := l.listenDue(t.Context())
		e.wantWoken(t, "it listens")
		l.wantCount("connections cut", 1, `SELECT count(*) FROM (SELECT pg_terminate_backend(pid) FROM pg_stat_activity
			WHERE datname = current_database() AND query = 'LISTEN hub_due') cut`)
		if err := e.wantEnded(t, "after its connection was cut"); err == nil {
			t.Error("it ended without an error")
		}
	})
	t.Run("ends_with_its_context", func(t *testing.T) {
		t.Parallel()
		l := newLab(t)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		e := l.listenDue(ctx)
		e.wantWoken(t, "it listens")
		cancel()
		if err := e.wantEnded(t, "after its context"); !errors.Is(err, context.Canceled) {
			t.Errorf("it ended with %v", err)
		}
	})
}

// wakesReaders reports whether do wakes the readers of the live feed.
func (l *lab) wakesReaders(do func()) bool {
	l.Helper()
	conn, err := pgx.Connect(l.Context(), l.dsn)
	if err != nil {
		l.Fatal(err)
	}
	defer conn.Close(context.Background())
	if _, err := conn.Exec(l.Context(), "LISTEN hub_outcomes; LISTEN done"); err != nil {
		l.Fatal(err)
	}
	do()
	l.exec("NOTIFY done")
	n, err := conn.WaitForNotification(l.Context())
	if err != nil {
		l.Fatal(err)
	}
	return n.Channel == "hub_outcomes"
}

func TestRecordOutcomes_wakes_the_readers_of_the_feed(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	lane := laneOf("acme")
	l.queue(lane, 1)
	c := l.claim(lane, 1, time.Minute)[0]
	if !l.wakesReaders(func() { l.record(outcome(c, hub.Delivered)) }) {
		t.Error("an outcome woke nobody")
	}
	if l.wakesReaders(func() { l.record(outcome(c, hub.Delivered)) }) {
		t.Error("an outcome that was not recorded woke somebody")
	}
}
