package graph_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/streaming-hub/streaming-hub/hub"
)

// span stores a failure span by SQL, from and until so long before now.
func (w *world) span(tenant string, sub, dest hub.ID, from, until string, mark int) {
	w.t.Helper()
	w.exec(`INSERT INTO failure_spans (subscription_id, tenant_id, destination_id, first_failure_at, last_failure_at, failure_count, mark, changed_at)
		VALUES ($1, $2, $3, now() - $4::interval, now() - $5::interval, 9007199254740993, $6, now())`,
		sub.String(), tenant, dest.String(), from, until, mark)
}

const spanFields = `eventSubscriptionId tenantId firstFailureAt lastFailureAt failureCount sustained spread wouldTripAt trippedAt warnedPercent explanation eventSubscription { id }`

func TestFailureSpans(t *testing.T) {
	w := newWorld(t)
	tenant, platform := w.token("acme", hub.Viewer), w.token("", hub.Viewer)
	names := map[any]string{}
	sub := func(name, tenant string) (hub.ID, hub.ID) {
		s, d := w.subscriptionOf(tenant)
		names[gid("sub_", s)] = name
		return s, d
	}
	short, shortDest := sub("short", "acme")
	long, longDest := sub("long", "acme")
	tripped, trippedDest := sub("tripped", "acme")
	healthy, _ := sub("healthy", "acme")
	foreign, foreignDest := sub("foreign", "beta")
	w.exec(`UPDATE event_subscriptions SET destination_id = $2 WHERE id = $1`, long.String(), shortDest.String()) // shares it
	w.span("acme", short, shortDest, "2 hours", "1 hour", 0)
	w.span("acme", long, shortDest, "65 hours", "1 hour", 50)
	w.span("acme", tripped, trippedDest, "121 hours", "1 hour", 90)
	w.exec(`UPDATE failure_spans SET tripped_at = now() WHERE subscription_id = $1`, tripped.String())
	w.span("beta", foreign, foreignDest, "2 hours", "1 hour", 0)

	for _, c := range []struct{ token, filter, want string }{
		{tenant, `{}`, "[tripped long short]"},
		{platform, `{}`, "[foreign tripped long short]"},
		{platform, `{tenantId: "beta"}`, "[foreign]"},
		{tenant, `{tenantId: "beta"}`, "[]"},
		{tenant, fmt.Sprintf(`{eventSubscriptionId: %q}`, gid("sub_", long)), "[long]"},
		{tenant, fmt.Sprintf(`{destinationId: %q}`, gid("dst_", shortDest)), "[long short]"},
		{tenant, fmt.Sprintf(`{destinationId: %q, eventSubscriptionId: %q}`, gid("dst_", shortDest), gid("sub_", short)), "[short]"},
		{tenant, fmt.Sprintf(`{destinationId: %q, eventSubscriptionId: %q}`, gid("dst_", longDest), gid("sub_", short)), "[]"},
		{tenant, fmt.Sprintf(`{destinationId: %q}`, gid("dst_", foreignDest)), "[]"},
		{tenant, fmt.Sprintf(`{eventSubscriptionId: %q}`, gid("sub_", foreign)), "[]"},
		{tenant, `{eventSubscriptionId: "nonsense"}`, "[]"},
		{tenant, `{destinationId: "nonsense"}`, "[]"},
	} {
		t.Run(c.filter, func(t *testing.T) {
			a := w.must(c.token, `{ failureSpans(filter: `+c.filter+`) { nodes { eventSubscriptionId } edges { node { spread } } pageInfo { hasNextPage } liveCursor } }`, nil)
			got := []string{}
			for _, n := range a.at("failureSpans", "nodes").([]any) {
				got = append(got, names[at(n, "eventSubscriptionId")])
			}
			if fmt.Sprint(got) != c.want || a.at("failureSpans", "pageInfo", "hasNextPage") != false || a.at("failureSpans", "liveCursor") == "" {
				t.Errorf("got %v, want %s", got, c.want)
			}
		})
	}
	t.Run("pages_hold_everything_once", func(t *testing.T) {
		for filter, want := range map[string]string{`{}`: "[foreign tripped long short]", fmt.Sprintf(`{destinationId: %q}`, gid("dst_", shortDest)): "[long short]"} {
			var got []string
			var after any
			for range 6 {
				a := w.must(platform, `query ($c: String) { failureSpans(first: 1, after: $c, filter: `+filter+`) { nodes { eventSubscriptionId } pageInfo { hasNextPage endCursor } } }`, map[string]any{"c": after})
				for _, n := range a.at("failureSpans", "nodes").([]any) {
					got = append(got, names[at(n, "eventSubscriptionId")])
				}
				if after = a.at("failureSpans", "pageInfo", "endCursor"); a.at("failureSpans", "pageInfo", "hasNextPage") != true {
					break
				}
			}
			if fmt.Sprint(got) != want {
				t.Errorf("%s: got %v", filter, got)
			}
		}
	})
	t.Run("nothing_follows_the_only_one", func(t *testing.T) {
		const query = `query ($id: ID, $c: String) { failureSpans(filter: {eventSubscriptionId: $id}, after: $c) { nodes { eventSubscriptionId } edges { cursor } } }`
		a := w.must(tenant, query, map[string]any{"id": gid("sub_", long)})
		a = w.must(tenant, query, map[string]any{"id": gid("sub_", long), "c": a.at("failureSpans", "edges", 0, "cursor")})
		if nodes := a.at("failureSpans", "nodes").([]any); len(nodes) != 0 {
			t.Errorf("got %v", nodes)
		}
	})
	of := func(id hub.ID) any {
		a := w.must(tenant, `query ($id: ID!) { eventSubscription(id: $id) { failureSpan { `+spanFields+` } health { policy state killSwitch explanation failureSpan { spread } } } }`, map[string]any{"id": gid("sub_", id)})
		return a.at("eventSubscription")
	}
	for _, c := range []struct {
		name              string
		id                hub.ID
		sustained, spread bool
		mark              any
		says              string
	}{
		{"not_spread", short, false, false, nil, "nothing follows unless it fails again at"},
		{"spread_and_not_sustained", long, false, true, 50.0, "it is disabled at"},
		{"both_gates", tripped, true, true, 90.0, "that is enough to disable it"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := of(c.id)
			s := at(got, "failureSpan")
			if at(s, "sustained") != c.sustained || at(s, "spread") != c.spread || at(s, "warnedPercent") != c.mark || at(s, "failureCount") != "9007199254740993" ||
				at(s, "firstFailureAt") == nil || at(s, "lastFailureAt") == nil || at(s, "eventSubscription", "id") != gid("sub_", c.id) {
				t.Errorf("%v", s)
			}
			if (at(s, "wouldTripAt") != nil) != c.spread || (at(s, "trippedAt") != nil) != c.sustained || !strings.Contains(at(s, "explanation").(string), c.says) {
				t.Errorf("%v", s)
			}
			if at(got, "health", "policy") != "FAILURE_SPAN" || at(got, "health", "state") != "ACTIVE" || at(got, "health", "explanation") != at(s, "explanation") || at(got, "health", "failureSpan", "spread") != c.spread {
				t.Errorf("%v", got)
			}
		})
	}
	t.Run("healthy_has_none", func(t *testing.T) {
		got := of(healthy)
		if at(got, "failureSpan") != nil || at(got, "health", "failureSpan") != nil || at(got, "health", "state") != "ACTIVE" || at(got, "health", "explanation") != "nothing has failed since the last success" {
			t.Errorf("%v", got)
		}
	})
	t.Run("disabled_by_the_hub", func(t *testing.T) {
		w.exec(`UPDATE event_subscriptions SET enabled = false, disabled_by = 'AUTO', disabled_at = now(), disabled_reason = 'broken for 5 days' WHERE id = $1`, tripped.String())
		got := of(tripped)
		if at(got, "health", "state") != "DISABLED" || !strings.Contains(at(got, "health", "explanation").(string), "(broken for 5 days); verify or enable it") {
			t.Errorf("%v", got)
		}
	})
}

