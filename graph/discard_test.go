package graph_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/streaming-hub/streaming-hub/hub"
)

const discard = `mutation ($input: DiscardDeadLettersInput!) { discardDeadLetters(input: $input) {
	deliveries { id state lastError deadReason explanation finishedAt } userErrors { code message path } } }`

func TestDiscardDeadLetters(t *testing.T) {
	w := newWorld(t)
	token := w.token("acme", hub.Operator)
	s, beta := w.opened("acme"), w.opened("beta")
	dead := s.died(2)
	made := func(status int32, state hub.State) string {
		d := w.deliver("acme", s.sub, s.dest)
		if state != hub.InFlight {
			w.record(d.outcome(status, state))
		}
		return gid("dlv_", d.Delivery.ID.ID)
	}
	waiting, flying, delivered := made(500, hub.Waiting), made(0, hub.InFlight), made(200, hub.Delivered)
	foreign, missing := beta.died(1)[0], gid("dlv_", newID())
	c := w.socket(token)
	c.subscribe("live", `subscription { deliveryOutcomes { ... on DeliveryOutcome { deliveryId state attemptNumber attemptCount } } }`, nil)
	w.listening(1)

	ids := []string{waiting, foreign, dead[1], missing, "nonsense", flying, dead[1], delivered, dead[0]}
	p := w.must(token, discard, map[string]any{"input": map[string]any{"ids": ids, "reason": " not needed\nany more "}}).at("discardDeadLetters")
	var got, faults []string
	for _, d := range at(p, "deliveries").([]any) {
		got = append(got, at(d, "id").(string))
		wantFields(t, d, map[string]any{"state": "DISCARDED", "lastError": "not needed\nany more", "deadReason": nil,
			"explanation": "discarded: an operator gave it up (not needed\nany more), nothing more happens"})
		if at(d, "finishedAt") == nil {
			t.Errorf("%v", d)
		}
	}
	if want := []string{waiting, dead[1], dead[0]}; fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("discarded %v,\nwant %v", got, want)
	}
	for _, e := range at(p, "userErrors").([]any) {
		faults = append(faults, fmt.Sprint(at(e, "code"), at(e, "path"), at(e, "message")))
	}
	want := []string{
		"NOT_FOUND[input ids 1]there is no such delivery", "NOT_FOUND[input ids 3]there is no such delivery", "NOT_FOUND[input ids 4]there is no such delivery",
		"CONFLICT[input ids 5]an attempt of the delivery is being made; discard it when that has ended",
		"CONFLICT[input ids 7]it was delivered: there is nothing to discard",
	}
	if fmt.Sprint(faults) != fmt.Sprint(want) {
		t.Errorf("told %q", faults)
	}
	t.Run("each_has_its_audit_entry", func(t *testing.T) {
		got := w.texts(`SELECT object || ' ' || (before->>'state') || ' ' || (after->>'state') || ' ' || (after->>'reason') FROM audit_log
			WHERE action = 'discard_dead_letter' AND tenant_id = 'acme' AND actor_name = 'test' ORDER BY object`)
		want := []string{dead[0] + " DEAD DISCARDED not needed\nany more", dead[1] + " DEAD DISCARDED not needed\nany more", waiting + " WAITING DISCARDED not needed\nany more"}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%q", got)
		}
	})
	t.Run("the_feed_tells_of_each", func(t *testing.T) {
		for _, id := range []string{dead[0], dead[1], waiting} { // in the order of their ids
			if i := c.item(); i["deliveryId"] != id || i["state"] != "DISCARDED" || i["attemptNumber"] != nil || i["attemptCount"] != 1.0 {
				t.Errorf("%v", i)
			}
		}
	})
	t.Run("discarded_before_stays_as_it_is", func(t *testing.T) {
		p := w.must(token, discard, map[string]any{"input": map[string]any{"ids": dead, "reason": "another"}}).at("discardDeadLetters")
		if len(at(p, "userErrors").([]any)) != 0 || len(at(p, "deliveries").([]any)) != 2 || at(p, "deliveries", 0, "lastError") != "not needed\nany more" {
			t.Errorf("%v", p)
		}
		if n := w.count(`SELECT count(*) FROM audit_log WHERE action = 'discard_dead_letter'`); n != 3 {
			t.Errorf("%d audit entries", n)
		}
	})
	t.Run("is_no_dead_letter_and_can_be_redelivered", func(t *testing.T) {
		if a := w.must(token, `{ deadLetters { nodes { id } } }`, nil); len(a.at("deadLetters", "nodes").([]any)) != 0 {
			t.Errorf("%v", a.Data)
		}
		if p := w.redeliver(token, dead[0], nil); at(p, "delivery", "state") != "WAITING" {
			t.Errorf("%v", p)
		}
	})
	t.Run("a_platform_actor_discards_of_all_tenants", func(t *testing.T) {
		p := w.must(w.token("", hub.Operator), discard, map[string]any{"input": map[string]any{"ids": []string{foreign}, "reason": "x"}}).at("discardDeadLetters")
		if at(p, "deliveries", 0, "state") != "DISCARDED" {
			t.Errorf("%v", p)
		}
		if n := w.count(`SELECT count(*) FROM audit_log WHERE action = 'discard_dead_letter' AND tenant_id = 'beta'`); n != 1 {
			t.Errorf("%d audit entries of its tenant", n)
		}
	})
	t.Run("refusals", func(t *testing.T) {
		last := s.died(1)
		hundred := make([]string, 101)
		for i := range hundred {
			hundred[i] = last[0]
		}
		for name, c := range map[string]struct {
			ids          []string
			reason, want string
		}{
			"no_reason":       {last, " ", "[REQUIRED[input reason]]"},
			"long_reason":     {last, strings.Repeat("é", 501), "[INVALID[input reason]]"},
			"binary_reason":   {last, "a\x00b", "[INVALID[input reason]]"},
			"no_ids":          {[]string{}, "x", "[INVALID[input ids]]"},
			"too_many":        {hundred, "", "[REQUIRED[input reason] INVALID[input ids]]"},
			"nothing_of_them": {[]string{foreign}, "x", "[NOT_FOUND[input ids 0]]"},
		} {
			p := w.must(token, discard, map[string]any{"input": map[string]any{"ids": c.ids, "reason": c.reason}}).at("discardDeadLetters")
			var got []string
			for _, e := range at(p, "userErrors").([]any) {
				got = append(got, fmt.Sprint(at(e, "code"), at(e, "path")))
			}
			if fmt.Sprint(got) != c.want || len(at(p, "deliveries").([]any)) != 0 {
				t.Errorf("%s: %v", name, p)
			}
		}
		if p := w.must(token, discard, map[string]any{"input": map[string]any{"ids": hundred[:100], "reason": strings.Repeat("é", 500)}}).at("discardDeadLetters"); len(at(p, "deliveries").([]any)) != 1 {
			t.Errorf("%v", p)
		}
		if a := w.ask(w.token("acme", hub.Viewer), discard, map[string]any{"input": map[string]any{"ids": s.died(1), "reason": "x"}}); a.code() != "FORBIDDEN" {
			t.Errorf("a viewer: %+v", a)
		}
		if n := w.count(`SELECT count(*) FROM audit_log WHERE action = 'discard_dead_letter' AND after->>'reason' = 'x' AND tenant_id = 'acme'`); n != 0 {
			t.Errorf("%d discards by a viewer", n)
		}
	})
}
