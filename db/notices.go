package db

import (
	"context"
	"fmt"

	"github.com/streaming-hub/streaming-hub/db/internal/dbsqlc"
	"github.com/streaming-hub/streaming-hub/hub"
)

// PublishNotices writes notices to the live feed, as one row, and wakes its
// readers. feedID is the row's new id.
func (d *DB) PublishNotices(ctx context.Context, feedID hub.ID, notices []hub.Notice) error {
	if err := d.queueNotices(ctx, d.pool, feedID, notices); err != nil {
		return fmt.Errorf("publish %d notices: %w", len(notices), err)
	}
	return nil
}

// queueNotices is PublishNotices as part of a transaction or a pipeline.
func (d *DB) queueNotices(ctx context.Context, to dbsqlc.DBTX, feedID hub.ID, notices []hub.Notice) error {
	if len(notices) == 0 {
		return nil
	}
	var lines []byte
	for i := range notices {
		if i > 0 {
			lines = append(lines, '\n')
		}
		lines = appendNotice(lines, &notices[i])
	}
	return d.queries.InsertFeed(ctx, to, dbsqlc.InsertFeedParams{ID: feedID, Items: lines, Notable: true})
}
