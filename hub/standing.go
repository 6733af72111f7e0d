package hub

import "time"

// Standing is where a delivery stands, as queue and history tell it together.
// Of the embedded Delivery a settled one keeps ids, run and attempts only.
type Standing struct {
	Delivery
	State State
	// DeadReason belongs to Dead; LastError is the one-line failure that a
	// delivery without success ended with, "" otherwise.
	DeadReason DeadReason
	LastError  string
	// Fingerprint is the same for dead deliveries of one cause: 16 bytes, nil
	// unless Dead, and for ends before it was kept.
	Fingerprint []byte
	// NextAt is when the next attempt may start; zero unless Waiting.
	NextAt time.Time
	// FinishedAt is zero until the delivery is settled.
	FinishedAt time.Time
}

// CreatedAt is when the delivery was made, from its id.
func (s *Standing) CreatedAt() time.Time { return s.Delivery.ID.Time() }

// RecordedAttempt is an attempt as the history keeps it.
type RecordedAttempt struct {
	Attempt
	Delivery     DeliveryID
	Event        EventID
	Subscription SubscriptionID
	Destination  DestinationID
	Tenant       TenantID
	Run          int32
	Decision     Decision
}
