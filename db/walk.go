package db

import (
	"bytes"
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/streaming-hub/streaming-hub/hub"
)

// Page is a page of a list that is walked downwards by id.
type Page[T any] struct {
	Rows []T
	// More says that the walk goes on from End; there may be nothing left.
	More bool
	End  hub.ID
}

// firstChunk is how many rows a walk reads first: one more than wanted shows
// whether there is more. With a filter it is a quarter more, which is enough
// when most rows pass; when few do, larger chunks follow.
func firstChunk(limit int, narrow bool) int {
	if narrow {
		return limit + 1 + limit/4
	}
	return limit + 1
}

// walkDown fills a page with the rows behind the id before that pass, chunk
// after chunk. With a filter that few rows pass it ends after walkLimit rows
// and says that there may be more. read gives the next rows in order, pass
// judges them.
func walkDown[T any](before hub.ID, limit int, narrow bool, id func(*T) hub.ID, read func(before hub.ID, chunk int) ([]T, error), pass func([]T) ([]bool, error)) (page Page[T], err error) {
	chunk := firstChunk(limit, narrow)
	page.End = before
	for scanned := 0; ; chunk = max(chunk, walkChunk) {
		rows, err := read(page.End, chunk)
		if err != nil {
			return page, err
		}
		passed, err := pass(rows)
		if err != nil {
			return page, err
		}
		for i := range rows {
			if !passed[i] {
				continue
			}
			if len(page.Rows) == limit {
				page.End, page.More = id(&page.Rows[limit-1]), true
				return page, nil
			}
			page.Rows = append(page.Rows, rows[i])
		}
		if len(rows) < chunk {
			return page, nil
		}
		page.End = id(&rows[chunk-1])
		if scanned += chunk; scanned >= walkLimit {
			page.More = true
			return page, nil
		}
	}
}

// each judges the rows of a chunk one by one.
func each[T any](passes func(*T) bool) func([]T) ([]bool, error) {
	return func(chunk []T) ([]bool, error) {
		pass := make([]bool, len(chunk))
		for i := range chunk {
			pass[i] = passes(&chunk[i])
		}
		return pass, nil
	}
}

// snapshotPage makes a walk in one snapshot and returns that with the page, so
// that the live feed can go on from it.
func snapshotPage[T any](ctx context.Context, d *DB, walk func(pgx.Tx) (Page[T], error)) (page Page[T], snapshot string, err error) {
	err = pgx.BeginTxFunc(ctx, d.pool, snapshotRead, func(tx pgx.Tx) error {
		var err error
		if page, err = walk(tx); err != nil {
			return err
		}
		snapshot, err = d.queries.FeedSnapshot(ctx, tx)
		return err
	})
	return page, snapshot, err
}

// timeBounds are the ids between which a walk stays that looks for rows made
// from after on and before until, where ids carry the time of their rows. Both
// ends are whole milliseconds and may hold a row too many.
func timeBounds(start hub.ID, after, until time.Time) (before, lowest hub.ID) {
	before = start
	if !until.IsZero() {
		if end := hub.FloorID(until.Add(time.Millisecond)); bytes.Compare(end[:], before[:]) < 0 {
			before = end
		}
	}
	if !after.IsZero() {
		lowest = hub.FloorID(after)
	}
	return before, lowest
}
