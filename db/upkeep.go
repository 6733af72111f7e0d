package db

import (
	"context"
	"fmt"
	"time"
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
