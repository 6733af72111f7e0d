// Package sink makes one delivery attempt: one signed HTTP request, through a
// dialer that refuses the addresses the policy forbids, within limits that no
// receiver can stretch. Verification, test sends and deliveries all go through
// it, so what is refused for one is refused for all.
//
// An attempt takes one connection for itself, HTTP/1.1 or HTTP/2, sends one
// request on it and gives it back when the answer was read to its end. There
// is no machinery underneath that could send twice: opener opens connections,
// pool decides which one an attempt gets, and http1Conn and http2Conn send one request
// when they are told to.
//
// Whatever a receiver does is a value (hub.Attempt), never an error: errors
// are the hub's own faults, and there are none in here.
package sink

import (
	"log/slog"
	"time"

	"github.com/streaming-hub/streaming-hub/hub/address"
)

// Limits of an answer.
const (
	maxResponseHeaderBytes = 32 << 10 // more is a protocol failure
	maxResponseHeaders     = 256      // lines kept
	maxBodyRead            = 64 << 10 // then the connection is dropped
	maxSnippet             = 16 << 10 // kept of the body, for people to read
)

// Config says how requests leave the hub.
type Config struct {
	Policy address.Policy
	// HeaderPrefix of the hub's own headers, X-Lerian- by default.
	HeaderPrefix string
	// UserAgent names program and version.
	UserAgent string
	// Now is the clock; nil means time.Now.
	Now func() time.Time
	// Log gets refused addresses, which tenants are not shown; nil for none.
	Log *slog.Logger
}
