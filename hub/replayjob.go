package hub

import "time"

// JobID names a replay job.
type JobID struct{ ID }

// JobKind says what a replay job does with its items.
type JobKind string

const (
	// JobReplay gives settled deliveries a fresh run of their retry policy.
	JobReplay JobKind = "REPLAY"
	// JobBackfill makes deliveries of stored events that a subscription never
	// got one of.
	JobBackfill JobKind = "BACKFILL"
)

// JobState says where a replay job stands.
type JobState string

const (
	JobPreviewing JobState = "PREVIEWING" // its set is being frozen
	JobReady      JobState = "READY"      // previewed; waits to be started
	JobRunning    JobState = "RUNNING"
	JobPaused     JobState = "PAUSED"    // releases nothing; what was released goes on
	JobCompleted  JobState = "COMPLETED" // every item has its end
	JobCancelled  JobState = "CANCELLED" // releases nothing more; what was released goes on
	JobExpired    JobState = "EXPIRED"   // was never started
	JobFailed     JobState = "FAILED"    // its set cannot be frozen; Reason says why
)

// Ended reports whether the job releases nothing any more.
func (s JobState) Ended() bool {
	return s == JobCompleted || s == JobCancelled || s == JobExpired || s == JobFailed
}

// ItemState says where one delivery of a replay job stands.
type ItemState string

const (
	ItemPending   ItemState = "PENDING"
	ItemReleased  ItemState = "RELEASED" // in the queue, not tried yet
	ItemFailing   ItemState = "FAILING"  // tried, to be tried again
	ItemDelivered ItemState = "DELIVERED"
	ItemDead      ItemState = "DEAD"    // ended without success, or discarded
	ItemSkipped   ItemState = "SKIPPED" // not released; its note says why
)

// ReplayFilter says which settled deliveries a replay is about. Zero fields do
// not filter.
type ReplayFilter struct {
	// Deliveries names them one by one, at most 1 000; the other fields narrow
	// them down.
	Deliveries   []DeliveryID
	Subscription SubscriptionID
	Destination  DestinationID
	EventType    string // exact key, <resource>.* or *
	// States are those that are wanted, of DEAD, DELIVERED and DISCARDED; DEAD
	// alone when empty.
	States []State
	// Reasons and Fingerprint are of dead letters.
	Reasons     []DeadReason
	Fingerprint []byte
	// CreatedAfter is the first moment, CreatedBefore the first one that no
	// longer belongs in, by when deliveries were made; EndedAfter and
	// EndedBefore likewise, by when dead letters ended.
	CreatedAfter, CreatedBefore time.Time
	EndedAfter, EndedBefore     time.Time
}

// BackfillRange says which stored events of its tenant a subscription is to
// get: those that it wants and never got a delivery of. Zero bounds are open.
type BackfillRange struct {
	Subscription SubscriptionID
	// FirstSeq and LastSeq both belong in.
	FirstSeq, LastSeq int64
	// ReceivedAfter is the first moment, ReceivedBefore the first one that no
	// longer belongs in.
	ReceivedAfter, ReceivedBefore time.Time
}

// ReplayPace says how a replay job goes about its set.
type ReplayPace struct {
	RatePerSecond int32 // 1–10 000 items; the destinations' own limits hold as well
	// Canary is how many items go first, alone; the others follow when each of
	// them was tried. 0–10 000, 0 for none.
	Canary int32
	// PauseAbovePercent stops the job when more of the items that were tried
	// failed at first; 0–100, 100 for never.
	PauseAbovePercent int32
}

// ReplayJob is one replay or backfill: a frozen set of deliveries, how they are
// released, and what has become of them.
type ReplayJob struct {
	ID     JobID
	Tenant TenantID // empty when it goes over all tenants
	Kind   JobKind
	State  JobState
	// Version counts what people changed.
	Version int32

	Filter ReplayFilter  // of a replay
	Range  BackfillRange // of a backfill
	Pace   ReplayPace

	// The preview. Total is the number of items.
	Total int64
	// AlreadyDelivered are items that were delivered before.
	AlreadyDelivered int64
	// PossibleDuplicates are items whose receiver may have acted on an earlier
	// attempt: it answered with 2xx, or its answer was lost.
	PossibleDuplicates int64
	// Undeliverable are deliveries that the filter names and that are not
	// items, because their subscription takes none now or their event is past
	// its retention.
	Undeliverable int64
	Shares        []DestinationShare

	// The run. Released items went to the queue, Skipped ones did not: they
	// were not settled any more, or could not be delivered.
	Released, Skipped int64
	// Tried items had an outcome; Failed are those of them whose first one was
	// a failure. Delivered and Dead have their end.
	Tried, Failed, Delivered, Dead int64
	// PacedTo is up to when the rate is used up.
	PacedTo      time.Time
	CanaryPassed bool
	// JudgedTried and JudgedFailed were there when the job was last started or
	// resumed; they are judged no more.
	JudgedTried, JudgedFailed int64

	PausedBy DisabledBy // empty unless it is paused
	Reason   string     // of a pause, or of an end other than completion

	CreatedBy     TokenID
	CreatedByName string
	CreatedAt     time.Time
	PreviewedAt   time.Time
	StartedAt     time.Time
	FinishedAt    time.Time
}

// DestinationShare is how many items of a job go to one destination.
type DestinationShare struct {
	Destination DestinationID `json:"d"`
	Count       int64         `json:"n"`
}

// Pending is how many items have not been looked at yet.
func (j *ReplayJob) Pending() int64 { return j.Total - j.Released - j.Skipped }

// Open is how many released items have no end yet.
func (j *ReplayJob) Open() int64 { return j.Released - j.Delivered - j.Dead }
