package controlplane

import (
	"io"
	"time"

	"github.com/streaming-hub/streaming-hub/db"
	"github.com/streaming-hub/streaming-hub/hub"
)

// Names of actions in the audit log; they are stored and never change.
const (
	auditCreateSubscription = "create_event_subscription"
	auditVerifySubscription = "verify_event_subscription"
	auditReadmit            = "readmit_quarantined_record"
	auditRedeliver          = "redeliver"
)

// auditEntry is an entry of the audit log for an action of the actor.
func (a Actor) auditEntry(now time.Time, random io.Reader, tenant hub.TenantID, action, object string, before, after any) db.AuditEntry {
	return db.AuditEntry{
		ID: hub.NewID(now, random), Tenant: tenant, Actor: a.Token, ActorName: a.Name,
		Action: action, Object: object, Before: before, After: after,
	}
}

// auditedSubscription is an event subscription as the audit log keeps it.
type auditedSubscription struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Origin      string          `json:"origin,omitempty"`
	EventTypes  []string        `json:"eventTypes"`
	SchemaMajor *int32          `json:"schemaMajor,omitempty"`
	Destination string          `json:"destination"`
	Kind        hub.SinkKind    `json:"kind"`
	URL         string          `json:"url,omitempty"`
	RetryPolicy hub.RetryPolicy `json:"retryPolicy"`
	TimeoutMS   int64           `json:"timeoutMs"`
}

func (s *Subscriptions) auditCreated(a Actor, now time.Time, url string) func(*hub.EventSubscription) db.AuditEntry {
	return func(made *hub.EventSubscription) db.AuditEntry {
		return a.auditEntry(now, s.Random, made.Tenant, auditCreateSubscription, GlobalID(SubscriptionIDs, made.ID.ID), nil, auditedSubscription{
			Name: made.Name, Description: made.Description, Origin: made.Origin, EventTypes: made.EventTypes, SchemaMajor: made.SchemaMajor,
			Destination: GlobalID(DestinationIDs, made.Destination.ID), Kind: made.Kind, URL: url,
			RetryPolicy: made.RetryPolicy, TimeoutMS: made.Timeout.Milliseconds(),
		})
	}
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

func (s *Subscriptions) auditVerified(a Actor, now time.Time) func(before, after *hub.EventSubscription) db.AuditEntry {
	return func(before, after *hub.EventSubscription) db.AuditEntry {
		return a.auditEntry(now, s.Random, after.Tenant, auditVerifySubscription, GlobalID(SubscriptionIDs, after.ID.ID), verificationOf(before), verificationOf(after))
	}
}

// auditedReadmission is what a re-admission request changes.
type auditedReadmission struct {
	Reason      string     `json:"reason"`
	RequestedAt *time.Time `json:"readmitRequestedAt"`
	Result      string     `json:"readmitResult,omitempty"`
}

func readmissionOf(r *hub.QuarantinedRecord) auditedReadmission {
	v := auditedReadmission{Reason: r.Reason, Result: r.ReadmitResult}
	if !r.ReadmitRequestedAt.IsZero() {
		v.RequestedAt = &r.ReadmitRequestedAt
	}
	return v
}

// auditedRun is what beginning a run of a delivery changes.
type auditedRun struct {
	State      hub.State      `json:"state"`
	DeadReason hub.DeadReason `json:"deadReason,omitempty"`
	Run        int32          `json:"run"`
	Attempts   int32          `json:"attempts"`
	// IdempotencyKey is the caller's; repeated calls are found by it.
	IdempotencyKey string `json:"idempotencyKey,omitempty"`
}

func runOf(s *hub.Standing) auditedRun {
	return auditedRun{State: s.State, DeadReason: s.DeadReason, Run: s.Run, Attempts: s.Attempts}
}
