package graph_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/streaming-hub/streaming-hub/hub"
)

// breaker stores a circuit breaker by SQL: of 3 recent attempts 2 failed, and
// both before them.
func (w *world) breaker(tenant string, dest hub.ID, phase string, more ...string) {
	w.t.Helper()
	columns, values := "", ""
	for i := 0; i < len(more); i += 2 {
		columns, values = columns+", "+more[i], values+", "+more[i+1]
	}
	if phase != "CLOSED" && !strings.Contains(columns, "opened_at") {
		columns, values = columns+", opened_at, next_probe_at", values+", now() - interval '1 minute', now() + interval '3 minutes'"
	}
	bucket := time.Now().Unix() / 10
	counts := func(n int) string {
		list := make([]string, 12)
		for i := range list {
			list[i] = "0"
		}
		list[bucket%12] = fmt.Sprint(n)
		return "{" + strings.Join(list, ",") + "}"
	}
	w.exec(`INSERT INTO circuit_breakers (destination_id, tenant_id, version, phase, generation, failures, window_newest, window_attempts,
		window_failures, cause, open_for_ms, ramp_limit, changed_at`+columns+`)
		VALUES ($1, $2, 1, $3, 1, 5, $4, $5, $6, CASE WHEN $3 = 'CLOSED' THEN '' ELSE 'FAILURES_IN_A_ROW' END, 30000, 0, now()`+values+`)`,
		dest.String(), tenant, phase, bucket, counts(3), counts(2))
}

const breakerFields = `destinationId tenantId phase openedAt cause failuresInRow recentAttempts recentFailures nextProbeAt probeSince closedAt rampLimit explanation destination { id url }`

func TestCircuitBreakers(t *testing.T) {
	w := newWorld(t)
	tenant, platform := w.token("acme", hub.Viewer), w.token("", hub.Viewer)
	names := map[any]string{}
	dest := func(name, tenant string) hub.ID {
		_, d := w.subscriptionOf(tenant)
		names[gid("dst_", d)] = name
		return d
	}
	open, half, shut, healthy, foreign := dest("open", "acme"), dest("half", "acme"), dest("shut", "acme"), dest("healthy", "acme"), dest("foreign", "beta")
	w.breaker("acme", open, "OPEN")
	w.breaker("acme", half, "HALF_OPEN", "probe_attempt", "gen_random_uuid()", "probe_started_at", "now()")
	w.breaker("acme", shut, "CLOSED", "closed_at", "now()")
	w.exec(`UPDATE circuit_breakers SET ramp_limit = 4 WHERE destination_id = $1`, shut.String())
	w.breaker("beta", foreign, "OPEN")

	for _, c := range []struct{ token, filter, want string }{
		{tenant, `{}`, "[shut half open]"},
		{platform, `{}`, "[foreign shut half open]"},
		{platform, `{tenantId: "beta"}`, "[foreign]"},
		{tenant, `{tenantId: "beta"}`, "[]"},
		{tenant, `{phase: OPEN}`, "[open]"},
		{platform, `{phase: [OPEN, HALF_OPEN]}`, "[foreign half open]"},
		{tenant, fmt.Sprintf(`{destinationId: %q}`, gid("dst_", half)), "[half]"},
		{tenant, fmt.Sprintf(`{destinationId: %q, phase: OPEN}`, gid("dst_", half)), "[]"},
		{tenant, fmt.Sprintf(`{destinationId: %q}`, gid("dst_", foreign)), "[]"},
		{tenant, fmt.Sprintf(`{destinationId: %q}`, gid("dst_", healthy)), "[]"},
		{tenant, `{destinationId: "nonsense"}`, "[]"},
	} {
		t.Run(c.filter, func(t *testing.T) {
			a := w.must(c.token, `{ circuitBreakers(filter: `+c.filter+`) { nodes { destinationId } edges { node { phase } } pageInfo { hasNextPage } liveCursor } }`, nil)
			got := []string{}
			for _, n := range a.at("circuitBreakers", "nodes").([]any) {
				got = append(got, names[at(n, "destinationId")])
			}
			if fmt.Sprint(got) != c.want || a.at("circuitBreakers", "pageInfo", "hasNextPage") != false || a.at("circuitBreakers", "liveCursor") == "" {
				t.Errorf("got %v, want %s", got, c.want)
			}
		})
	}
	t.Run("pages_hold_everything_once", func(t *testing.T) {
		var got []string
		var after any
		for range 6 {
			a := w.must(platform, `query ($c: String) { circuitBreakers(first: 1, after: $c) { nodes { destinationId } pageInfo { hasNextPage endCursor } } }`, map[string]any{"c": after})
			for _, n := range a.at("circuitBreakers", "nodes").([]any) {
				got = append(got, names[at(n, "destinationId")])
			}
			if after = a.at("circuitBreakers", "pageInfo", "endCursor"); a.at("circuitBreakers", "pageInfo", "hasNextPage") != true {
				break
			}
		}
		if fmt.Sprint(got) != "[foreign shut half open]" {
			t.Errorf("got %v", got)
		}
	})
	t.Run("nothing_follows_the_only_one", func(t *testing.T) {
		const query = `query ($id: ID, $c: String) { circuitBreakers(filter: {destinationId: $id}, after: $c) { nodes { destinationId } edges { cursor } } }`
		a := w.must(tenant, query, map[string]any{"id": gid("dst_", open)})
		a = w.must(tenant, query, map[string]any{"id": gid("dst_", open), "c": a.at("circuitBreakers", "edges", 0, "cursor")})
		if nodes := a.at("circuitBreakers", "nodes").([]any); len(nodes) != 0 {
			t.Errorf("got %v", nodes)
		}
	})
	of := func(id hub.ID) any {
		a := w.must(tenant, `query ($id: ID!) { node(id: $id) { ... on Destination { circuitBreaker { `+breakerFields+` } } } }`, map[string]any{"id": gid("dst_", id)})
		return a.at("node", "circuitBreaker")
	}
	t.Run("open", func(t *testing.T) {
		b := of(open)
		if at(b, "phase") != "OPEN" || at(b, "openedAt") == nil || at(b, "cause") != "FAILURES_IN_A_ROW" || at(b, "failuresInRow") != 5.0 ||
			at(b, "recentAttempts") != "3" || at(b, "recentFailures") != "2" || at(b, "nextProbeAt") == nil || at(b, "probeSince") != nil || at(b, "closedAt") != nil ||
			at(b, "rampLimit") != nil || at(b, "destination", "id") != gid("dst_", open) || at(b, "tenantId") != "acme" {
			t.Errorf("%v", b)
		}
		if says := at(b, "explanation").(string); !strings.HasPrefix(says, "open since ") || !strings.Contains(says, "after 5 failures in a row; next probe ") {
			t.Error(says)
		}
	})
	t.Run("half_open_has_a_probe", func(t *testing.T) {
		if b := of(half); at(b, "phase") != "HALF_OPEN" || at(b, "probeSince") == nil || !strings.Contains(at(b, "explanation").(string), "a probe is under way since") {
			t.Errorf("%v", b)
		}
	})
	t.Run("closed_after_an_opening_has_a_ramp", func(t *testing.T) {
		if b := of(shut); at(b, "phase") != "CLOSED" || at(b, "closedAt") == nil || at(b, "rampLimit") != 4.0 || at(b, "cause") != nil {
			t.Errorf("%v", b)
		}
	})
	t.Run("a_destination_that_never_failed_is_closed", func(t *testing.T) {
		if b := of(healthy); at(b, "phase") != "CLOSED" || at(b, "destinationId") != gid("dst_", healthy) || at(b, "tenantId") != "acme" || at(b, "recentAttempts") != "0" {
			t.Errorf("%v", b)
		}
	})
}

