package hub

import "time"

// Event is one accepted CloudEvent. Every string is what the producer wrote,
// never re-encoded; an absent optional attribute is "".
type Event struct {
	ID     EventID
	Tenant TenantID
	// Seq counts the tenant's events from 1 without gaps, in commit order.
	// It is 0 until the event is stored.
	Seq int64

	CEID          string // ce-id, 1–256 bytes
	Source        string // ce-source, the producing application
	CEType        string // ce-type, <type prefix>.<source>.<resource>.<event>
	ResourceType  string // ce-resourcetype
	EventType     string // ce-eventtype
	SchemaVersion string // ce-schemaversion as written: 1, v1, 1.0, v1.0.0 …
	SchemaMajor   int32  // its major, the part that is matched on
	Time          string // ce-time as written, RFC 3339

	Subject     string
	ContentType string // datacontenttype, else the record's content-type header
	DataSchema  string
	Extensions  []Attribute // other ce- attributes, sorted by name

	TraceParent string // W3C trace context of the producer
	TraceState  string

	Record     RecordPosition
	ReceivedAt time.Time

	// Body is the record's value, delivered byte for byte. Null and empty
	// are the same.
	Body []byte
}

// Attribute is a CloudEvents extension attribute.
type Attribute struct {
	Name  string `json:"n"`
	Value string `json:"v"`
}

// RecordPosition says where in Kafka a record stands.
type RecordPosition struct {
	Topic     string
	Partition int32
	Offset    int64
}

// Key is the event type key, <resource>.<event>: what subscriptions name and
// what the X-Lerian-Event-Type header carries. It names no producer.
func (e *Event) Key() string { return e.ResourceType + "." + e.EventType }
