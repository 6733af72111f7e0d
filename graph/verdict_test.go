package graph_test

import (
	"strings"
	"testing"

	"github.com/streaming-hub/streaming-hub/hub"
)

const explained = `query ($evt: ID!, $sub: ID!) { explainMatch(eventId: $evt, eventSubscriptionId: $sub) {
	matched failedClause summary event { id sizeBytes } eventSubscription { id } delivery { id state } clauses { name passed wanted got } } }`

func TestExplainMatch(t *testing.T) {
	w := newWorld(t)
	token := w.token("acme", hub.Viewer)
	sub, dest := w.subscriptionOf("acme")
	d := w.deliver("acme", sub, dest)
	later, _ := w.subscriptionOf("acme")
	billing, _ := w.subscriptionOf("acme")
	w.exec(`UPDATE event_subscriptions SET origin = 'billing' WHERE id = $1`, billing.String())
	for name, c := range map[string]struct {
		sub      hub.ID
		matched  bool
		failed   any
		delivery any
		summary  string
	}{
		"matched_with_its_delivery": {sub, true, nil, gid("dlv_", d.Delivery.ID.ID), "it matched: all 6 clauses hold, and its delivery is IN_FLIGHT"},
		"deliverable_only_later":    {later, true, nil, nil, "it would match now; it was stored before the subscription became deliverable"},
		"not_matched":               {billing, false, "origin", nil, "it did not match: the subscription takes events of source billing only, and this one is of lender"},
	} {
		t.Run(name, func(t *testing.T) {
			a := w.must(token, explained, map[string]any{"evt": gid("evt_", d.Event.ID), "sub": gid("sub_", c.sub)})
			v := a.at("explainMatch")
			if at(v, "matched") != c.matched || at(v, "failedClause") != c.failed || at(v, "delivery", "id") != c.delivery || !strings.HasPrefix(at(v, "summary").(string), c.summary) {
				t.Errorf("%v", v)
			}
			if at(v, "event", "sizeBytes") != 32.0 || at(v, "eventSubscription", "id") != gid("sub_", c.sub) || len(at(v, "clauses").([]any)) != 6 {
				t.Errorf("%v", v)
			}
		})
	}
	t.Run("missing_ones_are_null", func(t *testing.T) {
		for _, v := range []map[string]any{
			{"evt": gid("evt_", newID()), "sub": gid("sub_", sub)}, {"evt": gid("evt_", d.Event.ID), "sub": gid("sub_", newID())}, {"evt": "x", "sub": "y"},
		} {
			if a := w.must(token, explained, v); a.at("explainMatch") != nil {
				t.Errorf("%v: %v", v, a.Data)
			}
		}
	})
	t.Run("verdicts_page_through_all_subscriptions", func(t *testing.T) {
		seen := map[any]bool{}
		var after any
		for range 5 {
			a := w.must(token, `query ($evt: ID!, $after: ID) { event(id: $evt) { verdicts(first: 2, after: $after) { eventSubscription { id } summary delivery { id } } } }`,
				map[string]any{"evt": gid("evt_", d.Event.ID), "after": after})
			list := a.at("event", "verdicts").([]any)
			if len(list) == 0 {
				break
			}
			for _, v := range list {
				after = at(v, "eventSubscription", "id")
				seen[after] = true
				if (at(v, "delivery", "id") != nil) != (after == gid("sub_", sub)) {
					t.Errorf("%v", v)
				}
			}
		}
		if len(seen) != 3 {
			t.Errorf("saw %v", seen)
		}
		for _, args := range []string{`first: 0`, `first: 101`, `after: "nonsense"`} {
			if a := w.ask(token, `query ($evt: ID!) { event(id: $evt) { verdicts(`+args+`) { matched } } }`, map[string]any{"evt": gid("evt_", d.Event.ID)}); a.code() != "BAD_USER_INPUT" {
				t.Errorf("%s: %+v", args, a)
			}
		}
	})
}
