package wire

// Kind is the verdict on a record.
type Kind uint8

const (
	// Accept stores the event and matches it.
	Accept Kind = iota + 1
	// Skip counts the record and stores nothing: a system event.
	Skip
	// Quarantine keeps the record beside the inbox with its Reason.
	Quarantine
)

// String is ACCEPT, SKIP or QUARANTINE.
func (k Kind) String() string {
	switch k {
	case Accept:
		return "ACCEPT"
	case Skip:
		return "SKIP"
	case Quarantine:
		return "QUARANTINE"
	default:
		return "UNKNOWN"
	}
}

// Reason says why a record was quarantined. The texts are a contract: they
// are stored, shown and counted.
type Reason string

const (
	// UnsupportedMode is a structured or batched CloudEvent.
	UnsupportedMode Reason = "unsupported_mode"
	// UnsupportedSpecVersion is a specversion other than 1.0.
	UnsupportedSpecVersion Reason = "unsupported_specversion"
	// SourceMismatch is a source that is not the topic's last segment.
	SourceMismatch Reason = "source_mismatch"
	// TypeMismatch is a type that its parts do not add up to.
	TypeMismatch Reason = "type_mismatch"
	// HeadersTooLarge is a record whose ce- headers pass Rules.MaxHeaderBytes.
	HeadersTooLarge Reason = "headers_too_large"
	// BodyTooLarge is a record whose value passes Rules.MaxBodyBytes.
	BodyTooLarge Reason = "body_too_large"
	// DuplicateConflict is a repeat of a stored (tenant, source, id) with
	// another type or body. Judge never gives it; ingest does, which knows
	// what is stored.
	DuplicateConflict Reason = "duplicate_conflict"
)

// MissingAttribute is the reason for a needed attribute that is absent or
// empty.
func MissingAttribute(name string) Reason { return Reason("missing_attribute:" + shown(name)) }

// InvalidAttribute is the reason for an attribute that breaks its own rule.
func InvalidAttribute(name string) Reason { return Reason("invalid_attribute:" + shown(name)) }

// ConflictingAttribute is the reason for an attribute that is given twice
// with different values.
func ConflictingAttribute(name string) Reason { return Reason("conflicting_attribute:" + shown(name)) }

// maxShownName bounds the part of a reason that a producer chose, in bytes.
const maxShownName = 64

// shown is an attribute name that can be stored and printed whatever bytes a
// producer put into it: other bytes than those of a header name become "?",
// and the rest of a long name is cut.
func shown(name string) string {
	if len(name) <= maxShownName && isToken(name) {
		return name
	}
	b := []byte(name[:min(len(name), maxShownName)])
	for i, c := range b {
		if !tokenByte[c] {
			b[i] = '?'
		}
	}
	return string(b)
}
