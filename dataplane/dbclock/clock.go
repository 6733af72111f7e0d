// Package dbclock is the database's clock, by which all replicas judge circuits
// and failure policies. Their own clocks may differ by more than what lies
// between a failure and the success that ends it: by them, a replica that is
// behind would report a success from before the failure, which clears nothing,
// and take a probe before the wait is over.
package dbclock

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"
)

const (
	// askEvery is how often the database's clock is read.
	askEvery = 10 * time.Second
	// step is by how much the clocks have to differ anew before the difference
	// is taken over. What one process sees keeps its order that way: its time
	// does not jump about by what a question took.
	step = 250 * time.Millisecond
	// longest a question may take: its answer is then right to within half of
	// that.
	longest = 2 * step
	// telling is from when on a difference is worth a word in the log.
	telling = 5 * time.Second
)

// Store tells the time of the database's clock.
type Store interface {
	ClockTime(ctx context.Context) (time.Time, error)
}

// Clock is the local clock, set by that of the database. It is safe for
// concurrent use.
type Clock struct {
	local func() time.Time
	store Store
	log   *slog.Logger
	ahead atomic.Int64 // nanoseconds by which the database's clock is ahead
}

// New makes a clock that goes by the local one until it was set.
func New(store Store, local func() time.Time, log *slog.Logger) *Clock {
	return &Clock{store: store, local: local, log: log}
}

// Now is the time of the database's clock, as far as it is known.
func (c *Clock) Now() time.Time { return c.local().Add(time.Duration(c.ahead.Load())) }

// Set reads the database's clock. Without an answer the clock goes on as it
// did.
func (c *Clock) Set(ctx context.Context) error {
	asked := c.local()
	stored, err := c.store.ClockTime(ctx)
	if err != nil {
		return err
	}
	before := time.Duration(c.ahead.Load())
	after := Ahead(before, asked, c.local(), stored)
	c.ahead.Store(int64(after))
	if (after - before).Abs() >= telling {
		c.log.Warn("the clock of this machine and that of the database differ; circuits and failure policies go by the database's",
			"database_ahead", after.Round(time.Millisecond).String())
	}
	return nil
}

// Ahead is by how much the database's clock is ahead of the local one, given
// by how much it was believed to be and its time between a question and the
// answer.
func Ahead(believed time.Duration, asked, answered, stored time.Time) time.Duration {
	took := answered.Sub(asked)
	found := stored.Sub(asked) - took/2
	if took > longest || (found-believed).Abs() < step {
		return believed
	}
	return found
}

// Run keeps the clock set until ctx ends.
func (c *Clock) Run(ctx context.Context) error {
	tick := time.NewTicker(askEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			if err := c.Set(ctx); err != nil && ctx.Err() == nil {
				c.log.Debug("cannot read the database's clock; going on by what is known of it", "error", err)
			}
		}
	}
}
