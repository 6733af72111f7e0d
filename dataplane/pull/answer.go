package pull

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/streaming-hub/streaming-hub/db"
	"github.com/streaming-hub/streaming-hub/hub"
)

const (
	// pieceBytes and pieceEvents bound what of an answer is in memory at once;
	// one event may be larger.
	pieceBytes, pieceEvents = 1 << 20, 250
	// writeTimeout is how long a reader may take for one piece.
	writeTimeout = 15 * time.Second
)

// answer writes a page. Bodies are read piece by piece, so that a slow reader
// holds little memory. An error of the first piece is returned, with nothing
// written; later ones break the connection off, for the status is out already.
func (a *API) answer(ctx context.Context, w http.ResponseWriter, g *page, raw bool) error {
	control := http.NewResponseController(w)
	// Deadlines are best effort: not every writer of a test has them.
	defer func() { _ = control.SetWriteDeadline(time.Time{}) }()

	b := bytes.NewBufferString(`{"events":[`)
	rest := g.picked
	for first := true; ; first = false {
		piece := rest[:pieceOf(rest)]
		rest = rest[len(piece):]
		err := a.appendPiece(ctx, b, g.tenant, piece, !first, raw)
		if err != nil && first {
			return err
		}
		if err == nil {
			if len(rest) == 0 {
				fmt.Fprintf(b, `],"next_seq":"%d","has_more":%t}`+"\n", g.at, g.at < g.newest)
			}
			if first && len(rest) == 0 {
				w.Header().Set("Content-Length", strconv.Itoa(b.Len()))
			}
			_ = control.SetWriteDeadline(time.Now().Add(writeTimeout))
			if _, err = w.Write(b.Bytes()); err == nil {
				err = control.Flush()
			}
		}
		if err != nil {
			a.deps.Log.Debug("an answer of the pull API was broken off", "error", err)
			panic(http.ErrAbortHandler)
		}
		if len(rest) == 0 {
			a.deps.Metrics.Events.Add(float64(len(g.picked)))
			return nil
		}
		b.Reset()
	}
}

// pieceOf is how many events go into the next piece.
func pieceOf(rest []db.EventMark) int {
	size := 0
	for n := range rest {
		size += int(rest[n].BodyBytes)
		if n == pieceEvents || n > 0 && size > pieceBytes {
			return n
		}
	}
	return len(rest)
}

// appendPiece reads the events of a piece and adds them in their order.
func (a *API) appendPiece(ctx context.Context, b *bytes.Buffer, t hub.TenantID, piece []db.EventMark, comma, raw bool) error {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	ids := make([]hub.ID, len(piece))
	for i := range piece {
		ids[i] = piece[i].Event.ID.ID
	}
	events, err := a.deps.Store.Events(ctx, ids)
	if err != nil {
		return err
	}
	byID := make(map[hub.ID]*hub.Event, len(events))
	for i := range events {
		byID[events[i].ID.ID] = &events[i]
	}
	for i, id := range ids {
		e := byID[id]
		if e == nil || e.Tenant != t {
			m := &piece[i].Event
			return cursorExpired(m.Seq-1, 0, m.Seq) // dropped since it was picked
		}
		if comma || i > 0 {
			b.WriteByte(',')
		}
		b.WriteByte('\n')
		if err := appendEvent(b, e, raw); err != nil {
			return err
		}
	}
	return nil
}
