package sink

import (
	"net"
	"net/url"
	"sync"
	"sync/atomic"

	"github.com/streaming-hub/streaming-hub/hub/address"
)

// target is a destination's URL, read once.
type target struct {
	url        *url.URL
	requestURI string // path and query as they stand in a request
	place      place
	refused    error
}

// maxTargets bounds what targets keeps. Beyond it all are read anew: many URLs
// come and go where destinations are probed.
const maxTargets = 50_000

// targets keeps them: destinations are few, attempts many.
type targets struct {
	policy address.Policy
	known  sync.Map // string → *target
	count  atomic.Int64
}

// of reads a URL. The rule that judged it when it was written judges it again:
// the policy may have changed since, and what stands in the database need not
// have come through the API.
func (t *targets) of(raw string) *target {
	if known, ok := t.known.Load(raw); ok {
		return known.(*target)
	}
	read := t.read(raw)
	if t.count.Add(1) > maxTargets {
		t.known.Clear()
		t.count.Store(1)
	}
	t.known.Store(raw, read)
	return read
}

func (t *targets) read(raw string) *target {
	canonical, err := t.policy.CanonicalURL(raw)
	if err != nil {
		return &target{refused: &BlockedError{Reason: err}}
	}
	u, err := url.Parse(canonical)
	if err != nil {
		return &target{refused: &BlockedError{Reason: err}}
	}
	port := u.Port()
	if port == "" {
		port = "443"
		if u.Scheme == "http" {
			port = "80"
		}
	}
	return &target{url: u, requestURI: u.RequestURI(), place: place{scheme: u.Scheme, address: net.JoinHostPort(u.Hostname(), port)}}
}
