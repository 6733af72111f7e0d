package db

import (
	"context"
	"fmt"
	"strconv"

	"github.com/streaming-hub/streaming-hub/db/internal/dbsqlc"
	"github.com/streaming-hub/streaming-hub/hub"
)

// FeedPlace is a row's place in the live feed: by the transaction that wrote
// it, then by id.
type FeedPlace struct {
	Xid uint64
	Row hub.ID
}

// FeedRow is one flush of outcomes or of notices; ParseFeedItems reads Lines.
type FeedRow struct {
	Place FeedPlace
	Lines []byte
}

// FeedRows reads up to limit rows behind a place, in order. Rows of
// transactions that a running one could still precede are left for later, so
// no row ever appears behind a place that was read.
func (d *DB) FeedRows(ctx context.Context, after FeedPlace, limit int) ([]FeedRow, error) {
	rows, err := d.queries.FeedRows(ctx, d.pool, dbsqlc.FeedRowsParams{
		AfterXid: strconv.FormatUint(after.Xid, 10), AfterID: after.Row, Page: int32(limit),
	})
	if err != nil {
		return nil, fmt.Errorf("read the live feed: %w", err)
	}
	list := make([]FeedRow, len(rows))
	for i, r := range rows {
		xid, err := strconv.ParseUint(r.CommitXid, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("read the live feed: %w", err)
		}
		list[i] = FeedRow{Place: FeedPlace{Xid: xid, Row: r.ID}, Lines: r.Items}
	}
	return list, nil
}

// FeedSnapshot is the present moment of the feed, in Postgres' form
// xmin:xmax:running.
func (d *DB) FeedSnapshot(ctx context.Context) (string, error) {
	s, err := d.queries.FeedSnapshot(ctx, d.pool)
	if err != nil {
		return "", fmt.Errorf("read the live feed's moment: %w", err)
	}
	return s, nil
}

// FeedHas reports whether the row of a place is still kept.
func (d *DB) FeedHas(ctx context.Context, p FeedPlace) (bool, error) {
	kept, err := d.queries.FeedHas(ctx, d.pool, dbsqlc.FeedHasParams{Xid: strconv.FormatUint(p.Xid, 10), ID: p.Row})
	if err != nil {
		return false, fmt.Errorf("look up a place of the live feed: %w", err)
	}
	return kept, nil
}

// ListenOutcomes calls wake once when it listens and again at each
// notification of new outcomes, on a connection of its own. It returns when
// the connection is lost or the context ends; the caller tries again.
func (d *DB) ListenOutcomes(ctx context.Context, wake func()) error {
	return d.listen(ctx, "hub_outcomes", wake)
}
