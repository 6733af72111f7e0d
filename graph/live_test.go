package graph_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/streaming-hub/streaming-hub/hub"
)

const liveQuery = `subscription ($after: String, $filter: DeliveryFilter) { deliveryOutcomes(after: $after, filter: $filter) {
	__typename ... on DeliveryOutcome { cursor deliveryId attemptNumber state status errorClass at eventType delivery { id state event { ceId } } }
	... on LiveGap { cursor after through missed } } }`

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

func TestLive_outcomes_arrive_once_and_only_the_tenants_own(t *testing.T) {
	w := newWorld(t)
	sub, dest := w.subscriptionOf("acme")
	other, otherDest := w.subscriptionOf("beta")
	c := w.socket(w.token("acme", hub.Viewer))
	c.subscribe("a", liveQuery, nil)
	w.listening(1)
	want := []string{}
	for range 5 {
		d := w.deliver("acme", sub, dest)
		w.record(w.deliver("beta", other, otherDest).outcome(200, hub.Delivered))
		begin := time.Now()
		w.record(d.outcome(200, hub.Delivered))
		item := c.item()
		if took := time.Since(begin); took > time.Second {
			t.Errorf("it took %s", took)
		}
		want = append(want, gid("dlv_", d.Delivery.ID.ID))
		if item["deliveryId"] != want[len(want)-1] || item["state"] != "DELIVERED" || item["status"] != 200.0 || at(item, "delivery", "state") != "DELIVERED" || at(item, "delivery", "event", "ceId") == nil {
			t.Errorf("got %v", item)
		}
	}
	c.write(`{"id":"a","type":"complete"}`)
	w.listening(0)
}

func TestLive_resumes_behind_any_cursor(t *testing.T) {
	w := newWorld(t)
	token := w.token("acme", hub.Viewer)
	sub, dest := w.subscriptionOf("acme")
	page := w.must(token, `{ deliveries { liveCursor } }`, nil)
	var want []string
	for range 7 { // rows of three items
		var row []hub.Outcome
		for range 3 {
			d := w.deliver("acme", sub, dest)
			row = append(row, d.outcome(200, hub.Delivered))
			want = append(want, gid("dlv_", d.Delivery.ID.ID))
		}
		w.record(row...)
	}
	c := w.socket(token)
	follow := func(id string, after any, n int) (ids, cursors []string) {
		c.subscribe(id, liveQuery, map[string]any{"after": after})
		for range n {
			item := c.item()
			ids, cursors = append(ids, item["deliveryId"].(string)), append(cursors, item["cursor"].(string))
		}
		c.write(`{"id":"` + id + `","type":"complete"}`)
		return ids, cursors
	}
	ids, cursors := follow("all", page.at("deliveries", "liveCursor"), len(want))
	if fmt.Sprint(sorted(ids)) != fmt.Sprint(sorted(want)) {
		t.Fatalf("got  %v\nwant %v", ids, want)
	}
	for i, cursor := range cursors[:len(cursors)-1] {
		rest, _ := follow(fmt.Sprint("from", i), cursor, len(ids)-i-1)
		if fmt.Sprint(rest) != fmt.Sprint(ids[i+1:]) {
			t.Fatalf("after item %d got %v, want %v", i, rest, ids[i+1:])
		}
	}
}

func TestLive_cursor_of_a_page_skips_what_the_page_showed(t *testing.T) {
	w := newWorld(t)
	token := w.token("acme", hub.Viewer)
	sub, dest := w.subscriptionOf("acme")
	// A transaction that hangs keeps xmin below everything that follows.
	hanging, err := w.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := hanging.Exec(t.Context(), `SELECT pg_current_xact_id()`); err != nil {
		t.Fatal(err)
	}
	shown, later := w.deliver("acme", sub, dest), w.deliver("acme", sub, dest)
	w.record(shown.outcome(200, hub.Delivered))
	page := w.must(token, `{ deliveries(filter: {state: DELIVERED}) { nodes { id } liveCursor } }`, nil)
	if len(page.at("deliveries", "nodes").([]any)) != 1 {
		t.Fatalf("%v", page.Data)
	}
	w.record(later.outcome(200, hub.Delivered))
	c := w.socket(token)
	c.subscribe("a", liveQuery, map[string]any{"after": page.at("deliveries", "liveCursor")})
	w.listening(1)
	if err := hanging.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if item := c.item(); item["deliveryId"] != gid("dlv_", later.Delivery.ID.ID) {
		t.Errorf("got %v", item)
	}
}

