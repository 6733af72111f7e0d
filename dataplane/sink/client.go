// Package sink makes one delivery attempt: one signed HTTP request, through a
// dialer that refuses the addresses the policy forbids, within limits that no
// receiver can stretch. Verification, test sends and deliveries all go through
// it, so what is refused for one is refused for all.
//
// Whatever a receiver does is a value (hub.Attempt), never an error: errors
// are the hub's own faults, and there are none in here.
package sink

import (
	"crypto/tls"
	"net/http"
	"time"

	"github.com/streaming-hub/streaming-hub/hub"
	"github.com/streaming-hub/streaming-hub/hub/address"
)

// Limits of an answer.
const (
	maxResponseHeaderBytes = 32 << 10 // more is a protocol failure
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
}

// newTransport is net/http's transport with the hub's limits. Per-host
// connections are bounded by the worker pool, which is smaller.
func newTransport(c Config) *http.Transport {
	g := newGuard(c.Policy)
	return &http.Transport{
		DialContext:     g.dial,
		TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12},
		// The transport goes on with a handshake whose attempt has ended, for the
		// next one to use: without a bound a mute receiver would collect them.
		TLSHandshakeTimeout:    hub.MaxTimeout,
		DisableCompression:     true, // the body is recorded as it came
		MaxResponseHeaderBytes: maxResponseHeaderBytes,
		MaxIdleConns:           4096,
		MaxIdleConnsPerHost:    1024, // many destinations may share a host
		IdleConnTimeout:        60 * time.Second,
		WriteBufferSize:        4 << 10,
		ReadBufferSize:         4 << 10,
		// No proxy from the environment: a request leaves only as configured.
		Proxy: nil,
	}
}
