package db

import (
	"context"
	"fmt"
	"time"
)

// ClockTime is the time of the database's clock.
func (d *DB) ClockTime(ctx context.Context) (time.Time, error) {
	now, err := d.queries.ClockTime(ctx, d.pool)
	if err != nil {
		return time.Time{}, fmt.Errorf("read the database's clock: %w", err)
	}
	return now, nil
}
