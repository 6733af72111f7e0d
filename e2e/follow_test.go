package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/coder/websocket/wsjson"
)

// live follows a GraphQL subscription over WebSocket from this moment on.
type live struct {
	field string
	items chan json.RawMessage
}

// follow opens a live subscription; arguments stand behind `after`.
func (d *desk) follow(ctx context.Context, t *testing.T, field, arguments, selection string) *live {
	t.Helper()
	var page struct{ Deliveries struct{ LiveCursor string } }
	d.ask(ctx, t, `{ deliveries(first: 1) { liveCursor } }`, nil, &page)
	conn, _, err := websocket.Dial(ctx, d.st.GraphQLWSURL, &websocket.DialOptions{Subprotocols: []string{"graphql-transport-ws"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.CloseNow() })
	type frame struct {
		Type    string          `json:"type"`
		Payload json.RawMessage `json:"payload"`
	}
	write := func(message map[string]any) {
		t.Helper()
		if err := wsjson.Write(ctx, conn, message); err != nil {
			t.Fatal(err)
		}
	}
	write(map[string]any{"type": "connection_init", "payload": map[string]any{"authorization": "Bearer " + d.token}})
	var ack frame
	if err := wsjson.Read(ctx, conn, &ack); err != nil || ack.Type != "connection_ack" {
		t.Fatalf("connection_init was answered by %q: %v", ack.Type, err)
	}
	write(map[string]any{"id": "live", "type": "subscribe", "payload": map[string]any{
		"query":     fmt.Sprintf(`subscription($after: String) { %s(after: $after%s) { __typename %s } }`, field, arguments, selection),
		"variables": map[string]any{"after": page.Deliveries.LiveCursor},
	}})
	l := &live{field: field, items: make(chan json.RawMessage, 1000)}
	go func() {
		defer close(l.items)
		for {
			var f frame
			if err := wsjson.Read(ctx, conn, &f); err != nil {
				return
			}
			switch f.Type {
			case "next":
				l.items <- f.Payload
			case "ping":
				if err := wsjson.Write(ctx, conn, map[string]any{"type": "pong"}); err != nil {
					return
				}
			case "error", "complete":
				l.items <- f.Payload
				return
			}
		}
	}()
	return l
}

// next decodes the following item.
func (l *live) next(ctx context.Context, t *testing.T, into any) {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	select {
	case raw, ok := <-l.items:
		var data struct{ Data map[string]json.RawMessage }
		if !ok || json.Unmarshal(raw, &data) != nil || data.Data[l.field] == nil {
			t.Fatalf("%s ended: %s", l.field, raw)
		}
		if err := json.Unmarshal(data.Data[l.field], into); err != nil {
			t.Fatal(err)
		}
	case <-ctx.Done():
		t.Fatalf("nothing came over %s", l.field)
	}
}

// rest are the items that have come so far, as text.
func (l *live) rest() (list []string) {
	for {
		select {
		case raw, ok := <-l.items:
			if !ok {
				return list
			}
			list = append(list, string(raw))
		default:
			return list
		}
	}
}
