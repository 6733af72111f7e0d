package wire

import (
	"encoding/json"
	"time"

	"github.com/streaming-hub/streaming-hub/hub"
)

// HubSource is the source of the hub's own events.
const HubSource = "hub"

// Operational is something that the hub tells of itself, as an event of the
// reserved tenant hub.HubTenant.
type Operational struct {
	// ID makes it unique: the same happening has the same ID however often it
	// is told.
	ID       string
	Resource string // event_subscription, destination or delivery
	Event    string // auto_disabled, recovered, frozen, secret_rotated, dead_lettered
	Subject  string // what it happened to
	At       time.Time
	Data     OperationalData
}

// OperationalData is the body: ids as UUIDs, times as RFC 3339, nothing of what
// does not apply.
type OperationalData struct {
	TenantID            hub.TenantID   `json:"tenantId"`
	EventSubscriptionID string         `json:"eventSubscriptionId,omitempty"`
	DestinationID       string         `json:"destinationId,omitempty"`
	DeliveryID          string         `json:"deliveryId,omitempty"`
	EventID             string         `json:"eventId,omitempty"`
	At                  string         `json:"at"`
	Reason              string         `json:"reason,omitempty"`
	DeadReason          hub.DeadReason `json:"deadReason,omitempty"`
	Attempts            int32          `json:"attempts,omitempty"`
	FirstFailureAt      string         `json:"firstFailureAt,omitempty"`
	LastFailureAt       string         `json:"lastFailureAt,omitempty"`
	FailureCount        int64          `json:"failureCount,omitempty"`
}

// OperationalOf is what a notice tells outside of the hub, and false for those
// that are for the live feed only. id is its own.
func OperationalOf(n *hub.Notice, id string) (Operational, bool) {
	o := Operational{ID: id, At: n.At, Resource: "destination", Subject: n.Destination.String()}
	o.Data = OperationalData{TenantID: n.Tenant, DestinationID: n.Destination.String(), Reason: n.Reason}
	if !n.Subscription.IsZero() {
		o.Resource, o.Subject = "event_subscription", n.Subscription.String()
		o.Data.EventSubscriptionID = n.Subscription.String()
	}
	if s := n.Span; s != nil {
		o.Data.FirstFailureAt, o.Data.LastFailureAt, o.Data.FailureCount = rfc3339(s.FirstFailureAt), rfc3339(s.LastFailureAt), s.FailureCount
	}
	switch n.Kind {
	case hub.NoticeAutoDisabled:
		o.Event = "auto_disabled"
	case hub.NoticeRecovered:
		o.Event = "recovered"
	case hub.NoticeFrozen:
		o.Event = "frozen"
	case hub.NoticeSecretRotated:
		o.Event = "secret_rotated"
	default:
		return Operational{}, false
	}
	return o, true
}

// Fact is the event, accepted and not yet stored.
func (o Operational) Fact(typePrefix string) hub.Event {
	o.Data.At = rfc3339(o.At)
	body, err := json.Marshal(o.Data)
	if err != nil {
		panic("wire: an operational event does not encode: " + err.Error()) // only strings and numbers
	}
	return hub.Event{
		Tenant: hub.HubTenant, CEID: o.ID, Source: HubSource, CEType: typePrefix + "." + HubSource + "." + o.Resource + "." + o.Event,
		ResourceType: o.Resource, EventType: o.Event, SchemaVersion: "1.0.0", SchemaMajor: 1,
		Time: rfc3339(o.At), Subject: o.Subject, ContentType: "application/json", Body: body,
	}
}

func rfc3339(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339Nano)
}
