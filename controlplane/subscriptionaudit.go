package controlplane

import (
	"encoding/json"
	"fmt"
	"reflect"
	"time"

	"github.com/streaming-hub/streaming-hub/db"
	"github.com/streaming-hub/streaming-hub/hub"
)

// auditedSubscription is an event subscription with its destination as the
// audit log keeps it. No secret is in it.
type auditedSubscription struct {
	Name          string             `json:"name"`
	Description   string             `json:"description,omitempty"`
	Origin        string             `json:"origin,omitempty"`
	EventTypes    []string           `json:"eventTypes"`
	SchemaMajor   *int32             `json:"schemaMajor,omitempty"`
	Destination   string             `json:"destination"`
	Kind          hub.SinkKind       `json:"kind"`
	URL           string             `json:"url,omitempty"`
	RetryPolicy   hub.RetryPolicy    `json:"retryPolicy"`
	TimeoutMS     int64              `json:"timeoutMs"`
	Headers       []hub.Header       `json:"headers,omitempty"`
	DisableOnGone bool               `json:"disableOnGone,omitempty"`
	RateLimit     int32              `json:"rateLimit,omitempty"`
	MaxInFlight   int32              `json:"maxInFlight,omitempty"`
	FailurePolicy *hub.FailurePolicy `json:"failurePolicy,omitempty"`
	Credential    string             `json:"credential,omitempty"`
	Certificate   string             `json:"clientCertificate,omitempty"`
	DeletedAt     *time.Time         `json:"deletedAt,omitempty"`
	auditedVerification
	DisabledReason string `json:"disabledReason,omitempty"`
}

// auditedVerification is what a verification can change.
type auditedVerification struct {
	VerificationState hub.VerificationState `json:"verificationState"`
	VerificationError string                `json:"verificationError,omitempty"`
	Enabled           bool                  `json:"enabled"`
	DisabledBy        hub.DisabledBy        `json:"disabledBy,omitempty"`
}

func verificationOf(s *hub.EventSubscription) auditedVerification {
	return auditedVerification{
		VerificationState: s.VerificationState, VerificationError: s.VerificationError, Enabled: s.Enabled, DisabledBy: s.DisabledBy,
	}
}

func auditedOf(s *hub.EventSubscription, d *db.DestinationState) auditedSubscription {
	v := auditedSubscription{
		Name: s.Name, Description: s.Description, Origin: s.Origin, EventTypes: s.EventTypes, SchemaMajor: s.SchemaMajor,
		Destination: GlobalID(DestinationIDs, s.Destination.ID), Kind: s.Kind,
		RetryPolicy: s.RetryPolicy, TimeoutMS: s.Timeout.Milliseconds(), Headers: s.Headers, DisableOnGone: s.DisableOnGone,
		auditedVerification: verificationOf(s), DisabledReason: s.DisabledReason,
	}
	if !s.DeletedAt.IsZero() {
		v.DeletedAt = &s.DeletedAt
	}
	if d == nil {
		return v
	}
	v.URL, v.RateLimit, v.MaxInFlight = d.Destination.URL, d.Destination.RateLimit, d.Destination.MaxInFlight
	if d.Destination.Kind == hub.SinkWebhook {
		v.FailurePolicy = &d.Destination.FailurePolicy
	}
	for _, c := range d.Credentials {
		text := fmt.Sprintf("%s, version %d", c.Credential.Kind, c.Credential.Version)
		if c.Credential.Kind.Slot() == hub.SlotCertificate {
			v.Certificate = text
		} else {
			v.Credential = text
		}
	}
	return v
}

func (s *Subscriptions) auditCreated(a Actor, now time.Time, url string) func(*hub.EventSubscription) db.AuditEntry {
	return func(made *hub.EventSubscription) db.AuditEntry {
		is := auditedOf(made, nil)
		is.URL = url
		return a.auditEntry(now, s.Random, made.Tenant, auditCreateSubscription, GlobalID(SubscriptionIDs, made.ID.ID), nil, is)
	}
}

// auditChanged tells exactly what a change changed.
func (s *Subscriptions) auditChanged(a Actor, now time.Time, action string) func(before, after db.Subscribed) db.AuditEntry {
	return func(before, after db.Subscribed) db.AuditEntry {
		was, is := changedFields(auditedOf(&before.Subscription, before.Destination), auditedOf(&after.Subscription, after.Destination))
		return a.auditEntry(now, s.Random, after.Subscription.Tenant, action, GlobalID(SubscriptionIDs, after.Subscription.ID.ID), was, is)
	}
}

// changedFields leaves of two values that encode as JSON objects the fields in
// which they differ.
func changedFields(before, after any) (was, is map[string]any) {
	was, is = fieldsOf(before), fieldsOf(after)
	for name, value := range was {
		if other, there := is[name]; there && reflect.DeepEqual(value, other) {
			delete(was, name)
			delete(is, name)
		}
	}
	return was, is
}

func fieldsOf(v any) map[string]any {
	fields := map[string]any{}
	raw, err := json.Marshal(v)
	if err == nil {
		err = json.Unmarshal(raw, &fields)
	}
	if err != nil {
		panic("controlplane: an audited value is no JSON object: " + err.Error())
	}
	return fields
}

func (s *Subscriptions) auditVerified(a Actor, now time.Time) func(before, after db.Subscribed) db.AuditEntry {
	return func(before, after db.Subscribed) db.AuditEntry {
		return a.auditEntry(now, s.Random, after.Subscription.Tenant, auditVerifySubscription, GlobalID(SubscriptionIDs, after.Subscription.ID.ID),
			verificationOf(&before.Subscription), verificationOf(&after.Subscription))
	}
}

// auditedKeys is what may be told of the signing secrets of a destination.
type auditedKeys struct {
	SigningKeys []auditedKey `json:"signingKeys"`
}

type auditedKey struct {
	Version int32      `json:"version"`
	EndsAt  *time.Time `json:"endsAt,omitempty"`
}

func auditedKeysOf(d *db.DestinationState) auditedKeys {
	v := auditedKeys{SigningKeys: []auditedKey{}}
	for _, k := range keysOf(d) {
		one := auditedKey{Version: k.Version}
		if !k.EndsAt.IsZero() {
			one.EndsAt = &k.EndsAt
		}
		v.SigningKeys = append(v.SigningKeys, one)
	}
	return v
}

// auditedHealth is where a destination stands under FAILURE_RATE.
type auditedHealth struct {
	State string `json:"state"`
}

// auditedTest is a test send.
type auditedTest struct {
	Delivery  string `json:"delivery"`
	EventType string `json:"eventType"`
}
