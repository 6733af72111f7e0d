package graph

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/99designs/gqlgen/graphql"
	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/gqlerror"

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
	s := &streamWriter{ResponseWriter: w, control: http.NewResponseController(w), ctx: ctx}
	defer s.finish()
	g.graphql.ServeHTTP(s, r.WithContext(onLive(ctx)))
}

type liveKey struct{}

// onLive marks a request whose answer can have many parts.
func onLive(ctx context.Context) context.Context {
	boundSending(ctx)
	return context.WithValue(ctx, liveKey{}, true)
}

// liveOnly refuses a live feed whose request takes one answer only: it would
// hold the request until the first item comes, and nobody would look at the
// token meanwhile.
type liveOnly struct{}

var _ graphql.OperationContextMutator = liveOnly{}

func (liveOnly) ExtensionName() string                   { return "LiveOnly" }
func (liveOnly) Validate(graphql.ExecutableSchema) error { return nil }

func (liveOnly) MutateOperationContext(ctx context.Context, op *graphql.OperationContext) *gqlerror.Error {
	if op.Operation.Operation != ast.Subscription || ctx.Value(liveKey{}) != nil {
		return nil
	}
	e := gqlerror.Errorf("a subscription needs a WebSocket (%s) or the header Accept: text/event-stream", protocolName)
	e.Extensions = map[string]any{"code": codeBadRequest}
	return e
}

// streamWriter puts a deadline on each write, and takes none after its request
// has ended: the transport's ping can come that late.
type streamWriter struct {
	http.ResponseWriter
	control *http.ResponseController
	ctx     context.Context // whose cause says why the stream ends

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
	if string(b) == streamEnd {
		if _, err := s.ResponseWriter.Write(farewell(s.ctx)); err != nil {
			return 0, err
		}
	}
	return s.ResponseWriter.Write(b)
}

// streamEnd is how the transport ends a stream, for whatever reason.
const streamEnd = "event: complete\n\n"

// farewell says why a stream ends that its reader would have gone on with; nil
// when it ends by itself. A WebSocket says so by its close code.
func farewell(ctx context.Context) []byte {
	var e *gqlerror.Error
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, errStopping):
		e = gqlerror.Errorf("the hub is going away; follow again with after")
		e.Extensions = map[string]any{"code": codeUnavailable}
	case errors.Is(cause, errTokenRevoked):
		e = gqlerror.Errorf("the API token is no longer valid")
		e.Extensions = map[string]any{"code": codeUnauthenticated}
	default:
		return nil
	}
	e.Extensions["requestId"] = requestID(ctx)
	data, _ := json.Marshal(graphql.Response{Errors: gqlerror.List{e}}) // of strings only
	return fmt.Appendf(nil, "event: next\ndata: %s\n\n", data)
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
