package db

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/streaming-hub/streaming-hub/hub"
)

// FeedItem is one outcome in the live feed: enough to filter by and to show,
// without a look-up. It is stored as one line of JSON with short names; unknown
// names are ignored, so that versions can differ.
type FeedItem struct {
	Delivery     hub.DeliveryID
	Event        hub.EventID
	Subscription hub.SubscriptionID
	Destination  hub.DestinationID
	Attempt      hub.AttemptID
	Tenant       hub.TenantID
	Number       int32
	State        hub.State
	DeadReason   hub.DeadReason
	Status       int32
	ErrorClass   hub.ErrorClass
	Fingerprint  []byte // of what it died of; nil unless State is Dead
	EventType    string
	Source       string
	// StartedMicros and NextMicros are Unix microseconds; NextMicros is 0
	// when no further attempt follows.
	StartedMicros int64
	NextMicros    int64
	TotalMicros   int32
	// Test marks the outcome of a test send.
	Test bool
	// Notice makes the item one of another kind: no outcome, and of the other
	// fields only Tenant, Subscription and Destination are set.
	Notice *hub.Notice
}

// Started is when the attempt began; without an attempt, when the delivery
// ended.
func (i *FeedItem) Started() time.Time { return time.UnixMicro(i.StartedMicros).UTC() }

// Ended is when the attempt, or without one the delivery, ended.
func (i *FeedItem) Ended() time.Time {
	return i.Started().Add(time.Duration(i.TotalMicros) * time.Microsecond)
}

// Attempted reports whether the outcome is that of an attempt. A delivery that
// ended while it waited has none: Attempt is zero, and Number is how many there
// were before.
func (i *FeedItem) Attempted() bool { return !i.Attempt.IsZero() }

// feedLine is the stored form. IDs are the five ids after one another in
// base64: delivery, event, subscription, destination, attempt.
type feedLine struct {
	IDs           []byte         `json:"i"`
	Tenant        hub.TenantID   `json:"t"`
	Number        int32          `json:"n"`
	State         hub.State      `json:"s"`
	DeadReason    hub.DeadReason `json:"d"`
	Status        int32          `json:"h"`
	ErrorClass    hub.ErrorClass `json:"e"`
	Fingerprint   []byte         `json:"f"`
	EventType     string         `json:"k"`
	Source        string         `json:"o"`
	StartedMicros int64          `json:"a"`
	NextMicros    int64          `json:"x"`
	TotalMicros   int32          `json:"u"`
	Test          bool           `json:"q"`
	Notice        *hub.Notice    `json:"z"`
}

const feedIDs = 5

// appendTo adds the item's line without its line break. It writes JSON by hand:
// this runs once per attempt.
func (i *FeedItem) appendTo(b []byte) []byte {
	if i.Notice != nil {
		return appendNotice(b, i.Notice)
	}
	var ids [feedIDs * 16]byte
	for n, id := range [feedIDs]hub.ID{i.Delivery.ID, i.Event.ID, i.Subscription.ID, i.Destination.ID, i.Attempt.ID} {
		copy(ids[16*n:], id[:])
	}
	b = append(b, `{"i":"`...)
	b = base64.StdEncoding.AppendEncode(b, ids[:])
	b = append(b, `","t":`...)
	b = appendJSONText(b, string(i.Tenant))
	b = append(b, `,"n":`...)
	b = strconv.AppendInt(b, int64(i.Number), 10)
	b = append(b, `,"s":`...)
	b = appendJSONText(b, string(i.State))
	if i.DeadReason != "" {
		b = append(b, `,"d":`...)
		b = appendJSONText(b, string(i.DeadReason))
	}
	if i.Status != 0 {
		b = append(b, `,"h":`...)
		b = strconv.AppendInt(b, int64(i.Status), 10)
	}
	if i.ErrorClass != "" {
		b = append(b, `,"e":`...)
		b = appendJSONText(b, string(i.ErrorClass))
	}
	if len(i.Fingerprint) > 0 {
		b = append(b, `,"f":"`...)
		b = base64.StdEncoding.AppendEncode(b, i.Fingerprint)
		b = append(b, '"')
	}
	b = append(b, `,"k":`...)
	b = appendJSONText(b, i.EventType)
	b = append(b, `,"o":`...)
	b = appendJSONText(b, i.Source)
	b = append(b, `,"a":`...)
	b = strconv.AppendInt(b, i.StartedMicros, 10)
	if i.NextMicros != 0 {
		b = append(b, `,"x":`...)
		b = strconv.AppendInt(b, i.NextMicros, 10)
	}
	b = append(b, `,"u":`...)
	b = strconv.AppendInt(b, int64(i.TotalMicros), 10)
	if i.Test {
		b = append(b, `,"q":true`...)
	}
	return append(b, '}')
}