const breakerQuery = `subscription ($after: String, $filter: CircuitBreakerFilter) { circuitBreakerChanged(after: $after, filter: $filter) {
	__typename ... on CircuitBreakerChange { cursor kind at tenantId phase failuresInRow openedAt nextProbeAt reason destinationId destination { id circuitBreaker { phase } } }
	... on LiveGap { cursor after through missed } } }`

// circuitNotice tells of a circuit.
func circuitNotice(tenant string, dest hub.ID, kind hub.NoticeKind, phase string) hub.Notice {
	now := time.Now().UTC()
	return hub.Notice{
		Kind: kind, At: now, Tenant: hub.TenantID(tenant), Destination: hub.DestinationID{ID: dest}, Reason: "because",
		Breaker: &hub.BreakerNotice{Phase: phase, Failures: 5, OpenedAt: now, NextProbeAt: now.Add(30 * time.Second)},
	}
}

func (w *world) notify(notices ...hub.Notice) {
	w.t.Helper()
	if err := w.db.PublishNotices(w.t.Context(), newID(), notices); err != nil {
		w.t.Fatal(err)
	}
}

func TestLive_circuit_breakers(t *testing.T) {
	w := newWorld(t)
	token := w.token("acme", hub.Viewer)
	sub, dest := w.subscriptionOf("acme")
	_, second := w.subscriptionOf("acme")
	_, foreign := w.subscriptionOf("beta")
	w.breaker("acme", dest, "OPEN")
	page := w.must(token, `{ circuitBreakers { liveCursor } }`, nil)
	// Others' notices and outcomes stand between them.
	w.notify(circuitNotice("acme", dest, hub.NoticeCircuitOpened, "OPEN"), circuitNotice("beta", foreign, hub.NoticeCircuitOpened, "OPEN"),
		circuitNotice("acme", second, hub.NoticeCircuitOpened, "OPEN"))
	w.record(w.deliver("acme", sub, dest).outcome(500, hub.Waiting))
	w.notify(hub.Notice{Kind: hub.NoticeSpanOpened, Tenant: "acme", Destination: hub.DestinationID{ID: dest}})
	w.notify(circuitNotice("acme", dest, hub.NoticeCircuitHalfOpen, "HALF_OPEN"))
	w.notify(circuitNotice("acme", dest, hub.NoticeCircuitClosed, "CLOSED"))

	c := w.socket(token)
	c.subscribe("all", breakerQuery, map[string]any{"after": page.at("circuitBreakers", "liveCursor")})
	var cursors []any
	for _, want := range []string{"CIRCUIT_OPENED OPEN " + gid("dst_", dest), "CIRCUIT_OPENED OPEN " + gid("dst_", second),
		"CIRCUIT_HALF_OPEN HALF_OPEN " + gid("dst_", dest), "CIRCUIT_CLOSED CLOSED " + gid("dst_", dest)} {
		i := c.itemOf("circuitBreakerChanged")
		if got := fmt.Sprint(i["kind"], " ", i["phase"], " ", i["destinationId"]); got != want {
			t.Fatalf("got %s, want %s", got, want)
		}
		if i["tenantId"] != "acme" || i["reason"] != "because" || i["failuresInRow"] != 5.0 || i["openedAt"] == nil || i["nextProbeAt"] == nil || i["at"] == nil ||
			at(i, "destination", "id") != i["destinationId"] || at(i, "destination", "circuitBreaker", "phase") == nil {
			t.Errorf("%v", i)
		}
		cursors = append(cursors, i["cursor"])
	}
	t.Run("resumes_within_a_row_and_filters", func(t *testing.T) {
		c := w.socket(token)
		c.subscribe("b", breakerQuery, map[string]any{"after": cursors[0], "filter": map[string]any{"phase": []string{"OPEN", "CLOSED"}}})
		if i := c.itemOf("circuitBreakerChanged"); i["destinationId"] != gid("dst_", second) {
			t.Errorf("got %v", i)
		}
		if i := c.itemOf("circuitBreakerChanged"); i["kind"] != "CIRCUIT_CLOSED" {
			t.Errorf("got %v", i)
		}
	})
	t.Run("is_live", func(t *testing.T) {
		w.notify(circuitNotice("acme", second, hub.NoticeCircuitOpened, "OPEN"))
		if i := c.itemOf("circuitBreakerChanged"); i["destinationId"] != gid("dst_", second) {
			t.Errorf("got %v", i)
		}
	})
	t.Run("a_cursor_past_its_retention_is_told", func(t *testing.T) {
		w.exec(`DELETE FROM outcome_feed WHERE (xid, id) IN (SELECT xid, id FROM outcome_feed ORDER BY xid, id LIMIT 1)`)
		c := w.socket(token)
		c.subscribe("g", breakerQuery, map[string]any{"after": cursors[0]})
		if i := c.itemOf("circuitBreakerChanged"); i["__typename"] != "LiveGap" || i["after"] != cursors[0] || i["missed"] != nil {
			t.Errorf("got %v", i)
		}
		if i := c.itemOf("circuitBreakerChanged"); i["kind"] != "CIRCUIT_HALF_OPEN" {
			t.Errorf("got %v", i)
		}
	})
}

