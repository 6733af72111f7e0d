package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// hubTenant is the reserved tenant of the hub's own events.
const hubTenant = "_hub"

// TestOperationalEvents subscribes a webhook to what the hub tells of itself:
// what happens to another tenant arrives there once, as a signed event. Of the
// trouble of that webhook itself nothing is told, and no application can
// publish for the reserved tenant.
func TestOperationalEvents(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	defer cancel()
	d := newDesk(t, startDev(ctx, t, stateDir(t), "STREAMING_HUB_DEFAULT_RETRY_STEPS=0s,100ms",
		"STREAMING_HUB_AUTODISABLE_FAILURE_WINDOW=3s", "STREAMING_HUB_AUTODISABLE_FAILURE_SPREAD=1s").state)
	const ops, dies, fails = "/hooks/ops", "/hooks/dies", "/hooks/fails"

	t.Run("a_tenants_token_cannot_subscribe_to_it", func(t *testing.T) {
		tenant := *d
		tenant.token = d.st.TenantToken
		errs := tenant.try(ctx, t, "createEventSubscription", "", map[string]any{
			"tenantId": hubTenant, "name": "ops", "eventTypes": []string{"*"}, "destination": map[string]any{"url": d.st.ReceiverURL + ops},
		}, nil)
		if len(errs) != 1 || !strings.HasPrefix(errs[0], "TENANT_MISMATCH") {
			t.Errorf("it says %v", errs)
		}
	})

	// FAILURE_RATE keeps the short gates above away from this one.
	hook := d.subscribe(ctx, t, hubTenant, ops, map[string]any{"destination": map[string]any{
		"url": d.st.ReceiverURL + ops, "failurePolicy": map[string]any{"failureRate": map[string]any{}},
	}})
	dying := d.subscribe(ctx, t, "acme-1", dies, nil)
	failing := d.subscribe(ctx, t, "acme-2", fails, map[string]any{
		"retryPolicy": map[string]any{"exponential": map[string]any{"unit": "PT1S", "attempts": 20}}, // fails at 0, 1, 4 seconds
	})
	types := func() (list []string) {
		for _, r := range d.came(ctx, t, ops) {
			list = append(list, r.Headers.Get("X-Lerian-Event-Type"))
		}
		slices.Sort(list)
		return list
	}

	t.Run("what_happens_to_others_arrives_once_and_signed", func(t *testing.T) {
		script(ctx, t, d.st, dies, untried)
		script(ctx, t, d.st, fails, untried)
		d.publish(ctx, t, "acme-1", "dies")
		d.publish(ctx, t, "acme-2", "fails")
		d.do(ctx, t, "rotateSigningSecret", "", map[string]any{"id": dying.ID}, nil)
		dead := d.all(ctx, t, dying.ID, 1, "dead", in("DEAD"))[0]
		want := []string{"delivery.dead_lettered", "destination.secret_rotated", "event_subscription.auto_disabled"}
		eventually(ctx, t, func() bool { return len(types()) >= len(want) }, func() string { return fmt.Sprintf("came %v, want %v", types(), want) })
		quiet(ctx, t, 3*time.Second, func() bool { return slices.Equal(types(), want) }, func() string { return fmt.Sprintf("came %v, want %v", types(), want) })
		if now := d.sub(ctx, t, failing.ID); now.Enabled || now.DisabledBy != "AUTO" {
			t.Errorf("the failing subscription is %+v", now)
		}
		for _, r := range d.came(ctx, t, ops) {
			typ := r.Headers.Get("X-Lerian-Event-Type")
			var data struct{ TenantID, EventSubscriptionID, DestinationID, DeliveryID, DeadReason, At string }
			if err := json.Unmarshal(r.Body, &data); err != nil {
				t.Errorf("%s has the body %s: %v", typ, r.Body, err)
			}
			subject, tenant := uuidOf(data.EventSubscriptionID), "acme-2"
			switch typ {
			case "delivery.dead_lettered":
				subject, tenant = uuidOf(data.DeliveryID), "acme-1"
				if "dlv_"+subject != dead.ID || data.DeadReason != "EXHAUSTED" {
					t.Errorf("of delivery %s it tells %s", dead.ID, r.Body)
				}
			case "destination.secret_rotated":
				subject, tenant = uuidOf(data.DestinationID), "acme-1"
				if "dst_"+subject != dying.Destination.ID {
					t.Errorf("of destination %s it tells %s", dying.Destination.ID, r.Body)
				}
			case "event_subscription.auto_disabled":
				if "sub_"+subject != failing.ID {
					t.Errorf("of subscription %s it tells %s", failing.ID, r.Body)
				}
			}
			h := r.Headers
			if !r.Verified || data.TenantID != tenant || uuidOf(h.Get("Ce-Subject")) != subject || h.Get("X-Lerian-Tenant-Id") != hubTenant ||
				h.Get("Ce-Specversion") != "1.0" || h.Get("Ce-Source") != "hub" || h.Get("Ce-Type") != "studio.lerian.hub."+typ {
				t.Errorf("%s of %s, verified: %v, came with %v", typ, data.TenantID, r.Verified, h)
			}
			if _, err := time.Parse(time.RFC3339, data.At); err != nil {
				t.Errorf("%s happened at %q", typ, data.At)
			}
		}
	})

	t.Run("a_webhook_that_fails_feeds_nothing_to_itself", func(t *testing.T) {
		script(ctx, t, d.st, ops, untried)
		const trouble = 3
		before := len(d.came(ctx, t, ops))
		d.stored(ctx, t, hubTenant, before)
		for range trouble {
			d.do(ctx, t, "rotateSigningSecret", "", map[string]any{"id": dying.ID}, nil)
		}
		d.all(ctx, t, hook.ID, before+trouble, "dead or delivered", func(one stands) bool { return one.State == "DEAD" || one.State == "DELIVERED" })
		d.do(ctx, t, "rotateSigningSecret", "", map[string]any{"id": hook.ID}, nil) // nor of its own secret
		quiet(ctx, t, 10*time.Second, func() bool { return len(d.came(ctx, t, ops)) == before+2*trouble },
			func() string {
				return fmt.Sprintf("%d requests came of %d deliveries with 2 attempts each: %v", len(d.came(ctx, t, ops))-before, trouble, types())
			})
		d.stored(ctx, t, hubTenant, before+trouble)
	})

	t.Run("a_record_that_claims_to_be_of_the_hub_is_quarantined", func(t *testing.T) {
		d.publish(ctx, t, hubTenant, "impostor")
		var page struct {
			QuarantinedRecords struct{ Nodes []struct{ Reason string } }
		}
		eventually(ctx, t, func() bool {
			d.ask(ctx, t, `{ quarantinedRecords(filter: {ceId: "impostor"}) { nodes { reason } } }`, nil, &page)
			return len(page.QuarantinedRecords.Nodes) == 1
		}, func() string { return "the record is not in quarantine" })
		if reason := page.QuarantinedRecords.Nodes[0].Reason; reason != "invalid_attribute:tenantid" {
			t.Errorf("quarantined for %s", reason)
		}
	})
}

// uuidOf is a UUID as global ids write it.
func uuidOf(id string) string { return strings.ReplaceAll(id, "-", "") }
