package graph_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/streaming-hub/streaming-hub/hub"
)

// Another tenant's object answers exactly like a missing one, also by ways that
// TestAccessMatrix, which has each field once, does not go.
func TestTenancy_foreign_and_missing_answer_alike(t *testing.T) {
	w := newWorld(t)
	stranger := w.token("stranger", hub.Admin)
	sub, dest := w.subscriptionOf("acme")
	d := w.deliver("acme", sub, dest)
	died := d.outcome(500, hub.Dead)
	died.Decision.Fingerprint = []byte("0123456789abcdef")
	w.record(died)
	w.breaker("acme", dest, "OPEN")
	w.span("acme", sub, dest, "2 hours", "1 hour", 0)
	quarantined, observed := w.quarantine("acme", nil), w.observe("acme")
	foreign := map[string]string{
		"qrn": gid("qrn_", quarantined), "dlq": gid("dlq_", observed),
		"sub": gid("sub_", sub), "dst": gid("dst_", dest), "evt": gid("evt_", d.Event.ID), "dlv": gid("dlv_", d.Delivery.ID.ID), "tenant": "acme",
	}
	missing := map[string]string{
		"qrn": gid("qrn_", newID()), "dlq": gid("dlq_", newID()),
		"sub": gid("sub_", newID()), "dst": gid("dst_", newID()), "evt": gid("evt_", newID()), "dlv": gid("dlv_", newID()), "tenant": "nobody",
	}
	const circuits = `{ nodes { destinationId } edges { cursor } pageInfo { hasNextPage endCursor } }`
	const spans = `{ nodes { eventSubscriptionId } edges { cursor } pageInfo { hasNextPage endCursor } }`
	const page = `{ nodes { id } edges { cursor } pageInfo { hasNextPage endCursor } }`
	queries := map[string]string{
		"viewer":                   `{ viewer { tenantId } }`,
		"node":                     `query ($dlv: ID!) { node(id: $dlv) { id } }`,
		"node of subscription":     `query ($sub: ID!) { node(id: $sub) { id } }`,
		"node of destination":      `query ($dst: ID!) { node(id: $dst) { id } }`,
		"node of event":            `query ($evt: ID!) { node(id: $evt) { id } }`,
		"eventSubscription":        `query ($sub: ID!) { eventSubscription(id: $sub) { id } }`,
		"eventSubscriptions":       `query ($tenant: String) { eventSubscriptions(filter: {tenantId: $tenant}) ` + page + ` }`,
		"event":                    `query ($evt: ID!) { event(id: $evt) { id } }`,
		"events":                   `query ($tenant: String) { events(filter: {tenantId: $tenant}) ` + page + ` }`,
		"delivery":                 `query ($dlv: ID!) { delivery(id: $dlv) { id } }`,
		"deliveries":               `query ($tenant: String) { deliveries(filter: {tenantId: $tenant}) ` + page + ` }`,
		"deliveries of one":        `query ($sub: ID!) { deliveries(first: 1, filter: {eventSubscriptionId: $sub}) ` + page + ` }`,
		"dead deliveries of one":   `query ($sub: ID!) { deliveries(first: 1, filter: {eventSubscriptionId: $sub, state: DEAD}) ` + page + ` }`,
		"deliveries of event":      `query ($evt: ID!) { deliveries(first: 1, filter: {eventId: $evt}) ` + page + ` }`,
		"deadLetters":              `query ($tenant: String) { deadLetters(filter: {tenantId: $tenant}) ` + page + ` }`,
		"all deadLetters":          `{ deadLetters ` + page + ` }`,
		"deadLetters of one":       `query ($sub: ID!) { deadLetters(first: 1, filter: {eventSubscriptionId: $sub}) ` + page + ` }`,
		"deadLetters to one":       `query ($dst: ID!) { deadLetters(first: 1, filter: {destinationId: $dst}) ` + page + ` }`,
		"circuitBreakers":          `query ($tenant: String) { circuitBreakers(filter: {tenantId: $tenant}) ` + circuits + ` }`,
		"all circuitBreakers":      `{ circuitBreakers ` + circuits + ` }`,
		"circuitBreakers of one":   `query ($dst: ID!) { circuitBreakers(filter: {destinationId: $dst}) ` + circuits + ` }`,
		"failureSpans":             `query ($tenant: String) { failureSpans(filter: {tenantId: $tenant}) ` + spans + ` }`,
		"all failureSpans":         `{ failureSpans ` + spans + ` }`,
		"failureSpans of one":      `query ($sub: ID!) { failureSpans(filter: {eventSubscriptionId: $sub}) ` + spans + ` }`,
		"failureSpans to one":      `query ($dst: ID!) { failureSpans(filter: {destinationId: $dst}) ` + spans + ` }`,
		"deliveries to one":        `query ($dst: ID!) { deliveries(filter: {destinationId: $dst}) ` + page + ` }`,
		"deadLetters of a cause":   `{ deadLetters(filter: {fingerprint: "30313233343536373839616263646566"}) ` + page + ` }`,
		"retryPreview":             `{ retryPreview(policy: {curve: true}) { total } }`,
		"redeliver":                `mutation ($dlv: ID!) { redeliver(input: {id: $dlv}) { delivery { id } userErrors { code message path } } }`,
		"redeliver with a key":     `mutation ($dlv: ID!, $key: String) { redeliver(input: {id: $dlv, idempotencyKey: $key}) { delivery { id } userErrors { code message path } } }`,
		"destination":              `query ($dst: ID!) { destination(id: $dst) { id } }`,
		"destinations":             `query ($tenant: String) { destinations(filter: {tenantId: $tenant}) ` + page + ` }`,
		"all destinations":         `{ destinations ` + page + ` }`,
		"updateEventSubscription":  `mutation ($sub: ID!) { updateEventSubscription(input: {id: $sub, version: 1, name: "x"}) { eventSubscription { id } userErrors { code message path } } }`,
		"deleteEventSubscription":  `mutation ($sub: ID!) { deleteEventSubscription(input: {id: $sub}) { eventSubscription { id } userErrors { code message path } } }`,
		"enableEventSubscription":  `mutation ($sub: ID!) { enableEventSubscription(input: {id: $sub}) { eventSubscription { id } userErrors { code message path } } }`,
		"disableEventSubscription": `mutation ($sub: ID!) { disableEventSubscription(input: {id: $sub}) { eventSubscription { id } userErrors { code message path } } }`,
		"sendTestEvent":            `mutation ($sub: ID!) { sendTestEvent(input: {id: $sub}) { delivery { id } userErrors { code message path } } }`,
		"rotateSigningSecret":      `mutation ($dst: ID!) { rotateSigningSecret(input: {id: $dst}) { signingSecret userErrors { code message path } } }`,
		"rotate by subscription":   `mutation ($sub: ID!) { rotateSigningSecret(input: {id: $sub}) { signingSecret userErrors { code message path } } }`,
		"revokeSigningSecret":      `mutation ($dst: ID!) { revokeSigningSecret(input: {id: $dst, version: 1}) { signingSecret userErrors { code message path } } }`,
		"enableDestination":        `mutation ($dst: ID!) { enableDestination(input: {id: $dst}) { destination { id } userErrors { code message path } } }`,
		"verifyEventSubscription":  `mutation ($sub: ID!) { verifyEventSubscription(input: {id: $sub}) { eventSubscription { id } userErrors { code message path } } }`,
		"all eventSubscriptions":   `{ eventSubscriptions ` + page + ` }`,
		"all events":               `{ events ` + page + ` }`,
		"all deliveries":           `{ deliveries ` + page + ` }`,
		"all dead deliveries":      `{ deliveries(filter: {state: DEAD}) ` + page + ` }`,
		"node of quarantined":      `query ($qrn: ID!) { node(id: $qrn) { id } }`,
		"node of observation":      `query ($dlq: ID!) { node(id: $dlq) { id } }`,
		"explainMatch":             `query ($evt: ID!, $sub: ID!) { explainMatch(eventId: $evt, eventSubscriptionId: $sub) { matched summary } }`,
		"quarantinedRecords":       `{ quarantinedRecords ` + page + ` }`,
		"dlqObservations":          `query ($tenant: String) { dlqObservations(filter: {tenantId: $tenant}) ` + page + ` }`,
		"all dlqObservations":      `{ dlqObservations ` + page + ` }`,
		"readmit":                  `mutation ($qrn: ID!) { readmitQuarantinedRecords(input: {ids: [$qrn]}) { records { id } userErrors { code } } }`,
		"deliveries with platform": `query ($tenant: String, $evt: ID!) { deliveries(filter: {tenantId: $tenant, eventId: $evt}) ` + page + ` }`,
	}
	ask := func(query string, ids map[string]string) string {
		variables := map[string]any{"key": newID().String()}
		for k, v := range ids {
			variables[k] = v
		}
		a := w.ask(stranger, query, variables)
		if code := a.code(); code != "" && code != "FORBIDDEN" {
			t.Errorf("%s: %+v", query, a.Errors)
		}
		return fmt.Sprint(a.Data, a.code())
	}
	for name, query := range queries {
		t.Run(name, func(t *testing.T) {
			a, b := ask(query, foreign), ask(query, missing)
			if a != b {
				t.Errorf("foreign %s\nmissing %s", a, b)
			}
			for _, id := range []string{foreign["sub"], foreign["evt"], foreign["dlv"], foreign["dst"], foreign["qrn"], foreign["dlq"]} {
				if a != b || strings.Contains(a, id) {
					t.Errorf("the answer shows %s: %s", id, a)
				}
			}
		})
	}
	t.Run("the_owner_sees_it", func(t *testing.T) {
		a := w.must(w.token("acme", hub.Viewer), queries["node"], map[string]any{"dlv": foreign["dlv"]})
		if a.at("node", "id") != foreign["dlv"] {
			t.Errorf("%v", a.Data)
		}
	})
	t.Run("explainMatch_across_tenants_is_nothing", func(t *testing.T) {
		own, ownDest := w.subscriptionOf("stranger")
		mine := w.deliver("stranger", own, ownDest)
		for name, v := range map[string]map[string]any{
			"foreign_event":        {"evt": foreign["evt"], "sub": gid("sub_", own)},
			"foreign_subscription": {"evt": gid("evt_", mine.Event.ID), "sub": foreign["sub"]},
		} {
			if a := w.must(stranger, queries["explainMatch"], v); a.at("explainMatch") != nil {
				t.Errorf("%s: %v", name, a.Data)
			}
		}
	})
	t.Run("a_tenant_may_not_see_quarantine_and_is_told_why", func(t *testing.T) {
		for _, name := range []string{"quarantinedRecords", "readmit"} {
			a := w.ask(stranger, queries[name], map[string]any{"qrn": foreign["qrn"]})
			if a.code() != "FORBIDDEN" || !strings.Contains(a.Errors[0].Message, "needs scope PLATFORM") {
				t.Errorf("%s: %+v", name, a.Errors)
			}
		}
		acme := w.token("acme", hub.Admin) // whom the record claims
		if a := w.must(acme, queries["node of quarantined"], map[string]any{"qrn": foreign["qrn"]}); a.at("node") != nil {
			t.Errorf("%v", a.Data)
		}
	})
}
