package graph

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
)

// origins are the further web origins whose pages may call the API.
type origins []string

// crossOrigin is the check of requests that change something.
func (o origins) crossOrigin() (*http.CrossOriginProtection, error) {
	p := http.NewCrossOriginProtection()
	for _, one := range o {
		if err := p.AddTrustedOrigin(one); err != nil {
			return nil, fmt.Errorf("allowed origin %q: %w", one, err)
		}
	}
	return p, nil
}

// admits is the check of a WebSocket, which browsers open across origins
// without asking. Programs send no Origin and are let through to the token.
func (o origins) admits(r *http.Request) bool {
	origin := r.Header.Get("Origin")
	if origin == "" || slices.Contains(o, origin) {
		return true
	}
	u, err := url.Parse(origin)
	return err == nil && u.Host == r.Host
}
