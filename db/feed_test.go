package db

import (
	"bytes"
	"math"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/streaming-hub/streaming-hub/hub"
)

func drawID(t *rapid.T, label string) (id hub.ID) {
	copy(id[:], rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, label))
	return id
}

func drawItem(t *rapid.T) FeedItem {
	return FeedItem{
		Delivery: hub.DeliveryID{ID: drawID(t, "delivery")}, Event: hub.EventID{ID: drawID(t, "event")},
		Subscription: hub.SubscriptionID{ID: drawID(t, "subscription")}, Destination: hub.DestinationID{ID: drawID(t, "destination")},
		Attempt: hub.AttemptID{ID: drawID(t, "attempt")}, Tenant: hub.TenantID(rapid.String().Draw(t, "tenant")),
		Number:      rapid.Int32().Draw(t, "number"),
		State:       rapid.SampledFrom([]hub.State{hub.Waiting, hub.Delivered, hub.Dead}).Draw(t, "state"),
		DeadReason:  rapid.SampledFrom([]hub.DeadReason{"", hub.DeadExhausted, hub.DeadExpired}).Draw(t, "reason"),
		Status:      rapid.Int32().Draw(t, "status"),
		ErrorClass:  rapid.SampledFrom([]hub.ErrorClass{"", hub.ErrTLS}).Draw(t, "class"),
		Fingerprint: rapid.SampledFrom([][]byte{nil, []byte("0123456789abcdef")}).Draw(t, "fingerprint"),
		EventType:   rapid.String().Draw(t, "type"), Source: rapid.String().Draw(t, "source"),
		StartedMicros: rapid.Int64().Draw(t, "started"), NextMicros: rapid.Int64().Draw(t, "next"),
		TotalMicros: rapid.Int32().Draw(t, "total"),
	}
}

func TestFeedItem_comes_back_as_it_was(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := rapid.SliceOfN(rapid.Custom(drawItem), 1, 5).Draw(t, "items")
		var lines []byte
		for i := range want {
			if i > 0 {
				lines = append(lines, '\n')
			}
			lines = want[i].appendTo(lines)
		}
		got, err := ParseFeedItems(lines)
		if err != nil {
			t.Fatalf("%v in %q", err, lines)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("items (-want +got):\n%s", diff)
		}
	})
}

func TestFeedItem_odd_event_types(t *testing.T) {
	for _, odd := range []string{
		"", `"`, `\`, `a"b.c\d`, "<script>&", "a\nb", "\x00", "\x7f", "\u2028", "日本.語", "😀", strings.Repeat("x", 4096), "é\xffé",
	} {
		item := FeedItem{EventType: odd, Tenant: "acme", StartedMicros: math.MinInt64, NextMicros: math.MaxInt64}
		line := item.appendTo(nil)
		if bytes.IndexByte(line, '\n') >= 0 || !utf8.Valid(line) {
			t.Errorf("the line of %q is not one line of text: %q", odd, line)
		}
		items, err := ParseFeedItems(line)
		if err != nil || len(items) != 1 {
			t.Errorf("%q: %d items, %v", odd, len(items), err)
			continue
		}
		item.EventType = strings.ToValidUTF8(odd, "\uFFFD")
		if diff := cmp.Diff(item, items[0]); diff != "" {
			t.Errorf("%q (-want +got):\n%s", odd, diff)
		}
	}
}

func TestParseFeedItems(t *testing.T) {
	item := FeedItem{Tenant: "acme", EventType: "loan.approved"}
	line := item.appendTo(nil)
	t.Run("nothing_is_no_item", func(t *testing.T) {
		if items, err := ParseFeedItems(nil); err != nil || len(items) != 0 {
			t.Errorf("%v, %v", items, err)
		}
	})
	t.Run("unknown_names_are_ignored", func(t *testing.T) {
		newer := append(bytes.TrimSuffix(bytes.Clone(line), []byte("}")), `,"zz":{"a":[1]}}`...)
		items, err := ParseFeedItems(newer)
		if err != nil || len(items) != 1 || !cmp.Equal(items[0], item) {
			t.Errorf("%+v, %v", items, err)
		}
	})
	t.Run("broken_line_is_said_with_what_came_before", func(t *testing.T) {
		for _, broken := range []string{"{", `{"i":"AAAA"}`, `{"i":"%"}`, "null", "[]"} {
			items, err := ParseFeedItems(append(append(bytes.Clone(line), '\n'), broken...))
			if err == nil || len(items) != 1 || !strings.Contains(err.Error(), "feed item 1") {
				t.Errorf("%s: %d items, error %v", broken, len(items), err)
			}
		}
	})
}
