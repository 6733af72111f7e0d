package graph_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/streaming-hub/streaming-hub/hub"
)

const liveQuery = `subscription ($after: String, $filter: DeliveryFilter) { deliveryOutcomes(after: $after, filter: $filter) {
	__typename ... on DeliveryOutcome { cursor deliveryId attemptNumber state status errorClass at eventType delivery { id state event { ceId } } }
	... on LiveGap { cursor after through missed } } }`

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

func TestSSE_says_why_it_ends_when_the_hub_stops(t *testing.T) {
	w := newWorld(t)
	body, _ := json.Marshal(map[string]any{"query": liveQuery})
	res, err := w.request(w.token("acme", hub.Viewer), string(body), "Accept", "text/event-stream")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	w.listening(1)
	w.api.Close(t.Context())
	told, err := io.ReadAll(res.Body)
	if text := string(told); err != nil || !strings.Contains(text, `"code":"UNAVAILABLE"`) || !strings.HasSuffix(text, "event: complete\n\n") {
		t.Errorf("%s, %v", told, err)
	}
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
