package hub

import "time"

// Observation is a record that a producer or a consumer of facts wrote to its
// own dead-letter topic. The hub keeps it for sight only: nothing in it is
// trusted, and it never becomes a delivery. Every text is storable, cut and
// cleaned; what the record does not say is "" or nil.
type Observation struct {
	ID         ID
	Writer     DLQWriter
	Record     RecordPosition // in the dead-letter topic
	ObservedAt time.Time

	Tenant     TenantID    // as the record claims it, if it names a possible one
	Attributes []Attribute // the ce- attributes, sorted by name
	// AttributesCut says that not all of them, or not the whole of them, are
	// kept.
	AttributesCut bool

	SourceTopic    string
	ErrorClass     string
	ErrorMessage   string // may hold personal data: for admins only
	RetryCount     *int32
	FirstFailureAt time.Time // zero when absent or no time
	ProducerID     string

	SourcePartition *int32 // these three by consumers only
	SourceOffset    *int64
	CauseKind       string // codec, handler, source_mismatch or unhandled_key

	PayloadOmitted *bool
	PayloadBytes   *int64

	// BodyBytes is the size of the record's value, KeptBytes of the part of it
	// that is stored.
	BodyBytes, KeptBytes int32
}

// DLQWriter says who wrote to a dead-letter topic.
type DLQWriter string

const (
	// WriterProducer could not publish a fact.
	WriterProducer DLQWriter = "PRODUCER"
	// WriterConsumer could not handle a fact that was published.
	WriterConsumer DLQWriter = "CONSUMER"
)
