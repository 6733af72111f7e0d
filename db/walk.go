package db

import (
	"bytes"
	"time"

	"github.com/streaming-hub/streaming-hub/hub"
)

// Page is a page of a list that is walked downwards by id.
type Page[T any] struct {
	Rows []T
	// More says that the walk goes on from End; there may be nothing left.
	More bool
	End  hub.ID
}

// walkDown fills a page with the rows behind the id before that pass, chunk
// after chunk. With a filter that few rows pass it ends after walkLimit rows
// and says that there may be more. read gives the next rows in order, pass
// judges them.
func walkDown[T any](before hub.ID, limit int, narrow bool, id func(*T) hub.ID, read func(before hub.ID, chunk int) ([]T, error), pass func([]T) ([]bool, error)) (page Page[T], err error) {
	chunk := limit + 1 // one more shows whether there is more
	if narrow {
		chunk = max(chunk, walkChunk)
	}
	page.End = before
	for scanned := 0; ; {
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
