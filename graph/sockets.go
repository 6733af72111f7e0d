package graph

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/streaming-hub/streaming-hub/access"
	"github.com/streaming-hub/streaming-hub/controlplane"
)

const (
	// maxLive bounds the live connections of one token in this process.
	maxLive = 250
	// tokenCheck is how often a live connection's token is looked at again.
	tokenCheck = 2 * time.Second
)

// Why a live connection is ended from our side.
var (
	errStopping     = errors.New("the hub is going away")
	errTokenRevoked = errors.New("the API token is no longer valid")
)

// sockets keeps the books of all live connections, WebSocket and streams.
type sockets struct {
	tokens *access.Tokens

	mu       sync.Mutex
	perToken map[string]int
	stopping bool
	stop     chan struct{}
	open     sync.WaitGroup
}

func newSockets(tokens *access.Tokens) *sockets {
	return &sockets{tokens: tokens, perToken: map[string]int{}, stop: make(chan struct{})}
}

// enter counts a live connection of a request whose actor is known.
func (s *sockets) enter(r *http.Request) (leave func(), ok bool) {
	return s.enterAs(actorOf(r.Context()))
}

func (s *sockets) enterAs(a controlplane.Actor) (leave func(), ok bool) {
	key := a.Token.String()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopping || s.perToken[key] >= maxLive {
		return nil, false
	}
	s.perToken[key]++
	s.open.Add(1)
	return sync.OnceFunc(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.perToken[key]--; s.perToken[key] == 0 {
			delete(s.perToken, key)
		}
		s.open.Done()
	}), true
}

// guard ends the context of a live connection when its token stops being
// valid or the hub stops; the cause says which.
func (s *sockets) guard(ctx context.Context, token string) (context.Context, context.CancelCauseFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	go func() {
		ticker := time.NewTicker(tokenCheck)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-s.stop:
				cancel(errStopping)
				return
			case <-ticker.C:
				// A database that is away revokes nothing.
				if _, err := s.tokens.Authenticate(ctx, token); errors.Is(err, access.ErrBadToken) {
					cancel(errTokenRevoked)
					return
				}
			}
		}
	}()
	return ctx, cancel
}

// close ends all live connections and waits for them, at most until the
// context ends.
func (s *sockets) close(ctx context.Context) {
	s.mu.Lock()
	if !s.stopping {
		s.stopping = true
		close(s.stop)
	}
	s.mu.Unlock()
	gone := make(chan struct{})
	go func() { s.open.Wait(); close(gone) }()
	select {
	case <-gone:
	case <-ctx.Done():
	}
}

// count is how many live connections there are.
func (s *sockets) count() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, one := range s.perToken {
		n += one
	}
	return n
}