func TestDestination_health(t *testing.T) {
	w := newWorld(t)
	token := w.token("acme", hub.Viewer)
	sub, dest := w.subscriptionOf("acme")
	of := func() (destination, subscription any) {
		a := w.must(token, `query ($d: ID!, $s: ID!) { node(id: $d) { ... on Destination { health { policy state since attempts failures failuresInRow lastSuccessAt nextTryAt killSwitch explanation } } }
			eventSubscription(id: $s) { health { policy state explanation } } }`, map[string]any{"d": gid("dst_", dest), "s": gid("sub_", sub)})
		return a.at("node", "health"), a.at("eventSubscription", "health")
	}
	t.Run("under_failure_span", func(t *testing.T) {
		h, _ := of()
		if at(h, "policy") != "FAILURE_SPAN" || at(h, "state") != "ACTIVE" || at(h, "attempts") != nil || at(h, "killSwitch") != false {
			t.Errorf("%v", h)
		}
	})
	w.exec(`UPDATE destinations SET failure_policy = '{"kind":"FAILURE_RATE"}'`)
	t.Run("under_failure_rate_without_attempts", func(t *testing.T) {
		h, s := of()
		if at(h, "policy") != "FAILURE_RATE" || at(h, "state") != "ACTIVE" || at(h, "attempts") != "0" || at(h, "lastSuccessAt") != nil || at(h, "since") != nil ||
			at(s, "policy") != "FAILURE_RATE" || at(s, "state") != "ACTIVE" {
			t.Errorf("%v %v", h, s)
		}
	})
	w.exec(`INSERT INTO failure_rates (destination_id, tenant_id, attempts, failures, failures_in_row, last_success_at, state, state_since, next_try_at, changed_at)
		SELECT id, tenant_id, 9007199254740993, 2500, 2001, created_at, 'DISABLED', now(), now() + interval '5 minutes', now() FROM destinations`)
	t.Run("disabled", func(t *testing.T) {
		h, s := of()
		if at(h, "state") != "DISABLED" || at(h, "attempts") != "9007199254740993" || at(h, "failures") != "2500" || at(h, "failuresInRow") != "2001" ||
			at(h, "lastSuccessAt") != nil || at(h, "since") == nil || at(h, "nextTryAt") == nil || !strings.Contains(at(h, "explanation").(string), "one delivery is tried at") {
			t.Errorf("%v", h)
		}
		if at(s, "state") != "DISABLED" || !strings.HasPrefix(at(s, "explanation").(string), "its destination is disabled since") {
			t.Errorf("%v", s)
		}
	})
	t.Run("frozen_after_a_success_once", func(t *testing.T) {
		w.exec(`UPDATE failure_rates SET state = 'FROZEN', next_try_at = NULL, last_success_at = now() + interval '1 hour'`)
		if h, _ := of(); at(h, "state") != "FROZEN" || at(h, "nextTryAt") != nil || at(h, "lastSuccessAt") == nil || !strings.Contains(at(h, "explanation").(string), "nothing is tried until somebody enables it") {
			t.Errorf("%v", h)
		}
	})
}

