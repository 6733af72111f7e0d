// Package upkeep does what must happen now and then: partitions are made
// ahead of time and dropped when all in them is past its retention, and the
// database's health is looked at for readiness.
package upkeep

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

const (
	partitionsEvery = 10 * time.Minute
	// partitionsAhead must outlast an upkeep that is down over a long weekend.
	partitionsAhead = 4 * 24 * time.Hour
	checkEvery      = 2 * time.Second
	// lookLanes bounds the search for the oldest due delivery.
	lookLanes = 1000
)

// Database is what upkeep asks of Postgres.
type Database interface {
	EnsurePartitions(ctx context.Context, ahead time.Duration) (int, error)
	DropPartitions(ctx context.Context, table string, keep time.Duration) (int, error)
	SchemaReady(ctx context.Context) error
	OldestDue(ctx context.Context, maxLanes int) (time.Duration, error)
}

// Retention says for how long a partitioned table keeps its rows.
type Retention struct {
	Table string
	Keep  time.Duration
}

// Upkeep is run by every replica; what only one may do is guarded in the
// database.
type Upkeep struct {
	db        Database
	retention []Retention
	log       *slog.Logger
	oldestDue prometheus.Gauge

	mu      sync.Mutex
	problem error
	oldest  time.Duration
}

// New registers the metric and returns the upkeep.
func New(db Database, r prometheus.Registerer, retention []Retention, log *slog.Logger) *Upkeep {
	u := &Upkeep{db: db, retention: retention, log: log, problem: errors.New("Postgres was not looked at yet"), oldestDue: prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "streaming_hub_oldest_due_seconds",
		Help: "How long the longest-waiting due delivery has waited for a worker.",
	})}
	r.MustRegister(u.oldestDue)
	return u
}

// AwaitSchema waits until the database answers and has the schema that this
// program needs. It says what it waits for, once per cause.
func (u *Upkeep) AwaitSchema(ctx context.Context) error {
	told := ""
	for {
		err := u.check(ctx)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err.Error() != told {
			told = err.Error()
			u.log.Warn("waiting for the database", "error", err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Second):
		}
	}
}

// Database says what is wrong with the database, nil if nothing, and how long
// the longest-waiting due delivery has waited.
func (u *Upkeep) Database() (oldestDue time.Duration, err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.oldest, u.problem
}

// Run works until ctx ends.
func (u *Upkeep) Run(ctx context.Context) error {
	u.makePartitions(ctx)
	u.dropPartitions(ctx)
	partitions, check := time.NewTicker(partitionsEvery), time.NewTicker(checkEvery)
	defer partitions.Stop()
	defer check.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-partitions.C:
			u.makePartitions(ctx)
			u.dropPartitions(ctx)
		case <-check.C:
			_ = u.check(ctx) // kept for Database
		}
	}
}

func (u *Upkeep) makePartitions(ctx context.Context) {
	switch made, err := u.db.EnsurePartitions(ctx, partitionsAhead); {
	case err != nil && ctx.Err() == nil:
		u.log.Error("cannot make partitions ahead; trying again in ten minutes", "error", err)
	case made > 0:
		u.log.Info("made partitions ahead", "partitions", made)
	}
}

func (u *Upkeep) dropPartitions(ctx context.Context) {
	for _, r := range u.retention {
		switch dropped, err := u.db.DropPartitions(ctx, r.Table, r.Keep); {
		case err != nil && ctx.Err() == nil:
			u.log.Error("cannot drop old partitions; trying again in ten minutes", "table", r.Table, "error", err)
		case dropped > 0:
			u.log.Info("dropped partitions past their retention", "table", r.Table, "partitions", dropped)
		}
	}
}

func (u *Upkeep) check(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	oldest := time.Duration(0)
	err := u.db.SchemaReady(ctx)
	if err == nil {
		oldest, err = u.db.OldestDue(ctx, lookLanes)
	}
	u.mu.Lock()
	u.problem = err
	if err == nil {
		u.oldest = oldest
	}
	u.mu.Unlock()
	if err == nil {
		u.oldestDue.Set(oldest.Seconds())
	}
	return err
}
