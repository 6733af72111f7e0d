package graph_test

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
)

// client is a graphql-transport-ws client with nothing in between.
type client struct {
	t    *testing.T
	conn *websocket.Conn
}

func (w *world) dial(header http.Header, protocols ...string) (*client, *http.Response, error) {
	conn, res, err := websocket.Dial(w.t.Context(), "ws"+strings.TrimPrefix(w.server.URL, "http"), &websocket.DialOptions{
		HTTPHeader: header, Subprotocols: protocols,
	})
	if err != nil {
		return nil, res, err
	}
	w.t.Cleanup(func() { _ = conn.CloseNow() })
	conn.SetReadLimit(1 << 20)
	return &client{w.t, conn}, res, nil
}

// socket is a connection that was let in.
func (w *world) socket(token string) *client {
	w.t.Helper()
	c, _, err := w.dial(nil, "graphql-transport-ws")
	if err != nil {
		w.t.Fatal(err)
	}
	c.write(`{"type":"connection_init","payload":{"authorization":"Bearer ` + token + `"}}`)
	if m := c.read(); m["type"] != "connection_ack" {
		w.t.Fatalf("got %v", m)
	}
	return c
}

func (c *client) write(message string) {
	c.t.Helper()
	if err := c.conn.Write(c.t.Context(), websocket.MessageText, []byte(message)); err != nil {
		c.t.Fatal(err)
	}
}

func (c *client) subscribe(id, query string, variables map[string]any) {
	c.t.Helper()
	m, err := json.Marshal(map[string]any{"id": id, "type": "subscribe", "payload": map[string]any{"query": query, "variables": variables}})
	if err != nil {
		c.t.Fatal(err)
	}
	c.write(string(m))
}

func (c *client) next() (map[string]any, error) {
	ctx, cancel := context.WithTimeout(c.t.Context(), 10*time.Second)
	defer cancel()
	for {
		_, raw, err := c.conn.Read(ctx)
		if err != nil {
			return nil, err
		}
		var m map[string]any
		if err := json.Unmarshal(raw, &m); err != nil || m["type"] != "ping" {
			return m, err
		}
		c.write(`{"type":"pong"}`)
	}
}

func (c *client) read() map[string]any {
	c.t.Helper()
	m, err := c.next()
	if err != nil {
		c.t.Fatal(err)
	}
	return m
}

// item reads the next outcome.
func (c *client) item() map[string]any {
	c.t.Helper()
	return c.itemOf("deliveryOutcomes")
}

// itemOf reads the next item of a live feed.
func (c *client) itemOf(field string) map[string]any {
	c.t.Helper()
	m := c.read()
	item, ok := at(m, "payload", "data", field).(map[string]any)
	if m["type"] != "next" || !ok {
		c.t.Fatalf("got %v", m)
	}
	return item
}

func (c *client) closedWith(code int) {
	c.t.Helper()
	for {
		m, err := c.next()
		if err == nil {
			c.t.Logf("read %v", m)
			continue
		}
		if got := websocket.CloseStatus(err); int(got) != code {
			c.t.Errorf("closed with %d (%v), want %d", got, err, code)
		}
		return
	}
}

// listening waits until so many operations follow the feed.
func (w *world) listening(n int) {
	w.t.Helper()
	for deadline := time.Now().Add(10 * time.Second); w.feed.Followers() != n; {
		if time.Now().After(deadline) {
			w.t.Fatalf("%d follow the feed, want %d", w.feed.Followers(), n)
		}
		<-time.After(2 * time.Millisecond)
	}
}
