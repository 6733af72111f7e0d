package access

import (
	"errors"
	"net/http"
	"sync"
	"time"
)

// fetchPause is between two fetches of the same address. A token that names an
// unknown key makes the keys be fetched, and anybody can send such a token.
const fetchPause = 10 * time.Second

var errTooSoon = errors.New("it was fetched a moment ago")

// seldom keeps the issuer from being asked more often than it must be.
type seldom struct {
	next http.RoundTripper // nil for the default
	now  func() time.Time

	mu      sync.Mutex
	fetched map[string]time.Time
	down    bool
}

// RoundTrip passes a request on, unless the same one was made a moment ago.
func (s *seldom) RoundTrip(r *http.Request) (*http.Response, error) {
	if !s.turn(r.URL.String()) {
		return nil, errTooSoon
	}
	next := s.next
	if next == nil {
		next = http.DefaultTransport
	}
	res, err := next.RoundTrip(r)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down = err != nil || res.StatusCode != http.StatusOK
	return res, err
}

func (s *seldom) turn(url string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	if last, known := s.fetched[url]; known && now.Sub(last) < fetchPause {
		return false
	}
	if s.fetched == nil {
		s.fetched = map[string]time.Time{}
	}
	s.fetched[url] = now
	return true
}

// reset lets each address be fetched at once.
func (s *seldom) reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.fetched)
}

// away reports whether the last request that was made had no good answer.
func (s *seldom) away() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.down
}
