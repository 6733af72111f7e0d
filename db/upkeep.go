package db

import (
	"context"
	"fmt"
	"time"

	"github.com/streaming-hub/streaming-hub/db/internal/dbsqlc"
)

// EnsurePartitions makes the partitions that the time until now + ahead needs
// and returns how many were missing. Replicas take turns.
func (d *DB) EnsurePartitions(ctx context.Context, ahead time.Duration) (int, error) {
	made, err := d.queries.EnsurePartitions(ctx, d.pool, interval(ahead))
	if err != nil {
		return 0, fmt.Errorf("make partitions ahead: %w", err)
	}
	return int(made), nil
}

// DropPartitions drops the partitions of a table whose rows are all older than
// keep, and returns how many it dropped. It leaves for the next call what it
// cannot lock at once.
func (d *DB) DropPartitions(ctx context.Context, table string, keep time.Duration) (int, error) {
	dropped, err := d.queries.DropPartitions(ctx, d.pool, dbsqlc.DropPartitionsParams{Parent: table, Keep: interval(keep)})
	if err != nil {
		return 0, fmt.Errorf("drop old partitions of %s: %w", table, err)
	}
	return int(dropped), nil
}
