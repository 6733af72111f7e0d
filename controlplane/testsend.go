package controlplane

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/streaming-hub/streaming-hub/db"
	"github.com/streaming-hub/streaming-hub/hub"
	"github.com/streaming-hub/streaming-hub/hub/match"
	"github.com/streaming-hub/streaming-hub/hub/wire"
)

// ownSource is the source of events that the hub itself makes.
const ownSource = "hub"

// testExtension marks a test event among its CloudEvents attributes.
const testExtension = "hubtest"

// SendTest sends one synthetic event to a subscription, enabled and verified or
// not, and changes nothing of it. eventType is the key that the event is to
// have, "" for subscription.test. The delivery is recorded like any other, with
// one attempt, outside health, circuit breaker and statistics; its event is in
// no list and no feed.
func (s *Subscriptions) SendTest(ctx context.Context, a Actor, id hub.SubscriptionID, eventType string) (hub.Standing, []UserError, error) {
	if eventType == "" {
		eventType = "subscription.test"
	}
	if err := match.CheckPattern(eventType); err != nil || strings.Contains(eventType, "*") {
		return hub.Standing{}, []UserError{userError(Invalid, []string{"input", "eventType"}, "an event type is written <resource>.<event>")}, nil
	}
	sub, mistakes, err := s.find(ctx, a, id)
	if err != nil || mistakes != nil {
		return hub.Standing{}, mistakes, err
	}
	switch {
	case !sub.DeletedAt.IsZero():
		return hub.Standing{}, []UserError{noSubscription()}, nil
	case sub.Kind == hub.SinkPull:
		return hub.Standing{}, []UserError{userError(Invalid, []string{"input", "id"}, "nothing is sent to a PULL destination; read its events instead")}, nil
	}
	now := s.now()
	event := s.testEvent(&sub, eventType, now)
	delivery := hub.Delivery{
		ID: hub.DeliveryID{ID: hub.NewID(now, s.Random)}, Event: event.ID, Tenant: sub.Tenant, Subscription: sub.ID, Destination: sub.Destination,
	}
	standing, err := s.DB.SendTest(ctx, db.TestSend{
		Event: event, Delivery: delivery,
		Audit: a.auditEntry(now, s.Random, sub.Tenant, auditSendTest, GlobalID(SubscriptionIDs, sub.ID.ID), nil,
			auditedTest{Delivery: GlobalID(DeliveryIDs, delivery.ID.ID), EventType: eventType}),
	})
	return standing, nil, err
}

// testEvent says in its type, an attribute and its body that it is a test.
func (s *Subscriptions) testEvent(sub *hub.EventSubscription, eventType string, now time.Time) hub.Event {
	prefix := s.TypePrefix
	if prefix == "" {
		prefix = wire.DefaultTypePrefix
	}
	body, _ := json.Marshal(map[string]any{ // plain values always encode
		"test": true, "message": "This is a test event. Nothing happened; somebody asked the hub to send it.",
		"eventSubscriptionId": GlobalID(SubscriptionIDs, sub.ID.ID), "sentAt": now.Format(time.RFC3339Nano),
	})
	resource, kind, _ := strings.Cut(eventType, ".")
	event := hub.Event{
		ID: hub.EventID{ID: hub.NewID(now, s.Random)}, Tenant: sub.Tenant, Source: ownSource, CEType: prefix + "." + ownSource + "." + eventType,
		ResourceType: resource, EventType: kind, SchemaVersion: "1.0.0", SchemaMajor: 1,
		Time: now.Format(time.RFC3339Nano), ContentType: "application/json", ReceivedAt: now, Body: body,
		Extensions: []hub.Attribute{{Name: testExtension, Value: "true"}},
	}
	event.CEID = event.ID.String()
	return event
}
