package db

import (
	"context"
	"fmt"
	"strconv"

	"github.com/streaming-hub/streaming-hub/db/internal/dbsqlc"
)

// NotableFeedRows is FeedRows for rows that hold a notice or the end of a
// delivery without success, which are few.
func (d *DB) NotableFeedRows(ctx context.Context, after FeedPlace, limit int) ([]FeedRow, error) {
	rows, err := d.queries.NotableFeedRows(ctx, d.pool, dbsqlc.NotableFeedRowsParams{
		AfterXid: strconv.FormatUint(after.Xid, 10), AfterID: after.Row, Page: int32(limit),
	})
	if err != nil {
		return nil, fmt.Errorf("read the notable part of the live feed: %w", err)
	}
	list := make([]FeedRow, len(rows))
	for i, r := range rows {
		xid, err := strconv.ParseUint(r.CommitXid, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("read the notable part of the live feed: %w", err)
		}
		list[i] = FeedRow{Place: FeedPlace{Xid: xid, Row: r.ID}, Lines: r.Items}
	}
	return list, nil
}

// RelayPlace is how far a relay of the feed has come; the zero place at first.
func (d *DB) RelayPlace(ctx context.Context, relay string) (FeedPlace, error) {
	rows, err := d.queries.RelayPlace(ctx, d.pool, relay)
	if err != nil {
		return FeedPlace{}, fmt.Errorf("read how far the feed was relayed: %w", err)
	}
	if len(rows) == 0 {
		return FeedPlace{}, nil
	}
	xid, err := strconv.ParseUint(rows[0].CommitXid, 10, 64)
	if err != nil {
		return FeedPlace{}, fmt.Errorf("read how far the feed was relayed: %w", err)
	}
	return FeedPlace{Xid: xid, Row: rows[0].RowID}, nil
}

// MoveRelay notes how far a relay has come. It never goes back.
func (d *DB) MoveRelay(ctx context.Context, relay string, to FeedPlace) error {
	if err := d.queries.MoveRelay(ctx, d.pool, dbsqlc.MoveRelayParams{
		Name: relay, Xid: strconv.FormatUint(to.Xid, 10), RowID: to.Row,
	}); err != nil {
		return fmt.Errorf("note how far the feed was relayed: %w", err)
	}
	return nil
}
