package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/coder/websocket"
	"github.com/coder/websocket/wsjson"

	"github.com/streaming-hub/streaming-hub/hub"
)

// smallWindow is the receive buffer, in bytes, of those who stall, so that the
// network takes little before they are felt.
const smallWindow = 4096

// fateTime bounds the look at what became of a stalled subscriber.
const fateTime = 20 * time.Second

const feedQuery = `subscription($after: String) { deliveryOutcomes(after: $after) { __typename
 ... on DeliveryOutcome { cursor deliveryId eventId eventSubscriptionId tenantId eventType attemptNumber state status at }
 ... on LiveGap { missed } } }`

// subscriber follows the live feed on a WebSocket of its own.
type subscriber struct {
	tenant hub.TenantID // "" for all
	conn   *websocket.Conn
	socket net.Conn     // below conn
	items  []arrival    // of the reading goroutine
	missed int          // items in gaps, of the same
	n      atomic.Int64 // items that came and items in gaps
}

// arrival is an item and when it came.
type arrival struct {
	delivery string
	at       time.Time
}

// connect begins to follow behind a cursor, with "" at the present moment.
// window is the size of its receive buffer, 0 for the system's.
func (s *subscriber) connect(ctx context.Context, addr, token, after string, window int) (err error) {
	dialer := net.Dialer{Control: func(_, _ string, c syscall.RawConn) (err error) {
		if window > 0 {
			err = errors.Join(c.Control(func(fd uintptr) {
				err = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, window)
			}), err)
		}
		return err
	}}
	dial := func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := dialer.DialContext(ctx, network, addr)
		s.socket = c
		return c, err
	}
	client := &http.Client{Transport: &http.Transport{DialContext: dial}}
	if s.conn, _, err = websocket.Dial(ctx, "ws://"+addr+"/graphql", &websocket.DialOptions{
		Subprotocols: []string{"graphql-transport-ws"}, HTTPClient: client,
	}); err != nil {
		return err
	}
	variables := map[string]any{}
	if after != "" {
		variables["after"] = after
	}
	for _, message := range []map[string]any{
		{"type": "connection_init", "payload": map[string]any{"Authorization": "Bearer " + token}},
		{"id": "1", "type": "subscribe", "payload": map[string]any{"query": feedQuery, "variables": variables}},
	} {
		if err := wsjson.Write(ctx, s.conn, message); err != nil {
			return err
		}
		if message["type"] != "connection_init" {
			continue
		}
		var ack struct{ Type string }
		if err := wsjson.Read(ctx, s.conn, &ack); err != nil || ack.Type != "connection_ack" {
			return fmt.Errorf("connection_init was answered by %q: %w", ack.Type, err)
		}
	}
	return nil
}

// leave cuts the connection.
func (s *subscriber) leave() { _ = s.conn.CloseNow() }

// count is how many items have come, or were told to be in a gap.
func (s *subscriber) count() int { return int(s.n.Load()) }

// read takes items until the context ends, when it leaves. The end of the
// connection, or a gap that tells nothing, is an error.
func (s *subscriber) read(ctx context.Context) error {
	defer s.leave()
	for {
		missed, err := s.next(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			return fmt.Errorf("a subscriber that reads lost its connection after %d items: %w", s.count(), err)
		case missed < 0:
			return fmt.Errorf("a subscriber that reads was told of a gap of unknown length after %d items", s.count())
		}
		s.missed += missed
		s.n.Add(int64(missed))
	}
}

// next takes one message. missed is not 0 for a gap, and -1 for one of which it
// is not known how many items it has.
func (s *subscriber) next(ctx context.Context) (missed int, err error) {
	_, text, err := s.conn.Read(ctx)
	if err != nil {
		return 0, err
	}
	at := time.Now()
	var m struct {
		Type    string
		Payload json.RawMessage
	}
	if err := json.Unmarshal(text, &m); err != nil {
		return 0, err
	}
	switch m.Type {
	case "next":
	case "ping":
		return 0, s.conn.Write(ctx, websocket.MessageText, []byte(`{"type":"pong"}`))
	case "pong":
		return 0, nil
	default:
		return 0, fmt.Errorf("the server said %.300s", text)
	}
	var payload struct {
		Data struct {
			DeliveryOutcomes struct {
				Typename   string `json:"__typename"`
				DeliveryID string
				Missed     *int
			}
		}
	}
	if err := json.Unmarshal(m.Payload, &payload); err != nil {
		return 0, err
	}
	item := payload.Data.DeliveryOutcomes
	if item.Typename != "DeliveryOutcome" {
		if item.Missed == nil {
			return -1, nil
		}
		return *item.Missed, nil
	}
	s.items = append(s.items, arrival{delivery: item.DeliveryID, at: at})
	s.n.Add(1)
	return 0, nil
}

// fate reads what a subscriber has left lying: was it told of a gap, or closed?
// Neither may be when the network's buffers have taken all that there was.
func (s *subscriber) fate(ctx context.Context) (gap, closed bool) {
	defer s.leave()
	ctx, cancel := context.WithTimeout(ctx, fateTime)
	defer cancel()
	if c, ok := s.socket.(*net.TCPConn); ok {
		_ = c.SetReadBuffer(64 << 10) // or what lies there takes minutes to read
	}
	for {
		missed, err := s.next(ctx)
		switch {
		case ctx.Err() != nil:
			return false, false
		case err != nil:
			return false, true
		case missed != 0:
			return true, false
		}
	}
}