const spanQuery = `subscription ($after: String, $filter: FailureSpanFilter) { failureSpanChanged(after: $after, filter: $filter) {
	__typename ... on FailureSpanChange { cursor kind at tenantId reason eventSubscriptionId eventSubscription { id failureSpan { spread } } destinationId destination { id health { state } }
		firstFailureAt lastFailureAt failureCount warnedPercent wouldTripAt }
	... on LiveGap { cursor after through missed } } }`

func spanNotice(tenant string, sub, dest hub.ID, kind hub.NoticeKind) hub.Notice {
	now := time.Now().UTC()
	return hub.Notice{
		Kind: kind, At: now, Tenant: hub.TenantID(tenant), Subscription: hub.SubscriptionID{ID: sub}, Destination: hub.DestinationID{ID: dest}, Reason: "because",
		Span: &hub.SpanNotice{FirstFailureAt: now.Add(-time.Hour), LastFailureAt: now, FailureCount: 9007199254740993, Mark: 50, WouldTripAt: now.Add(time.Hour)},
	}
}

func TestLive_failure_spans(t *testing.T) {
	w := newWorld(t)
	token := w.token("acme", hub.Viewer)
	sub, dest := w.subscriptionOf("acme")
	other, otherDest := w.subscriptionOf("acme")
	foreign, foreignDest := w.subscriptionOf("beta")
	page := w.must(token, `{ failureSpans { liveCursor } }`, nil)
	kinds := []hub.NoticeKind{hub.NoticeSpanOpened, hub.NoticeSpanMarked, hub.NoticeSpanCleared, hub.NoticeAutoDisabled, hub.NoticeWouldDisable, hub.NoticeFrozen, hub.NoticeRecovered}
	for _, k := range kinds {
		n := spanNotice("acme", sub, dest, k)
		if k == hub.NoticeFrozen { // the whole destination
			n.Subscription, n.Span = hub.SubscriptionID{}, nil
		}
		w.notify(spanNotice("beta", foreign, foreignDest, k), n, circuitNotice("acme", dest, hub.NoticeCircuitOpened, "OPEN"))
	}
	w.record(w.deliver("acme", sub, dest).outcome(500, hub.Dead))
	w.notify(hub.Notice{Kind: hub.NoticeSecretRotated, Tenant: "acme", Destination: hub.DestinationID{ID: dest}})
	w.notify(spanNotice("acme", other, otherDest, hub.NoticeSpanOpened))

	c := w.socket(token)
	c.subscribe("all", spanQuery, map[string]any{"after": page.at("failureSpans", "liveCursor")})
	var cursors []any
	for _, k := range kinds {
		i := c.itemOf("failureSpanChanged")
		if i["kind"] != string(k) || i["tenantId"] != "acme" || i["reason"] != "because" || i["destinationId"] != gid("dst_", dest) || at(i, "destination", "health", "state") != "ACTIVE" {
			t.Fatalf("got %v, want %s", i, k)
		}
		if k == hub.NoticeFrozen {
			if i["eventSubscriptionId"] != nil || i["eventSubscription"] != nil || i["failureCount"] != nil || i["firstFailureAt"] != nil {
				t.Errorf("%v", i)
			}
		} else if i["eventSubscriptionId"] != gid("sub_", sub) || at(i, "eventSubscription", "id") != gid("sub_", sub) || i["failureCount"] != "9007199254740993" || i["warnedPercent"] != 50.0 || i["wouldTripAt"] == nil {
			t.Errorf("%v", i)
		}
		cursors = append(cursors, i["cursor"])
	}
	if i := c.itemOf("failureSpanChanged"); i["eventSubscriptionId"] != gid("sub_", other) {
		t.Errorf("got %v", i)
	}
	t.Run("resumes_and_filters_by_subscription", func(t *testing.T) {
		c := w.socket(token)
		c.subscribe("b", spanQuery, map[string]any{"after": cursors[4], "filter": map[string]any{"eventSubscriptionId": gid("sub_", sub)}})
		if i := c.itemOf("failureSpanChanged"); i["kind"] != "RECOVERED" {
			t.Errorf("got %v", i)
		}
	})
	t.Run("streams_as_server_sent_events", func(t *testing.T) {
		body, _ := json.Marshal(map[string]any{"query": spanQuery, "variables": map[string]any{"after": cursors[5]}})
		res, err := w.request(token, string(body), "Accept", "text/event-stream")
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		lines := bufio.NewScanner(res.Body)
		for lines.Scan() {
			if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
				if !strings.Contains(data, `"RECOVERED"`) {
					t.Errorf("got %s", data)
				}
				return
			}
		}
		t.Errorf("the stream ended: %v", lines.Err())
	})
}
