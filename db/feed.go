package db

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/streaming-hub/streaming-hub/hub"
)

// FeedItem is one outcome in the live feed: enough to filter by and to show,
// without a look-up. It is stored as one line of JSON; the short names keep
// the row small, and unknown ones are ignored so that versions can differ.
type FeedItem struct {
	Delivery     hub.DeliveryID     `json:"d"`
	Event        hub.EventID        `json:"e"`
	Tenant       hub.TenantID       `json:"t"`
	Subscription hub.SubscriptionID `json:"s"`
	Destination  hub.DestinationID  `json:"dst"`
	Attempt      hub.AttemptID      `json:"a"`
	Number       int32              `json:"n"`
	State        hub.State          `json:"st"`
	DeadReason   hub.DeadReason     `json:"dr,omitempty"`
	Status       int32              `json:"http,omitempty"`
	ErrorClass   hub.ErrorClass     `json:"err,omitempty"`
	EventType    string             `json:"et"`
	Source       string             `json:"src"`
	// StartedMicros and NextMicros are Unix microseconds; NextMicros is 0
	// when no further attempt follows.
	StartedMicros int64 `json:"at"`
	NextMicros    int64 `json:"nx,omitempty"`
	TotalMicros   int32 `json:"us"`
}

// Started is when the attempt began.
func (i *FeedItem) Started() time.Time { return time.UnixMicro(i.StartedMicros).UTC() }

// ParseFeedItems reads the items of one feed row.
func ParseFeedItems(lines []byte) ([]FeedItem, error) {
	var items []FeedItem
	for start := 0; start < len(lines); {
		end := start
		for end < len(lines) && lines[end] != '\n' {
			end++
		}
		var item FeedItem
		if err := json.Unmarshal(lines[start:end], &item); err != nil {
			return items, fmt.Errorf("feed item %d is not readable: %w", len(items), err)
		}
		items = append(items, item)
		start = end + 1
	}
	return items, nil
}
