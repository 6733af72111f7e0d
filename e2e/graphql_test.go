package e2e

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/coder/websocket"
	"github.com/coder/websocket/wsjson"

	"github.com/streaming-hub/streaming-hub/dev/stack"
)

// ask sends a query as a client would and decodes its data; errors fail the
// test.
func ask(ctx context.Context, t *testing.T, url, token, query string, variables map[string]any, into any) {
	t.Helper()
	body, err := json.Marshal(map[string]any{"query": query, "variables": variables})
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+token)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var answer struct {
		Data   json.RawMessage `json:"data"`
		Errors json.RawMessage `json:"errors"`
	}
	if err := json.NewDecoder(res.Body).Decode(&answer); err != nil {
		t.Fatal(err)
	}
	if len(answer.Errors) > 0 {
		t.Fatalf("GraphQL errors: %s", answer.Errors)
	}
	if err := json.Unmarshal(answer.Data, into); err != nil {
		t.Fatal(err)
	}
}

// outcome is what the tests read of a live item.
type outcome struct {
	Typename      string `json:"__typename"`
	DeliveryID    string `json:"deliveryId"`
	State         string `json:"state"`
	AttemptNumber int    `json:"attemptNumber"`
	Status        int    `json:"status"`
}

const liveQuery = `subscription($after: String) { deliveryOutcomes(after: $after) {
  __typename ... on DeliveryOutcome { deliveryId state attemptNumber status } } }`

// liveRequest follows the feed from the present moment, which the cursor of a
// page holds: whatever comes after this call is seen, however late the server
// begins to follow.
func liveRequest(ctx context.Context, t *testing.T, st stack.State) map[string]any {
	t.Helper()
	var page struct{ Deliveries struct{ LiveCursor string } }
	ask(ctx, t, st.GraphQLURL, st.TenantToken, `{ deliveries(first: 1) { liveCursor } }`, nil, &page)
	return map[string]any{"query": liveQuery, "variables": map[string]any{"after": page.Deliveries.LiveCursor}}
}

type liveData struct {
	Data struct {
		DeliveryOutcomes outcome `json:"deliveryOutcomes"`
	} `json:"data"`
	Errors json.RawMessage `json:"errors"`
}

// watchSocket opens a live subscription over WebSocket by the protocol
// graphql-transport-ws.
func watchSocket(ctx context.Context, t *testing.T, st stack.State) <-chan outcome {
	t.Helper()
	conn, _, err := websocket.Dial(ctx, st.GraphQLWSURL, &websocket.DialOptions{Subprotocols: []string{"graphql-transport-ws"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.CloseNow() })
	send := func(message map[string]any) {
		t.Helper()
		if err := wsjson.Write(ctx, conn, message); err != nil {
			t.Fatal(err)
		}
	}
	type frame struct {
		ID      string          `json:"id"`
		Type    string          `json:"type"`
		Payload json.RawMessage `json:"payload"`
	}
	send(map[string]any{"type": "connection_init", "payload": map[string]any{"authorization": "Bearer " + st.TenantToken}})
	var ack frame
	if err := wsjson.Read(ctx, conn, &ack); err != nil || ack.Type != "connection_ack" {
		t.Fatalf("connection_init was answered by %q: %v", ack.Type, err)
	}
	send(map[string]any{"id": "live", "type": "subscribe", "payload": liveRequest(ctx, t, st)})
	items := make(chan outcome, 100)
	go func() {
		defer close(items)
		for {
			var f frame
			if err := wsjson.Read(ctx, conn, &f); err != nil {
				return
			}
			var d liveData
			if f.Type == "next" && json.Unmarshal(f.Payload, &d) == nil {
				items <- d.Data.DeliveryOutcomes
			}
		}
	}()
	return items
}

// watchEvents opens a live subscription over server-sent events.
func watchEvents(ctx context.Context, t *testing.T, st stack.State) <-chan outcome {
	t.Helper()
	body, err := json.Marshal(liveRequest(ctx, t, st))
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, st.GraphQLURL, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "text/event-stream")
	req.Header.Set("Authorization", "Bearer "+st.TenantToken)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { res.Body.Close() })
	if res.StatusCode != http.StatusOK || !strings.HasPrefix(res.Header.Get("Content-Type"), "text/event-stream") {
		t.Fatalf("SSE was answered %s, %s", res.Status, res.Header.Get("Content-Type"))
	}
	lines := bufio.NewScanner(res.Body)
	items := make(chan outcome, 100)
	go func() {
		defer close(items)
		for lines.Scan() {
			var d liveData
			if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok && json.Unmarshal([]byte(data), &d) == nil && d.Data.DeliveryOutcomes.Typename != "" {
				items <- d.Data.DeliveryOutcomes
			}
		}
	}()
	return items
}

// next is the following live item.
func next(ctx context.Context, t *testing.T, items <-chan outcome, what string) outcome {
	t.Helper()
	select {
	case o, ok := <-items:
		if !ok {
			t.Fatalf("the %s stream ended", what)
		}
		return o
	case <-ctx.Done():
		t.Fatalf("nothing came over %s", what)
	}
	return outcome{}
}