// appendNotice adds the line of a notice.
func appendNotice(b []byte, n *hub.Notice) []byte {
	line, err := json.Marshal(struct {
		Notice *hub.Notice `json:"z"`
	}{n})
	if err != nil {
		panic("db: a notice does not encode: " + err.Error()) // only a time beyond the year 9999
	}
	return append(b, line...)
}

// appendJSONText adds a JSON string; plain ASCII, which is nearly all there
// is, without help.
func appendJSONText(b []byte, s string) []byte {
	for n := range len(s) {
		if c := s[n]; c < 0x20 || c >= 0x7f || c == '"' || c == '\\' {
			quoted, err := json.Marshal(s)
			if err != nil {
				panic("db: a string does not encode: " + err.Error())
			}
			return append(b, quoted...)
		}
	}
	b = append(b, '"')
	b = append(b, s...)
	return append(b, '"')
}

// ParseFeedItems reads the items of one feed row.
func ParseFeedItems(lines []byte) ([]FeedItem, error) {
	var items []FeedItem
	for start := 0; start < len(lines); {
		end := start
		for end < len(lines) && lines[end] != '\n' {
			end++
		}
		item, err := parseFeedLine(lines[start:end])
		if err != nil {
			return items, fmt.Errorf("feed item %d is not readable: %w", len(items), err)
		}
		items = append(items, item)
		start = end + 1
	}
	return items, nil
}

func parseFeedLine(line []byte) (FeedItem, error) {
	var l feedLine
	if err := json.Unmarshal(line, &l); err != nil {
		return FeedItem{}, err
	}
	if n := l.Notice; n != nil {
		return FeedItem{Tenant: n.Tenant, Subscription: n.Subscription, Destination: n.Destination, Notice: n}, nil
	}
	if len(l.IDs) < feedIDs*16 {
		return FeedItem{}, fmt.Errorf("it has %d bytes of ids", len(l.IDs))
	}
	id := func(n int) hub.ID { return hub.ID(l.IDs[16*n : 16*n+16]) }
	return FeedItem{
		Delivery: hub.DeliveryID{ID: id(0)}, Event: hub.EventID{ID: id(1)},
		Subscription: hub.SubscriptionID{ID: id(2)}, Destination: hub.DestinationID{ID: id(3)},
		Attempt: hub.AttemptID{ID: id(4)}, Tenant: l.Tenant, Number: l.Number, State: l.State,
		DeadReason: l.DeadReason, Status: l.Status, ErrorClass: l.ErrorClass, Fingerprint: l.Fingerprint,
		EventType: l.EventType, Source: l.Source,
		StartedMicros: l.StartedMicros, NextMicros: l.NextMicros, TotalMicros: l.TotalMicros, Test: l.Test,
	}, nil
}

// FeedLines are items as a feed row keeps them; ParseFeedItems reads them.
func FeedLines(items []FeedItem) []byte {
	var lines []byte
	for i := range items {
		if i > 0 {
			lines = append(lines, '\n')
		}
		lines = items[i].appendTo(lines)
	}
	return lines
}
