package hub

import "time"

// State says where a delivery stands.
type State string

const (
	Waiting   State = "WAITING"   // due now or later
	InFlight  State = "IN_FLIGHT" // a worker holds the lease
	Held      State = "HELD"      // kept back until its destination returns
	Delivered State = "DELIVERED" // answered with 200–299
	Dead      State = "DEAD"      // ended without success; DeadReason says why
	Discarded State = "DISCARDED" // an operator gave it up
)

// Settled reports whether nothing more happens by itself.
func (s State) Settled() bool { return s == Delivered || s == Dead || s == Discarded }

// DeadReason says why a delivery ended without success.
type DeadReason string

const (
	DeadExhausted           DeadReason = "EXHAUSTED"
	DeadExpired             DeadReason = "EXPIRED"
	DeadPoison              DeadReason = "POISON"
	DeadSubscriptionDeleted DeadReason = "SUBSCRIPTION_DELETED"
	DeadPayloadTooLarge     DeadReason = "PAYLOAD_TOO_LARGE"
	DeadDroppedFrozen       DeadReason = "DROPPED_FROZEN"
)

// Delivery is the open job of bringing one event to one subscription. A
// finished one is only its birth row and its attempts.
type Delivery struct {
	ID           DeliveryID
	Event        EventID
	Tenant       TenantID
	Subscription SubscriptionID
	Destination  DestinationID

	// Run counts the runs of the retry policy from 1; a replay begins the next.
	Run int32
	// Attempts already recorded, over all runs, and those of this run, which
	// the retry policy counts.
	Attempts    int32
	RunAttempts int32
	// ReceivedAt is when the hub stored the event; the age limit counts from it.
	ReceivedAt time.Time
	// FirstFailedAt is the start of the first failed try; zero before it.
	FirstFailedAt time.Time
	DueAt         time.Time
	// LastAt is from when on the next attempt is the last, by number or by age;
	// zero while nobody has said so. It is fixed when the attempt is scheduled.
	LastAt time.Time
	// Test marks a test send: outside health, circuit breaker and statistics.
	Test bool
	// Job is the replay job whose item this run is; zero for none.
	Job JobID
	// BodyBytes is the size of the event's body, so that a claim can keep to
	// its memory without reading it.
	BodyBytes int32
}
