package controlplane

import (
	"testing"
	"time"

	"github.com/streaming-hub/streaming-hub/hub"
	"github.com/streaming-hub/streaming-hub/hub/match"
)

func TestExplainMatch(t *testing.T) {
	now := time.Date(2026, 1, 31, 12, 4, 0, 0, time.UTC)
	event := hub.Event{Tenant: "acme", Source: "lender", ResourceType: "loan", EventType: "approved", SchemaMajor: 1, ReceivedAt: now.Add(-time.Hour)}
	major := int32(2)
	for _, c := range []struct {
		name     string
		change   func(*hub.EventSubscription)
		delivery *hub.Standing
		want     string
	}{
		{"matched", nil, &hub.Standing{State: hub.Delivered}, "it matched: all 6 clauses hold, and its delivery is DELIVERED"},
		{"pull", func(s *hub.EventSubscription) { s.Kind = hub.SinkPull }, nil,
			"it matches: all 6 clauses hold; a PULL subscription gets no deliveries, its tenant reads the event itself"},
		{"became_deliverable_later", func(s *hub.EventSubscription) { s.UpdatedAt = now.Add(-time.Minute) }, nil,
			"it would match now; it was stored before the subscription became deliverable, so it has no delivery: the event was stored at 11:04:00 UTC, " +
				"the subscription was made at 10:04:00 UTC and last changed at 12:03:00 UTC"},
		{"delivery_is_gone", nil, nil,
			"it would match now; there is no delivery, so it was stored before the subscription became deliverable, or its delivery is past its retention"},
		{"matched_then_and_not_now", func(s *hub.EventSubscription) { s.Enabled, s.DisabledBy = false, hub.DisabledByUser }, &hub.Standing{State: hub.Held},
			"it matched when it was stored, and its delivery is HELD; it would not match now: the subscription is disabled by USER"},
		{"tenant", func(s *hub.EventSubscription) { s.Tenant = "beta" }, nil, "it did not match: the event belongs to tenant acme, the subscription to beta"},
		{"verification", func(s *hub.EventSubscription) { s.VerificationState = hub.VerificationPending }, nil,
			"it did not match: the subscription is not verified, its state is PENDING"},
		{"origin", func(s *hub.EventSubscription) { s.Origin = "billing" }, nil,
			"it did not match: the subscription takes events of source billing only, and this one is of lender"},
		{"event_type_and_more", func(s *hub.EventSubscription) { s.EventTypes, s.SchemaMajor = []string{"loan.paid", "card.*"}, &major }, nil,
			"it did not match: the subscription's event types (loan.paid, card.*) do not cover loan.approved (schema_major would fail as well)"},
		{"schema_major", func(s *hub.EventSubscription) { s.SchemaMajor = &major }, nil,
			"it did not match: the subscription takes schema major 2 only, and this event has 1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			sub := hub.EventSubscription{
				Tenant: "acme", Enabled: true, VerificationState: hub.VerificationActive, EventTypes: []string{"*"}, Kind: hub.SinkWebhook,
				CreatedAt: now.Add(-2 * time.Hour), UpdatedAt: now.Add(-2 * time.Hour),
			}
			if c.change != nil {
				c.change(&sub)
			}
			if got := ExplainMatch(now, &event, &sub, match.Explain(&event, &sub), c.delivery); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}