func TestLive_filters(t *testing.T) {
	w := newWorld(t)
	sub, dest := w.subscriptionOf("acme")
	second, secondDest := w.subscriptionOf("acme")
	c := w.socket(w.token("", hub.Viewer))
	c.subscribe("a", liveQuery, map[string]any{"filter": map[string]any{"state": []string{"DEAD"}, "eventSubscriptionId": gid("sub_", sub)}})
	w.listening(1)
	want := w.deliver("acme", sub, dest)
	w.record(w.deliver("acme", second, secondDest).outcome(500, hub.Dead), w.deliver("acme", sub, dest).outcome(200, hub.Delivered), want.outcome(500, hub.Dead))
	if item := c.item(); item["deliveryId"] != gid("dlv_", want.Delivery.ID.ID) || item["errorClass"] != "STATUS" {
		t.Errorf("got %v", item)
	}
	c.subscribe("b", liveQuery, map[string]any{"filter": map[string]any{"destinationId": gid("dst_", secondDest)}})
	w.listening(2)
	want = w.deliver("acme", second, secondDest)
	w.record(w.deliver("acme", sub, dest).outcome(200, hub.Delivered), want.outcome(200, hub.Delivered))
	if item := c.item(); item["deliveryId"] != gid("dlv_", want.Delivery.ID.ID) {
		t.Errorf("got %v", item)
	}
}

func TestSSE_streams_outcomes(t *testing.T) {
	w := newWorld(t)
	token := w.token("acme", hub.Viewer)
	sub, dest := w.subscriptionOf("acme")
	body, _ := json.Marshal(map[string]any{"query": liveQuery})
	res, err := w.request(token, string(body), "Accept", "text/event-stream")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.Header.Get("Content-Type") != "text/event-stream" || res.Header.Get("X-Accel-Buffering") != "no" {
		t.Errorf("headers %v", res.Header)
	}
	w.listening(1)
	d := w.deliver("acme", sub, dest)
	w.record(d.outcome(200, hub.Delivered))
	lines := bufio.NewScanner(res.Body)
	for lines.Scan() {
		if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
			if !strings.Contains(data, gid("dlv_", d.Delivery.ID.ID)) {
				t.Errorf("got %s", data)
			}
			break
		}
	}
	res.Body.Close()
	w.listening(0)
}

