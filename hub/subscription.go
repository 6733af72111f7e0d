package hub

import "time"

// EventSubscription is a tenant's wish: which events go to which destination.
type EventSubscription struct {
	ID          SubscriptionID
	Tenant      TenantID
	Name        string
	Description string
	CreatedAt   time.Time
	UpdatedAt   time.Time
	Version     int32 // grows with each change; an update names the one it saw

	Origin      string   // a source, or "" for any
	EventTypes  []string // ≥ 1 of: exact key, <resource>.*, *
	SchemaMajor *int32   // nil for any

	Destination DestinationID
	Kind        SinkKind

	Enabled           bool
	DisabledBy        DisabledBy
	DisabledReason    string
	DisabledAt        time.Time
	VerificationState VerificationState
	VerificationError string // what the last failed probe saw, "" otherwise

	RetryPolicy RetryPolicy
	Timeout     time.Duration // whole attempt with body; 1–30 s, default 15 s
	// Headers are sent with each attempt, after the hub's own, which none of
	// them may override.
	Headers []Header
	// DisableOnGone disables the subscription when the receiver answers 410.
	DisableOnGone bool

	DeletedAt time.Time // zero while it exists
}

// Deliverable reports whether matching admits the subscription at all. The
// conditions are independent and all are needed.
func (s *EventSubscription) Deliverable() bool {
	return s.Enabled && s.VerificationState == VerificationActive && s.DeletedAt.IsZero()
}

// SinkKind is how a destination gets its events.
type SinkKind string

const (
	SinkWebhook SinkKind = "WEBHOOK"
	// SinkPull makes no deliveries: the subscription is a saved filter.
	SinkPull SinkKind = "PULL"
)

// VerificationState says whether the destination proved that it wants events.
type VerificationState string

const (
	VerificationPending VerificationState = "PENDING"
	VerificationActive  VerificationState = "ACTIVE"
	VerificationFailed  VerificationState = "FAILED"
)

// DisabledBy says who switched a subscription off; "" while it is enabled.
type DisabledBy string

const (
	DisabledByUser DisabledBy = "USER"
	DisabledByAuto DisabledBy = "AUTO"
)

// Timeouts of one attempt, response body included.
const (
	MinTimeout     = 1 * time.Second
	DefaultTimeout = 15 * time.Second
	MaxTimeout     = 30 * time.Second
)

// RetryKind names a family of retry policies.
type RetryKind string

const (
	RetryCurve       RetryKind = "CURVE"
	RetrySchedule    RetryKind = "SCHEDULE"
	RetryExponential RetryKind = "EXPONENTIAL"
)

// RetryPolicy is a subscription's wish for the waits between attempts. It is
// stored as JSON; package retry gives it meaning. The zero value is CURVE.
type RetryPolicy struct {
	Kind RetryKind `json:"kind"`
	// StepsMillis are the waits before attempts 1…N of a SCHEDULE: 1–12
	// steps of 0–36 000 000 ms each.
	StepsMillis []int64 `json:"stepsMillis,omitempty"`
	// UnitMillis and Attempts belong to EXPONENTIAL: the wait after failed
	// attempt k is (2^k − 1) × unit. Preset workfront: 84 800 ms, 11 attempts.
	UnitMillis int64 `json:"unitMillis,omitempty"`
	Attempts   int32 `json:"attempts,omitempty"`
	// Elapsed reads the formula as time since the first failure.
	Elapsed bool `json:"elapsed,omitempty"`
}
