package controlplane

import (
	"io"
	"time"

	"github.com/streaming-hub/streaming-hub/db"
	"github.com/streaming-hub/streaming-hub/hub"
)

// Names of actions in the audit log; they are stored and never change.
const (
	auditCreateSubscription  = "create_event_subscription"
	auditUpdateSubscription  = "update_event_subscription"
	auditDeleteSubscription  = "delete_event_subscription"
	auditEnableSubscription  = "enable_event_subscription"
	auditDisableSubscription = "disable_event_subscription"
	auditVerifySubscription  = "verify_event_subscription"
	auditSendTest            = "send_test_event"
	auditRotateSecret        = "rotate_signing_secret"
	auditRevokeSecret        = "revoke_signing_secret"
	auditEnableDestination   = "enable_destination"
	auditReadmit             = "readmit_quarantined_record"
	auditRedeliver           = "redeliver"
	auditDiscard             = "discard_dead_letter"
	auditPreviewReplay       = "preview_replay"
	auditStartReplay         = "start_replay"
	auditPauseReplay         = "pause_replay"
	auditResumeReplay        = "resume_replay"
	auditCancelReplay        = "cancel_replay"
	auditPreviewBackfill     = "preview_backfill"
	auditStartBackfill       = "start_backfill"
	auditCreateToken         = "create_api_token"
	auditRevokeToken         = "revoke_api_token"
)

// auditEntry is an entry of the audit log for an action of the actor.
func (a Actor) auditEntry(now time.Time, random io.Reader, tenant hub.TenantID, action, object string, before, after any) db.AuditEntry {
	return db.AuditEntry{
		ID: hub.NewID(now, random), Tenant: tenant, Actor: a.Token, ActorName: a.Name,
		Action: action, Object: object, Before: before, After: after,
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
}

func runOf(s *hub.Standing) auditedRun {
	return auditedRun{State: s.State, DeadReason: s.DeadReason, Run: s.Run, Attempts: s.Attempts}
}
