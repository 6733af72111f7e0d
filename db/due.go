package db

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// NotifyDue wakes the processes that deliver: due deliveries were left in the
// queue. A notification that gets lost costs a poll.
func (d *DB) NotifyDue(ctx context.Context) error {
	if err := d.queries.NotifyDue(ctx, d.pool); err != nil {
		return fmt.Errorf("announce due deliveries: %w", err)
	}
	return nil
}

// ListenDue calls wake once when it listens and again at each notification of
// due deliveries, on a connection of its own. It returns when the connection
// is lost or the context ends; the caller tries again.
func (d *DB) ListenDue(ctx context.Context, wake func()) error {
	return d.listen(ctx, "hub_due", wake)
}

func (d *DB) listen(ctx context.Context, channel string, wake func()) error {
	conn, err := pgx.ConnectConfig(ctx, d.pool.login.Config().ConnConfig)
	if err != nil {
		return fmt.Errorf("listen to %s: %w", channel, err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	if _, err := conn.Exec(ctx, "LISTEN "+channel); err != nil {
		return fmt.Errorf("listen to %s: %w", channel, err)
	}
	for {
		wake()
		if _, err := conn.WaitForNotification(ctx); err != nil {
			return fmt.Errorf("listen to %s: %w", channel, err)
		}
	}
}
