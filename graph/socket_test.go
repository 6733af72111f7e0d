package graph_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/streaming-hub/streaming-hub/hub"
)

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
		for _, payload := range []string{`{}`, `null`, `{"authorization":5}`, `{"authorization":"Bearer shub_nonsense"}`, `{"authorization":"Bearer ` + good + `x"}`} {
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
	t.Run("4409_whatever_the_length_of_the_id", func(t *testing.T) {
		c, id := w.socket(good), strings.Repeat("é", 64) // 128 bytes, as long as they may be
		c.subscribe(id, liveQuery, nil)
		c.subscribe(id, liveQuery, nil)
		c.closedWith(4409)
	})
	t.Run("4400_for_nonsense", func(t *testing.T) {
		for _, m := range []string{
			`nonsense`, `{"type":"start"}`, `[]`, `{"type":"next","id":"1"}`, `{"type":"subscribe","id":1,"payload":{"query":"{ viewer { name } }"}}`,
			`{"type":"subscribe","payload":{"query":"{ viewer { name } }"}}`, `{"type":"subscribe","id":"` + strings.Repeat("x", 129) + `","payload":{"query":"{ viewer { name } }"}}`,
			`{"type":"subscribe","id":"1"}`, `{"type":"subscribe","id":"1","payload":[]}`, `{"type":"subscribe","id":"1","payload":{}}`,
			`{"type":"subscribe","id":"1","payload":{"query":"{ viewer { name } }","variables":[1]}}`,
		} {
			c := w.socket(good)
			c.write(m)
			c.closedWith(4400)
		}
	})
	t.Run("4400_for_binary_messages", func(t *testing.T) {
		c := w.socket(good)
		if err := c.conn.Write(t.Context(), websocket.MessageBinary, []byte(`{"type":"ping"}`)); err != nil {
			t.Fatal(err)
		}
		c.closedWith(4400)
	})
	t.Run("4400_for_an_init_that_is_no_object", func(t *testing.T) {
		for _, payload := range []string{`"x"`, `[]`, `5`} {
			c := open()
			c.write(`{"type":"connection_init","payload":` + payload + `}`)
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
	t.Run("ping_is_answered_before_init_too", func(t *testing.T) {
		c := open()
		c.write(`{"type":"pong"}`)
		c.write(`{"type":"ping"}`)
		if m := c.read(); m["type"] != "pong" {
			t.Errorf("got %v", m)
		}
		c.write(`{"type":"connection_init","payload":{"authorization":"Bearer ` + good + `"}}`)
		if m := c.read(); m["type"] != "connection_ack" {
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
	t.Run("an_id_is_free_as_soon_as_the_client_completed_it", func(t *testing.T) {
		c := w.socket(good)
		for range 15 { // the server is still ending the ones before, fewer than it takes
			c.subscribe(`"é"`, liveQuery, nil)
			c.write(`{"type":"complete","id":"\"é\""}`)
		}
		c.subscribe(`"é"`, `{ viewer { tenantId } }`, nil)
		m := c.read() // of the others there is no word
		if m["id"] != `"é"` || at(m, "payload", "data", "viewer", "tenantId") != "acme" {
			t.Errorf("got %v", m)
		}
		if m = c.read(); m["type"] != "complete" || m["id"] != `"é"` {
			t.Errorf("got %v", m)
		}
		c.write(`{"type":"complete","id":"\"é\""}`) // too late, and no mistake
		w.listening(0)
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
