package controlplane

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/streaming-hub/streaming-hub/db"
	"github.com/streaming-hub/streaming-hub/hub"
)

// Cursor is a place in the live feed between two items.
type Cursor struct {
	Place db.FeedPlace
	// Taken is how many items of the row at Place lie before the cursor.
	Taken uint32
	// Seen is the moment of a list page that the reader has already. Outcomes
	// that were visible in it count as read, wherever they stand in the feed.
	Seen *Moment
}

// Moment is a snapshot of the database: which transactions it sees.
type Moment struct {
	Xmin, Xmax uint64
	Running    []uint64 // those between the two that it does not see
}

// Sees reports whether what a transaction wrote was visible.
func (m *Moment) Sees(xid uint64) bool {
	return xid < m.Xmin || xid < m.Xmax && !slices.Contains(m.Running, xid)
}

// ErrBadCursor is returned for a text that is no cursor of the live feed.
var ErrBadCursor = errors.New("this is no cursor of the live feed")

// CursorOf is the cursor of a moment, as Postgres writes it: xmin:xmax:running.
// What follows it is what was not visible then.
func CursorOf(snapshot string) (Cursor, error) {
	parts := strings.Split(snapshot, ":")
	if len(parts) != 3 {
		return Cursor{}, fmt.Errorf("%.60q is not a snapshot: %w", snapshot, ErrBadCursor)
	}
	var m Moment
	var errs [2]error
	m.Xmin, errs[0] = strconv.ParseUint(parts[0], 10, 64)
	m.Xmax, errs[1] = strconv.ParseUint(parts[1], 10, 64)
	if err := errors.Join(errs[:]...); err != nil {
		return Cursor{}, fmt.Errorf("%w: %w", ErrBadCursor, err)
	}
	for _, text := range strings.Split(parts[2], ",") {
		if text == "" {
			continue
		}
		xid, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			return Cursor{}, fmt.Errorf("%w: %w", ErrBadCursor, err)
		}
		m.Running = append(m.Running, xid)
	}
	return Cursor{Place: db.FeedPlace{Xid: m.Xmin}, Seen: &m}, nil
}

// String is the opaque text of a cursor.
func (c Cursor) String() string {
	raw := []byte{1}
	raw = binary.BigEndian.AppendUint64(raw, c.Place.Xid)
	raw = append(raw, c.Place.Row[:]...)
	raw = binary.BigEndian.AppendUint32(raw, c.Taken)
	// Past its end a moment has no more say.
	if m := c.Seen; m != nil && c.Place.Xid < m.Xmax {
		raw = binary.BigEndian.AppendUint64(raw, m.Xmin)
		raw = binary.BigEndian.AppendUint64(raw, m.Xmax)
		for _, xid := range m.Running {
			raw = binary.BigEndian.AppendUint64(raw, xid)
		}
	}
	return base64.RawURLEncoding.EncodeToString(raw)
}

const cursorBytes = 1 + 8 + 16 + 4

// maxCursorText bounds a cursor: a moment with over a thousand running
// transactions is none of ours.
const maxCursorText = 12_000

// ParseCursor reads the text of a cursor; its error is ErrBadCursor.
func ParseCursor(text string) (Cursor, error) {
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || len(text) > maxCursorText || len(raw) < cursorBytes || raw[0] != 1 {
		return Cursor{}, ErrBadCursor
	}
	var c Cursor
	c.Place.Xid = binary.BigEndian.Uint64(raw[1:])
	copy(c.Place.Row[:], raw[9:])
	c.Taken = binary.BigEndian.Uint32(raw[25:])
	rest := raw[cursorBytes:]
	if len(rest) == 0 {
		return c, nil
	}
	if len(rest) < 16 || len(rest)%8 != 0 {
		return Cursor{}, ErrBadCursor
	}
	c.Seen = &Moment{Xmin: binary.BigEndian.Uint64(rest), Xmax: binary.BigEndian.Uint64(rest[8:])}
	for rest = rest[16:]; len(rest) > 0; rest = rest[8:] {
		c.Seen.Running = append(c.Seen.Running, binary.BigEndian.Uint64(rest))
	}
	return c, nil
}

// passes reports whether the item with the given number in the row at place
// lies behind the cursor and was not visible in its moment.
func (c *Cursor) passes(place db.FeedPlace, number uint32) bool {
	switch comparePlaces(place, c.Place) {
	case -1:
		return false
	case 0:
		if number < c.Taken {
			return false
		}
	}
	return c.Seen == nil || !c.Seen.Sees(place.Xid)
}

// before is a place from which the cursor's own row is read again, because
// items of it may be left.
func (c *Cursor) before() db.FeedPlace {
	p := c.Place
	for i := len(p.Row) - 1; i >= 0; i-- {
		if p.Row[i]--; p.Row[i] != 0xff {
			return p
		}
	}
	return c.Place // the zero row has nothing before it and is no real one
}

func comparePlaces(a, b db.FeedPlace) int {
	switch {
	case a.Xid < b.Xid:
		return -1
	case a.Xid > b.Xid:
		return 1
	}
	return bytes.Compare(a.Row[:], b.Row[:])
}

// isReal reports whether the cursor stands in a row that was once read.
func (c *Cursor) isReal() bool { return c.Place.Row != hub.ID{} }
