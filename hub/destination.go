package hub

import "time"

// Destination is the endpoint of one tenant: sink kind, canonical URL and
// signing secret. It is unique per (tenant, kind, URL); several subscriptions
// may share one, and with it the secret, the circuit breaker and the health.
type Destination struct {
	ID        DestinationID
	Tenant    TenantID
	Kind      SinkKind
	URL       string // canonical ASCII, see package address; "" for pull
	CreatedAt time.Time
	Version   int32 // grows with each change of what stands below

	// RateLimit is attempts per second and MaxInFlight attempts under way at a
	// time, both of all replicas together; 0 for no limit.
	RateLimit   int32
	MaxInFlight int32

	FailurePolicy FailurePolicy
}

// Bounds of a destination's limits.
const (
	MaxRateLimit   = 10_000 // attempts per second
	MaxMaxInFlight = 1_000  // attempts
)

// Limited reports whether replicas have to share out what they start.
func (d *Destination) Limited() bool { return d.RateLimit > 0 || d.MaxInFlight > 0 }

// FailureKind names a failure policy.
type FailureKind string

const (
	// FailureSpan judges each subscription by how long it has failed.
	FailureSpan FailureKind = "FAILURE_SPAN"
	// FailureRate judges the destination by how many attempts fail.
	FailureRate FailureKind = "FAILURE_RATE"
)

// FailurePolicy is when a destination that stays broken is switched off. It is
// stored as JSON; package health gives it meaning. The zero value is
// FAILURE_SPAN. Thresholds belong to FAILURE_RATE; 0 takes that of the preset
// workfront.
type FailurePolicy struct {
	Kind FailureKind `json:"kind"`
	// Percent of more than MinAttempts attempts, or DisableRow failures in a
	// row, disable.
	Percent     int64 `json:"percent,omitempty"`
	MinAttempts int64 `json:"minAttempts,omitempty"`
	DisableRow  int64 `json:"disableRow,omitempty"`
	// More than FreezeRow failures in a row freeze when the last success is
	// older than FreezeAgeMillis; FreezeAnyRow do at any age.
	FreezeRow       int64 `json:"freezeRow,omitempty"`
	FreezeAgeMillis int64 `json:"freezeAgeMillis,omitempty"`
	FreezeAnyRow    int64 `json:"freezeAnyRow,omitempty"`
	// TryEveryMillis is the wait between two tries while disabled.
	TryEveryMillis int64 `json:"tryEveryMillis,omitempty"`
}