func TestSocket_closes_as_the_protocol_says(t *testing.T) {
	w := newWorld(t)
	good := w.token("acme", hub.Viewer)
	open := func() *client {
		c, _, err := w.dial(nil, "graphql-transport-ws")
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	t.Run("4403_for_a_bad_token", func(t *testing.T) {
		for _, payload := range []string{`{}`, `{"authorization":"Bearer shub_nonsense"}`, `{"authorization":"Bearer ` + good + `x"}`} {
			c := open()
			c.write(`{"type":"connection_init","payload":` + payload + `}`)
			c.closedWith(4403)
		}
	})
	t.Run("4401_for_subscribe_before_init", func(t *testing.T) {
		c := open()
		c.subscribe("a", `{ viewer { name } }`, nil)
		c.closedWith(4401)
	})
	t.Run("4429_for_a_second_init", func(t *testing.T) {
		c := w.socket(good)
		c.write(`{"type":"connection_init"}`)
		c.closedWith(4429)
	})
	t.Run("4409_for_an_id_in_use", func(t *testing.T) {
		c := w.socket(good)
		c.subscribe("a", liveQuery, nil)
		c.subscribe("a", liveQuery, nil)
		c.closedWith(4409)
	})
	t.Run("4400_for_nonsense", func(t *testing.T) {
		for _, m := range []string{`nonsense`, `{"type":"start"}`, `[]`} {
			c := w.socket(good)
			c.write(m)
			c.closedWith(4400)
		}
	})
	t.Run("4408_without_init", func(t *testing.T) {
		open().closedWith(4408)
	})
	t.Run("other_subprotocols_are_refused", func(t *testing.T) {
		for _, protocols := range [][]string{nil, {"graphql-ws"}} {
			if _, res, err := w.dial(nil, protocols...); err == nil || res.StatusCode != http.StatusBadRequest {
				t.Errorf("%v was let in: %v", protocols, res)
			}
		}
	})
	t.Run("foreign_origins_are_refused", func(t *testing.T) {
		if _, res, err := w.dial(http.Header{"Origin": {"https://evil.example"}}, "graphql-transport-ws"); err == nil || res.StatusCode != http.StatusForbidden {
			t.Errorf("it was let in: %v", res)
		}
		if _, _, err := w.dial(http.Header{"Origin": {"https://console.example"}}, "graphql-transport-ws"); err != nil {
			t.Error(err)
		}
	})
	t.Run("ping_is_answered", func(t *testing.T) {
		c := w.socket(good)
		c.write(`{"type":"ping"}`)
		if m := c.read(); m["type"] != "pong" {
			t.Errorf("got %v", m)
		}
	})
	t.Run("queries_work_too_and_ids_are_free_afterwards", func(t *testing.T) {
		c := w.socket(good)
		for range 2 {
			c.subscribe("q", `{ viewer { tenantId } }`, nil)
			if m := c.read(); at(m, "payload", "data", "viewer", "tenantId") != "acme" {
				t.Errorf("got %v", m)
			}
			if m := c.read(); m["type"] != "complete" {
				t.Errorf("got %v", m)
			}
		}
	})
	t.Run("operations_are_bounded", func(t *testing.T) {
		c := w.socket(good)
		for i := range 21 {
			c.subscribe(fmt.Sprint(i), liveQuery, nil)
		}
		if m := c.read(); m["type"] != "error" || m["id"] != "20" || at(m, "payload", 0, "extensions", "code") != "LIMIT_EXCEEDED" {
			t.Errorf("got %v", m)
		}
	})
	t.Run("the_header_lets_in_as_well", func(t *testing.T) {
		c, _, err := w.dial(http.Header{"Authorization": {"Bearer " + good}}, "graphql-transport-ws")
		if err != nil {
			t.Fatal(err)
		}
		c.write(`{"type":"connection_init"}`)
		if m := c.read(); m["type"] != "connection_ack" {
			t.Errorf("got %v", m)
		}
	})
}

func TestSocket_ends_within_seconds_of_a_revocation(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	token := w.token("acme", hub.Viewer)
	c := w.socket(token)
	c.subscribe("a", liveQuery, nil)
	w.listening(1)
	w.exec(`UPDATE api_tokens SET revoked_at = now()`)
	begin := time.Now()
	c.closedWith(4403)
	if took := time.Since(begin); took > 7*time.Second {
		t.Errorf("it took %s", took)
	}
}

func TestSocket_closes_with_1001_when_the_hub_stops(t *testing.T) {
	w := newWorld(t)
	c := w.socket(w.token("acme", hub.Viewer))
	c.subscribe("a", liveQuery, nil)
	w.listening(1)
	go w.api.Close(context.Background())
	c.closedWith(1001)
	w.listening(0)
}

// A client that stops reading must not hold up anybody: the others go on, and
// its own connection is cut.
func TestSocket_stalled_client_is_cut_and_holds_up_nobody(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	token := w.token("acme", hub.Viewer)
	sub, dest := w.subscriptionOf("acme")
	w.record(w.deliver("acme", sub, dest).outcome(200, hub.Delivered))
	stalled, reader := w.socket(token), w.socket(token)
	const query = `subscription { deliveryOutcomes { __typename ... on DeliveryOutcome { cursor deliveryId eventId eventSubscriptionId } ... on LiveGap { missed } } }`
	stalled.subscribe("a", query, nil)
	reader.subscribe("a", query, nil)
	w.listening(2)
	deadline := time.Now().Add(time.Minute)
	sent := 0
	for ; w.feed.Followers() == 2; sent += 400 {
		if time.Now().After(deadline) {
			t.Fatal("the stalled client was not cut")
		}
		w.feedRow(400)
		for got := 0; got < 400; {
			if item := reader.item(); item["__typename"] == "LiveGap" {
				got += int(item["missed"].(float64))
			} else {
				got++
			}
		}
	}
	t.Logf("cut after %d items", sent)
}

func sorted(list []string) []string {
	out := append([]string(nil), list...)
	for i := range out {
		for j := i; j > 0 && out[j] < out[j-1]; j-- {
			out[j], out[j-1] = out[j-1], out[j]
		}
	}
	return out
}