// A reader that is slower than the feed is told what it missed, by every feed.
func TestLive_slow_readers_get_a_gap(t *testing.T) {
	w := newWorld(t)
	token := w.token("acme", hub.Viewer)
	sub, dest := w.subscriptionOf("acme")
	const more = 3000 // than a follower's queue and the buffers of a socket hold
	var circuits, spans, replays []hub.Notice
	for range more {
		c, s := circuitNotice("acme", dest, hub.NoticeCircuitOpened, "OPEN"), spanNotice("acme", sub, dest, hub.NoticeSpanMarked)
		c.Reason, s.Reason = strings.Repeat("x", 4000), strings.Repeat("x", 4000)
		circuits, spans = append(circuits, c), append(spans, s)
		replays = append(replays, hub.Notice{Kind: hub.NoticeReplayProgress, Tenant: "acme", Reason: c.Reason, Replay: &hub.ReplayNotice{State: hub.JobRunning}})
	}
	for field, c := range map[string]struct {
		query   string
		notices []hub.Notice
	}{"circuitBreakerChanged": {breakerQuery, circuits}, "failureSpanChanged": {spanQuery, spans}, "replayProgress": {progressQuery, replays}} {
		t.Run(field, func(t *testing.T) {
			slow := w.socket(token)
			slow.subscribe("a", c.query, nil)
			w.listening(1)
			w.notify(c.notices...)
			seen := 0
			for seen < more {
				if i := slow.itemOf(field); i["__typename"] == "LiveGap" {
					seen += int(i["missed"].(float64))
					if i["after"] == i["through"] || i["cursor"] != i["through"] {
						t.Errorf("got %v", i)
					}
				} else {
					seen++
				}
			}
			if seen != more {
				t.Errorf("items and gaps are %d, want %d", seen, more)
			}
			slow.write(`{"id":"a","type":"complete"}`)
			w.listening(0)
		})
	}
}
