package graph

import (
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/streaming-hub/streaming-hub/access"
)

const (
	// writeTime is how long one message may take to reach a client that reads
	// slowly; a client that takes longer is dropped.
	writeTime = 10 * time.Second
	// streamPing keeps proxies from closing a silent stream.
	streamPing = 10 * time.Second
)

// stream answers by server-sent events, each write under a deadline: a client
// that stops reading would hold the resolver for ever.
func (g *gate) stream(w http.ResponseWriter, r *http.Request) {
	done, ok := g.sockets.enter(r)
	if !ok {
		refuse(w, r, http.StatusTooManyRequests, codeLimit, "this token has too many live connections")
		return
	}
	defer done()
	w.Header().Set("X-Accel-Buffering", "no")
	ctx, cancel := g.sockets.guard(r.Context(), access.Bearer(r.Header.Get("Authorization")))
	defer cancel(nil)
	s := &streamWriter{ResponseWriter: w, control: http.NewResponseController(w)}
	defer s.finish()
	g.graphql.ServeHTTP(s, r.WithContext(ctx))
}

// streamWriter puts a deadline on each write, and takes none after its request
// has ended: the transport's ping can come that late.
type streamWriter struct {
	http.ResponseWriter
	control *http.ResponseController

	mu       sync.Mutex
	finished bool
}

var errStreamEnded = errors.New("the stream has ended")

func (s *streamWriter) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.finished {
		return 0, errStreamEnded
	}
	s.extend()
	return s.ResponseWriter.Write(b)
}

// Flush is http.Flusher. A failed flush shows at the next write.
func (s *streamWriter) Flush() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.finished {
		s.extend()
		_ = s.control.Flush()
	}
}

// extend is best effort: a writer without deadlines is not one of net/http's.
func (s *streamWriter) extend() { _ = s.control.SetWriteDeadline(time.Now().Add(writeTime)) }

func (s *streamWriter) finish() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.finished = true
	_ = s.control.SetWriteDeadline(time.Time{})
}
