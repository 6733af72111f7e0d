package graph

import (
	"encoding/base64"
	"encoding/binary"

	"github.com/streaming-hub/streaming-hub/controlplane"
	"github.com/streaming-hub/streaming-hub/graph/model"
	"github.com/streaming-hub/streaming-hub/hub"
)

// maxPage is the largest page of a list.
const maxPage = 100

// order is what a list is sorted by; a cursor holds it, so that a cursor of
// another list, or of another filter that sorts otherwise, is refused.
type order byte

const (
	bySubscriptionID order = 's'
	byDestinationID  order = 't'
	byEventID        order = 'e'
	byEventSeq       order = 'q'
	byDeliveryID     order = 'd'
	byDeliveryEnd    order = 'r'
	byQuarantinedID  order = 'u'
	byObservationID  order = 'o'
	byTokenID        order = 'k'
	byAuditID        order = 'a'
	byBreaker        order = 'b'
	bySpan           order = 'f'
	byJobID          order = 'j'
)

func pageSize(first int32) (int, error) {
	if first < 1 || first > maxPage {
		return 0, apiErrorf(codeBadInput, "first is %d; it needs 1 to %d", first, maxPage)
	}
	return int(first), nil
}

func cursorOfID(o order, id hub.ID) string {
	return base64.RawURLEncoding.EncodeToString(append([]byte{byte(o)}, id[:]...))
}

func cursorOfSeq(seq int64) string {
	return base64.RawURLEncoding.EncodeToString(binary.BigEndian.AppendUint64([]byte{byte(byEventSeq)}, uint64(seq)))
}

// idBehind is the id of a cursor; without one, the position before the first row.
func idBehind(o order, after *string) (id hub.ID, err error) {
	if after == nil {
		return controlplane.Newest, nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(*after)
	if err != nil || len(raw) != 1+len(id) || raw[0] != byte(o) {
		return id, apiErrorf(codeBadInput, "after is no cursor of this list")
	}
	return hub.ID(raw[1:]), nil
}

func seqBehind(after *string) (int64, error) {
	if after == nil {
		return controlplane.NewestSeq, nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(*after)
	if err != nil || len(raw) != 9 || raw[0] != byte(byEventSeq) {
		return 0, apiErrorf(codeBadInput, "after is no cursor of this list")
	}
	return int64(binary.BigEndian.Uint64(raw[1:])), nil
}

// cut takes the row that was read beyond the page off again; more says that
// there was one.
func cut[T any](rows []T, page int) (kept []T, more bool) {
	if len(rows) > page {
		return rows[:page], true
	}
	return rows, false
}

func pageInfo(more bool, end string) *model.PageInfo {
	info := &model.PageInfo{HasNextPage: more}
	if end != "" {
		info.EndCursor = &end
	}
	return info
}

// liveCursor is the feed's cursor for the moment of a page.
func liveCursor(snapshot string) (string, error) {
	c, err := controlplane.CursorOf(snapshot)
	return c.String(), err
}

// optional is nil for the zero value, which the hub's words use for absent.
func optional[T comparable](v T) *T {
	var zero T
	if v == zero {
		return nil
	}
	return &v
}
