package upkeep

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// memoryDatabase answers as it is told to.
type memoryDatabase struct {
	mu     sync.Mutex
	schema error
	due    time.Duration
	dueErr error
	made   []time.Time
	ahead  time.Duration
	refuse error // partitions are neither made nor dropped
	hangs  bool
	drops  []string
}

func (d *memoryDatabase) DropPartitions(_ context.Context, table string, keep time.Duration) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.drops = append(d.drops, table+" "+keep.String())
	return 1, d.refuse
}

func (d *memoryDatabase) EnsurePartitions(_ context.Context, ahead time.Duration) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.made, d.ahead = append(d.made, time.Now()), ahead
	return 0, d.refuse
}

func (d *memoryDatabase) SchemaReady(ctx context.Context) error {
	d.mu.Lock()
	hangs, err := d.hangs, d.schema
	d.mu.Unlock()
	if hangs {
		<-ctx.Done()
		return ctx.Err()
	}
	return err
}

func (d *memoryDatabase) OldestDue(context.Context, int) (time.Duration, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.due, d.dueErr
}

var kept = []Retention{{Table: "a", Keep: time.Hour}, {Table: "b", Keep: 48 * time.Hour}}

// bubble runs a test with an upkeep in fake time.
func bubble(t *testing.T, test func(t *testing.T, d *memoryDatabase, u *Upkeep, log *bytes.Buffer)) {
	synctest.Test(t, func(t *testing.T) {
		d, log := &memoryDatabase{}, &bytes.Buffer{}
		test(t, d, New(d, prometheus.NewRegistry(), kept, slog.New(slog.NewTextHandler(log, nil))), log)
	})
}

func (d *memoryDatabase) set(change func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	change()
}

// run starts an upkeep and returns what stops it.
func run(t *testing.T, u *Upkeep) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- u.Run(ctx) }()
	synctest.Wait()
	return func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run = %v", err)
		}
	}
}

func TestAwaitSchema(t *testing.T) {
	t.Run("waits_and_says_each_cause_once", func(t *testing.T) {
		bubble(t, func(t *testing.T, d *memoryDatabase, u *Upkeep, log *bytes.Buffer) {
			d.schema = errors.New("no schema yet")
			ready := make(chan error)
			go func() { ready <- u.AwaitSchema(t.Context()) }()
			time.Sleep(10 * time.Second)
			d.set(func() { d.schema = errors.New("version 1, this program needs 2") })
			time.Sleep(10 * time.Second)
			d.set(func() { d.schema = nil })
			if err := <-ready; err != nil {
				t.Error(err)
			}
			if n := strings.Count(log.String(), "waiting for the database"); n != 2 {
				t.Errorf("said %d times:\n%s", n, log)
			}
		})
	})
	t.Run("ends_when_it_is_stopped", func(t *testing.T) {
		bubble(t, func(t *testing.T, d *memoryDatabase, u *Upkeep, _ *bytes.Buffer) {
			d.schema = errors.New("no schema yet")
			ctx, stop := context.WithTimeout(t.Context(), 1500*time.Millisecond)
			defer stop()
			if err := u.AwaitSchema(ctx); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("AwaitSchema = %v", err)
			}
		})
	})
}

func TestRun(t *testing.T) {
	t.Run("partitions_are_made_at_once_and_then_ahead", func(t *testing.T) {
		bubble(t, func(t *testing.T, d *memoryDatabase, u *Upkeep, log *bytes.Buffer) {
			d.refuse = errors.New("disk is full")
			begun := time.Now()
			stop := run(t, u)
			time.Sleep(time.Hour + time.Second)
			stop()
			if len(d.made) != 7 || !d.made[0].Equal(begun) {
				t.Errorf("made %d times in an hour, first after %s", len(d.made), d.made[0].Sub(begun))
			}
			if d.ahead < 3*24*time.Hour {
				t.Errorf("only %s ahead: a long weekend is longer", d.ahead)
			}
			if !strings.Contains(log.String(), "disk is full") {
				t.Errorf("log: %s", log)
			}
		})
	})
	t.Run("old_partitions_are_dropped_at_once_and_then_every_ten_minutes", func(t *testing.T) {
		bubble(t, func(t *testing.T, d *memoryDatabase, u *Upkeep, log *bytes.Buffer) {
			stop := run(t, u)
			time.Sleep(partitionsEvery + time.Second)
			d.set(func() { d.refuse = errors.New("somebody holds a lock") })
			time.Sleep(partitionsEvery + time.Second)
			stop()
			if got := strings.Join(d.drops, ", "); got != "a 1h0m0s, b 48h0m0s, a 1h0m0s, b 48h0m0s, a 1h0m0s, b 48h0m0s" {
				t.Errorf("dropped %s", got)
			}
			if !strings.Contains(log.String(), "somebody holds a lock") || !strings.Contains(log.String(), "dropped partitions past their retention") {
				t.Errorf("log: %s", log)
			}
		})
	})
	t.Run("database_is_looked_at", func(t *testing.T) {
		bubble(t, func(t *testing.T, d *memoryDatabase, u *Upkeep, _ *bytes.Buffer) {
			d.due = 7 * time.Minute
			stop := run(t, u)
			defer stop()
			want := func(problem error, oldest time.Duration) {
				t.Helper()
				time.Sleep(checkEvery + 6*time.Second)
				if got, err := u.Database(); !errors.Is(err, problem) || problem == nil && err != nil || got != oldest {
					t.Errorf("Database = %s, %v, want %s, %v", got, err, oldest, problem)
				}
			}
			want(nil, 7*time.Minute)
			away := errors.New("away")
			d.set(func() { d.dueErr = away })
			want(away, 7*time.Minute)
			d.set(func() { d.dueErr, d.due = nil, 0 })
			want(nil, 0)
			d.set(func() { d.hangs = true }) // not even an answer
			want(context.DeadlineExceeded, 0)
			d.set(func() { d.hangs = false })
			want(nil, 0)
		})
	})
}

func TestDatabase_is_not_called_well_before_it_was_looked_at(t *testing.T) {
	u := New(&memoryDatabase{}, prometheus.NewRegistry(), nil, slog.New(slog.DiscardHandler))
	if _, err := u.Database(); err == nil {
		t.Error("Database says that nothing is wrong")
	}
}
