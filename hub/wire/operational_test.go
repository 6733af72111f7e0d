package wire_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/streaming-hub/streaming-hub/hub"
	"github.com/streaming-hub/streaming-hub/hub/wire"
)

func TestOperationalOf(t *testing.T) {
	sub, dest := hub.SubscriptionID{ID: hub.ID{1}}, hub.DestinationID{ID: hub.ID{2}}
	for _, row := range []struct {
		name string
		kind hub.NoticeKind
		sub  hub.SubscriptionID
		want string // resource and event, "" for nothing
	}{
		{"subscription_disabled", hub.NoticeAutoDisabled, sub, "event_subscription.auto_disabled"},
		{"destination_disabled", hub.NoticeAutoDisabled, hub.SubscriptionID{}, "destination.auto_disabled"},
		{"subscription_recovered", hub.NoticeRecovered, sub, "event_subscription.recovered"},
		{"destination_recovered", hub.NoticeRecovered, hub.SubscriptionID{}, "destination.recovered"},
		{"frozen", hub.NoticeFrozen, hub.SubscriptionID{}, "destination.frozen"},
		{"rotated", hub.NoticeSecretRotated, hub.SubscriptionID{}, "destination.secret_rotated"},
		{"circuits_are_for_the_feed", hub.NoticeCircuitOpened, hub.SubscriptionID{}, ""},
		{"spans_are_for_the_feed", hub.NoticeSpanMarked, sub, ""},
		{"what_was_not_done_is_for_the_feed", hub.NoticeWouldDisable, sub, ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
			o, ok := wire.OperationalOf(&hub.Notice{
				Kind: row.kind, At: at, Tenant: "acme", Subscription: row.sub, Destination: dest, Reason: "it failed",
				Span: &hub.SpanNotice{FirstFailureAt: at.Add(-time.Hour), LastFailureAt: at, FailureCount: 3},
			}, "row-0")
			if ok != (row.want != "") {
				t.Fatalf("told: %v", ok)
			}
			if !ok {
				return
			}
			ev := o.Fact("studio.lerian")
			if ev.Key() != row.want || ev.CEType != "studio.lerian.hub."+row.want || ev.Tenant != hub.HubTenant || ev.Source != "hub" || ev.CEID != "row-0" {
				t.Errorf("event = %+v", ev)
			}
			var data map[string]any
			if err := json.Unmarshal(ev.Body, &data); err != nil {
				t.Fatal(err)
			}
			if data["tenantId"] != "acme" || data["destinationId"] != dest.String() || data["reason"] != "it failed" ||
				data["at"] != "2026-03-01T12:00:00Z" || data["failureCount"] != 3.0 {
				t.Errorf("data = %v", data)
			}
			if subject := ev.Subject; subject != dest.String() && subject != row.sub.String() {
				t.Errorf("subject = %s", subject)
			}
		})
	}
}

func TestHubTenant_is_beyond_what_a_record_can_name(t *testing.T) {
	if hub.HubTenant.Valid() {
		t.Errorf("%s is a possible tenant", hub.HubTenant)
	}
}
