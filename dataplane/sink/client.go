// Package sink makes one delivery attempt: one signed HTTP request, through a
// dialer that refuses the addresses the policy forbids, within limits that no
// receiver can stretch. Verification, test sends and deliveries all go through
// it, so what is refused for one is refused for all.
//
// An attempt takes one connection for itself, HTTP/1.1 or HTTP/2, sends one
// request on it and gives it back when the answer was read to its end. There
// is no machinery underneath that could send twice: net/http's transport only
// opens connections here, which connection an attempt gets is decided by pool.
//
// Whatever a receiver does is a value (hub.Attempt), never an error: errors
// are the hub's own faults, and there are none in here.
package sink

import (
	"crypto/tls"
	"log/slog"
	"net/http"
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

// newTransport opens connections with the hub's limits. It never sends.
func newTransport(g *guard) *http.Transport {
	var both http.Protocols
	both.SetHTTP1(true)
	both.SetHTTP2(true)
	return &http.Transport{
		DialContext: g.dial,
		TLSClientConfig: &tls.Config{
			MinVersion: tls.VersionTLS12,
			// No session cache: a resumed session would carry the identity of
			// an earlier client certificate.
			GetClientCertificate: presentCertificate,
		},
		Protocols: &both,
		HTTP2: &http.HTTP2Config{
			// What a receiver may send ahead of what is read.
			MaxReceiveBufferPerConnection: maxBodyRead,
			MaxReceiveBufferPerStream:     maxBodyRead,
		},
		DisableCompression:     true, // the body is recorded as it came
		MaxResponseHeaderBytes: maxResponseHeaderBytes,
		WriteBufferSize:        4 << 10,
		ReadBufferSize:         4 << 10,
		// No proxy from the environment: a request leaves only as configured.
		Proxy: nil,
	}
}
