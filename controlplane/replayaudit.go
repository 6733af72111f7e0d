package controlplane

import (
	"encoding/hex"
	"time"

	"github.com/streaming-hub/streaming-hub/hub"
)

// auditedJob is a replay job as the audit log keeps it. What it is about stands
// in the entry of its making only.
type auditedJob struct {
	Kind              hub.JobKind    `json:"kind"`
	State             hub.JobState   `json:"state"`
	Version           int32          `json:"version"`
	RatePerSecond     int32          `json:"ratePerSecond"`
	Canary            int32          `json:"canary"`
	PauseAbovePercent int32          `json:"pauseAbovePercent"`
	Total             int64          `json:"total"`
	Released          int64          `json:"released"`
	PausedBy          hub.DisabledBy `json:"pausedBy,omitempty"`
	Reason            string         `json:"reason,omitempty"`
	Filter            *auditedFilter `json:"filter,omitempty"`
	Range             *auditedRange  `json:"range,omitempty"`
}

type auditedFilter struct {
	Named         int              `json:"namedDeliveries,omitempty"` // the job has their ids
	Subscription  string           `json:"eventSubscriptionId,omitempty"`
	Destination   string           `json:"destinationId,omitempty"`
	EventType     string           `json:"eventType,omitempty"`
	States        []hub.State      `json:"states,omitempty"`
	Reasons       []hub.DeadReason `json:"reason,omitempty"`
	Fingerprint   string           `json:"fingerprint,omitempty"`
	CreatedAfter  time.Time        `json:"createdAfter,omitzero"`
	CreatedBefore time.Time        `json:"createdBefore,omitzero"`
	EndedAfter    time.Time        `json:"endedAfter,omitzero"`
	EndedBefore   time.Time        `json:"endedBefore,omitzero"`
}

type auditedRange struct {
	Subscription   string    `json:"eventSubscriptionId"`
	FirstSeq       int64     `json:"firstSeq,omitempty"`
	LastSeq        int64     `json:"lastSeq,omitempty"`
	ReceivedAfter  time.Time `json:"receivedAfter,omitzero"`
	ReceivedBefore time.Time `json:"receivedBefore,omitzero"`
}

func jobForAudit(j *hub.ReplayJob) auditedJob {
	v := auditedJob{
		Kind: j.Kind, State: j.State, Version: j.Version,
		RatePerSecond: j.Pace.RatePerSecond, Canary: j.Pace.Canary, PauseAbovePercent: j.Pace.PauseAbovePercent,
		Total: j.Total, Released: j.Released, PausedBy: j.PausedBy, Reason: j.Reason,
	}
	switch {
	case j.State != hub.JobPreviewing:
	case j.Kind == hub.JobBackfill:
		r := &j.Range
		v.Range = &auditedRange{
			Subscription: GlobalID(SubscriptionIDs, r.Subscription.ID), FirstSeq: r.FirstSeq, LastSeq: r.LastSeq,
			ReceivedAfter: r.ReceivedAfter, ReceivedBefore: r.ReceivedBefore,
		}
	default:
		f := &j.Filter
		v.Filter = &auditedFilter{
			Named: len(f.Deliveries), EventType: f.EventType, States: f.States, Reasons: f.Reasons,
			Fingerprint: hex.EncodeToString(f.Fingerprint), CreatedAfter: f.CreatedAfter, CreatedBefore: f.CreatedBefore,
			EndedAfter: f.EndedAfter, EndedBefore: f.EndedBefore,
		}
		if !f.Subscription.IsZero() {
			v.Filter.Subscription = GlobalID(SubscriptionIDs, f.Subscription.ID)
		}
		if !f.Destination.IsZero() {
			v.Filter.Destination = GlobalID(DestinationIDs, f.Destination.ID)
		}
	}
	return v
}
