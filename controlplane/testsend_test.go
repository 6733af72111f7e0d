package controlplane_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/streaming-hub/streaming-hub/controlplane"
	"github.com/streaming-hub/streaming-hub/hub"
)

func TestSendTest(t *testing.T) {
	o := newOffice(t)
	made := o.create(wish("https://a.example/hook")).Subscription // neither verified …
	if _, _, err := o.Disable(t.Context(), acme, made.ID, "no"); err != nil {
		t.Fatal(err) // … nor enabled
	}
	before, version := o.read(made.ID), o.configVersion()
	standing, mistakes, err := o.SendTest(t.Context(), acme, made.ID, "")
	if err != nil || mistakes != nil || standing.State != hub.Waiting || standing.Subscription != made.ID || standing.Destination != made.Destination {
		t.Fatalf("%+v %v %v", standing, mistakes, err)
	}
	if now := o.read(made.ID); now.Enabled || now.Version != before.Version || !now.UpdatedAt.Equal(before.UpdatedAt) || o.configVersion() != version {
		t.Errorf("it changed the subscription: %+v", now)
	}
	o.wantChores("no_chore")
	if n := o.count(`SELECT count(*) FROM delivery_queue WHERE id = $1 AND test AND due_at <= now() AND last_at <= now() AND leased_until IS NULL AND attempts = 0 AND body_bytes > 0`,
		standing.Delivery.ID.String()); n != 1 {
		t.Error("it is not due at once as a test with one attempt")
	}
	heads, err := o.DB.EventHeadsByID(t.Context(), []hub.EventID{standing.Event})
	if err != nil || len(heads) != 1 {
		t.Fatal(heads, err)
	}
	event := heads[0].Event
	if event.CEType != "studio.lerian.hub.subscription.test" || event.Key() != "subscription.test" || event.Seq != 0 || event.Source != "hub" ||
		len(event.Extensions) != 1 || event.Extensions[0] != (hub.Attribute{Name: "hubtest", Value: "true"}) {
		t.Errorf("event %+v", event)
	}
	bodies, err := o.DB.EventBodies(t.Context(), []hub.EventID{standing.Event})
	var body struct {
		Test                bool
		Message             string
		EventSubscriptionID string
	}
	if err != nil || json.Unmarshal(bodies[standing.Event], &body) != nil || !body.Test || !strings.Contains(body.Message, "test event") ||
		body.EventSubscriptionID != controlplane.GlobalID(controlplane.SubscriptionIDs, made.ID.ID) {
		t.Errorf("body %s, %v", bodies[standing.Event], err)
	}
	t.Run("is_in_no_list_of_events", func(t *testing.T) {
		if page, err := o.DB.EventPageOfTenant(t.Context(), "acme", controlplane.NewestSeq, 10); err != nil || len(page.Events) != 0 {
			t.Errorf("the tenant's list: %+v, %v", page.Events, err)
		}
		if page, err := o.DB.EventPage(t.Context(), controlplane.Newest, 10); err != nil || len(page.Events) != 0 {
			t.Errorf("the list of all: %+v, %v", page.Events, err)
		}
	})
	t.Run("takes_no_number_of_the_tenant", func(t *testing.T) {
		if n := o.count(`SELECT next_seq FROM tenant_counters WHERE tenant_id = 'acme'`); n != 1 {
			t.Errorf("next seq %d", n)
		}
	})
	t.Run("has_an_audit_entry", func(t *testing.T) {
		if list := o.audited("send_test_event"); len(list) != 1 || !strings.Contains(list[0], `"eventType":"subscription.test"`) {
			t.Errorf("%v", list)
		}
	})
	t.Run("has_the_type_that_is_asked_for", func(t *testing.T) {
		o.TypePrefix = "com.example"
		standing, mistakes, err := o.SendTest(t.Context(), acme, made.ID, "loan.approved")
		if err != nil || mistakes != nil {
			t.Fatal(mistakes, err)
		}
		heads, err := o.DB.EventHeadsByID(t.Context(), []hub.EventID{standing.Event})
		if err != nil || heads[0].Event.CEType != "com.example.hub.loan.approved" || heads[0].Event.Key() != "loan.approved" {
			t.Errorf("%+v, %v", heads, err)
		}
	})
	t.Run("is_not_delivered_again", func(t *testing.T) {
		o.exec(`DELETE FROM delivery_queue`)
		o.exec(`UPDATE event_subscriptions SET enabled = true, disabled_by = NULL, verification_state = 'ACTIVE'`)
		again := &controlplane.Redelivery{DB: o.DB, Now: o.Now, Random: o.Random}
		_, mistakes, err := again.Begin(t.Context(), acme, controlplane.GlobalID(controlplane.DeliveryIDs, standing.Delivery.ID.ID), false)
		if err != nil || told(mistakes) != "INVALID id" || !strings.Contains(mistakes[0].Message, "test") {
			t.Errorf("%v, %v", mistakes, err)
		}
	})
}

func TestSendTest_refusals(t *testing.T) {
	o := newOffice(t)
	made := o.create(wish("https://a.example/hook")).Subscription
	pull := wish("")
	pull.Kind = hub.SinkPull
	foreign := acme
	foreign.Tenant = "bolt"
	for _, row := range []struct {
		rule      string
		actor     controlplane.Actor
		id        hub.SubscriptionID
		eventType string
		want      string
	}{
		{"type_without_dot", acme, made.ID, "loan", "INVALID eventType"},
		{"pattern", acme, made.ID, "loan.*", "INVALID eventType"},
		{"everything", acme, made.ID, "*", "INVALID eventType"},
		{"pull", acme, o.create(pull).Subscription.ID, "", "INVALID id"},
		{"another_tenant", foreign, made.ID, "", "NOT_FOUND id"},
		{"unknown", acme, hub.SubscriptionID{ID: id()}, "", "NOT_FOUND id"},
	} {
		t.Run(row.rule, func(t *testing.T) {
			if _, mistakes, err := o.SendTest(t.Context(), row.actor, row.id, row.eventType); err != nil || told(mistakes) != row.want {
				t.Errorf("%s, %v; want %s", told(mistakes), err, row.want)
			}
		})
	}
	if n := o.count(`SELECT count(*) FROM delivery_queue`); n != 0 {
		t.Errorf("%d deliveries were queued", n)
	}
}
