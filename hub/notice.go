package hub

import "time"

// Notice is something that happened to a destination or a subscription, other
// than an attempt: for the live feed, and for who is to be told.
type Notice struct {
	Kind         NoticeKind
	At           time.Time
	Tenant       TenantID
	Subscription SubscriptionID // zero when it concerns the whole destination
	Destination  DestinationID
	// Reason says in one sentence why.
	Reason string

	// Breaker is set for the kinds CIRCUIT_…, Span for SPAN_… and AUTO_…,
	// Replay for REPLAY_PROGRESS.
	Breaker *BreakerNotice
	Span    *SpanNotice
	Replay  *ReplayNotice
}

// NoticeKind says what happened.
type NoticeKind string

const (
	NoticeCircuitOpened   NoticeKind = "CIRCUIT_OPENED"
	NoticeCircuitHalfOpen NoticeKind = "CIRCUIT_HALF_OPEN" // a probe was let through
	NoticeCircuitClosed   NoticeKind = "CIRCUIT_CLOSED"

	NoticeSpanOpened  NoticeKind = "SPAN_OPENED"
	NoticeSpanMarked  NoticeKind = "SPAN_MARKED" // 50, 75 or 90 % of the way
	NoticeSpanCleared NoticeKind = "SPAN_CLEARED"

	// NoticeAutoDisabled: the hub switched a subscription (FAILURE_SPAN, 410)
	// or a destination (FAILURE_RATE) off.
	NoticeAutoDisabled NoticeKind = "AUTO_DISABLED"
	// NoticeWouldDisable: the kill switch kept it from that.
	NoticeWouldDisable  NoticeKind = "WOULD_DISABLE"
	NoticeFrozen        NoticeKind = "FROZEN"
	NoticeRecovered     NoticeKind = "RECOVERED"
	NoticeSecretRotated NoticeKind = "SECRET_ROTATED"

	// NoticeReplayProgress: a replay job has come further, or changed its state.
	NoticeReplayProgress NoticeKind = "REPLAY_PROGRESS"
)

// BreakerNotice is how the circuit stands after the notice.
type BreakerNotice struct {
	Phase       string // CLOSED, OPEN or HALF_OPEN
	Failures    int32  // in a row
	OpenedAt    time.Time
	NextProbeAt time.Time
}

// SpanNotice is how the failure span stands after the notice.
type SpanNotice struct {
	FirstFailureAt time.Time
	LastFailureAt  time.Time
	FailureCount   int64
	Mark           int       // the warning, in per cent of the window; 0 for none
	WouldTripAt    time.Time // zero for never
}

// ReplayNotice is how a replay job stands after the notice.
type ReplayNotice struct {
	Job                            JobID
	State                          JobState
	Total                          int64
	Released, Skipped              int64
	Tried, Failed, Delivered, Dead int64
}
