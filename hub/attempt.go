package hub

import "time"

// Attempt is one try of one delivery: exactly one HTTP request, or none when
// the request could not leave (refused address, no connection).
type Attempt struct {
	ID      AttemptID // also the X-Lerian-Delivery-Id header
	Number  int32     // from 1, over all runs
	Started time.Time
	Timings Timings
	Answer  Answer
	Failure Failure // zero on success
	// TraceParent is the trace context that was sent in place of the event's
	// own, "" when that went.
	TraceParent string
}

// Answer is what came back; Status is 0 when nothing did.
type Answer struct {
	Status     int32
	Headers    []Header // capped at 32 KiB on the wire
	Snippet    string   // ≤ 16 KiB, valid UTF-8 without NUL
	Truncated  bool     // the body was longer than the snippet
	RetryAfter string   // the header as sent
	RemoteIP   string
	TLSVersion string // "TLS 1.3" or ""
}

// Header is one HTTP header line, its value safe to store.
type Header struct {
	Name  string `json:"n"`
	Value string `json:"v"`
}

// Timings are the phases of an attempt in whole microseconds; 0 for a phase
// that did not happen (a reused connection has no DNS, connect or TLS).
type Timings struct {
	DNS, Connect, TLS, FirstByte, Total int32
}

// Failure says how an attempt failed.
type Failure struct {
	Class  ErrorClass
	Phase  Phase
	Detail string // one line for a person, no secrets, ≤ 1 KiB
}

// Failed reports whether there is a failure.
func (f Failure) Failed() bool { return f.Class != "" }

// ErrorClass groups failures by their kind.
type ErrorClass string

const (
	ErrStatus    ErrorClass = "STATUS"          // an answer outside 200–299
	ErrTimeout   ErrorClass = "TIMEOUT"         // the attempt's time was up
	ErrDNS       ErrorClass = "DNS"             // the name does not resolve
	ErrConnect   ErrorClass = "CONNECT"         // refused, unreachable
	ErrTLS       ErrorClass = "TLS"             // handshake or certificate
	ErrProtocol  ErrorClass = "PROTOCOL"        // the answer is not HTTP
	ErrReset     ErrorClass = "RESET"           // closed before an answer
	ErrBlocked   ErrorClass = "BLOCKED_ADDRESS" // the address policy refused; our side
	ErrNoSecret  ErrorClass = "NO_SECRET"       // no key to sign with; our side
	ErrCancelled ErrorClass = "CANCELLED"       // the hub stopped; our side
)

// OurFault reports whether the failure says nothing about the destination.
// Such a failure counts against nobody's health and uses up no attempt,
// except a refused address, which is the tenant's configuration and does.
func (c ErrorClass) OurFault() bool {
	return c == ErrNoSecret || c == ErrCancelled
}

// Phase is the step in which a failure happened.
type Phase string

const (
	PhasePrepare Phase = "PREPARE"
	PhaseDNS     Phase = "DNS"
	PhaseConnect Phase = "CONNECT"
	PhaseTLS     Phase = "TLS"
	PhaseRequest Phase = "REQUEST"
	PhaseAnswer  Phase = "ANSWER"
)

// Outcome is one recorded attempt with what followed from it: what the
// history, the live feed and the next claim are made of. A delivery that ends
// without a further attempt has one whose Attempt has number 0 and no answer:
// its ID, start and Failure.Detail tell of the end.
type Outcome struct {
	Delivery Delivery // as claimed
	Token    int64
	Attempt  Attempt
	Decision Decision
	// EventType (the key) and Source of the event, for the live feed.
	EventType, Source string
}

// Decision is what follows from an attempt.
type Decision struct {
	// State is Delivered, Dead, or Waiting for a further attempt at NextAt.
	State      State
	DeadReason DeadReason
	NextAt     time.Time
	// LastAt is from when on that further attempt is the last; it is set
	// whenever State is Waiting.
	LastAt time.Time
	// Fingerprint groups dead letters of one cause; nil for none.
	Fingerprint []byte
	// Counted is false when the try used up no attempt (our own fault).
	Counted bool
	// Reason says in one sentence why, for the attempt's history.
	Reason string
}
