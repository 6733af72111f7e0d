package hub

import "time"

// QuarantinedRecord is a Kafka record that the hub could not accept, without
// its headers and body.
type QuarantinedRecord struct {
	ID         ID
	Reason     string // as wire.Reason
	Record     RecordPosition
	ReceivedAt time.Time
	// BodyBytes is the size of the record's value, KeptBytes of the part of it
	// that is stored.
	BodyBytes, KeptBytes int32

	// ReadmitRequestedAt is when an operator asked for it to be judged again;
	// zero while nothing is asked.
	ReadmitRequestedAt time.Time
	// ReadmittedAt is when that succeeded; zero while it has not.
	ReadmittedAt time.Time
	// ReadmitResult says what the last re-admission came to; "" before one.
	ReadmitResult string
}
