package graph

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"strings"

	"github.com/99designs/gqlgen/graphql"
	"github.com/vektah/gqlparser/v2/gqlerror"

	"github.com/streaming-hub/streaming-hub/controlplane"
	"github.com/streaming-hub/streaming-hub/db"
	"github.com/streaming-hub/streaming-hub/graph/scalar"
)

// Codes in extensions.code of GraphQL errors; a contract. Besides these there
// are GRAPHQL_PARSE_FAILED, GRAPHQL_VALIDATION_FAILED and
// COMPLEXITY_LIMIT_EXCEEDED.
const (
	codeUnauthenticated = "UNAUTHENTICATED" // no token, or one that lets nobody in
	codeForbidden       = "FORBIDDEN"       // the token's role or scope is too small
	codeBadInput        = "BAD_USER_INPUT"  // a value that its scalar or argument does not take
	codeBadRequest      = "BAD_REQUEST"     // not a GraphQL request
	codeLimit           = "LIMIT_EXCEEDED"  // size, depth, aliases, operations per socket
	codeTimeout         = "TIMEOUT"         // it took too long
	codeUnavailable     = "UNAVAILABLE"     // the hub stops or its database is away
	codeInternal        = "INTERNAL"        // a fault of the hub; the log has it under the request id
)

// apiError is an error that its caller may read.
type apiError struct {
	code    string
	message string
}

func (e *apiError) Error() string { return e.message }

func apiErrorf(code, format string, args ...any) error {
	return &apiError{code: code, message: fmt.Sprintf(format, args...)}
}

// present turns an error into what the caller reads. Whatever is not known to
// be meant for them is logged under the request id and answered neutrally.
func present(log *slog.Logger) graphql.ErrorPresenterFunc {
	return func(ctx context.Context, err error) *gqlerror.Error {
		shown := graphql.DefaultErrorPresenter(ctx, err)
		if shown.Extensions == nil {
			shown.Extensions = map[string]any{}
		}
		if _, known := shown.Extensions["code"]; !known {
			code, message := meaning(err)
			if code == codeInternal || code == codeUnavailable {
				log.Error("a GraphQL request failed", "request", requestID(ctx), "path", shown.Path.String(), "error", err)
			}
			// A fresh one: the text of the old one may hold anything.
			shown = &gqlerror.Error{Message: message, Path: shown.Path, Locations: shown.Locations, Extensions: map[string]any{"code": code}}
		} else if shown.Message == "operation  not found" { // as the executor says it
			shown.Message = "the document has several operations; operationName has to name one of them"
		} else {
			shown.Message = withoutLiterals(shown.Message, shown.Rule)
		}
		shown.Extensions["requestId"] = requestID(ctx)
		return shown
	}
}

func meaning(err error) (code, message string) {
	var own *apiError
	var value scalar.Error
	var overflow *graphql.NumberOverflowError
	switch {
	case errors.As(err, &own):
		return own.code, own.message
	case errors.As(err, &value):
		return codeBadInput, value.Error()
	case errors.As(err, &overflow):
		return codeBadInput, "an Int has 32 bits"
	case errors.Is(err, controlplane.ErrBadCursor):
		return codeBadInput, controlplane.ErrBadCursor.Error()
	case errors.Is(err, context.DeadlineExceeded):
		return codeTimeout, "the request took too long"
	case errors.Is(err, context.Canceled):
		return codeUnavailable, "the request was given up"
	case db.Away(err):
		return codeUnavailable, "the hub's database is away; try again in a moment"
	}
	return codeInternal, "an internal error happened; the hub's log has it under this request id"
}

// unwritten begins the panic of an answer that cannot be written.
const unwritten = "unable to marshal"

// recovered answers a panic like any other fault of the hub.
func recovered(log *slog.Logger) graphql.RecoverFunc {
	return func(ctx context.Context, cause any) error {
		text := fmt.Sprint(cause)
		if strings.HasPrefix(text, unwritten) {
			text = unwritten // what follows is the whole answer, payloads and all
		}
		log.Error("a GraphQL resolver panicked", "request", requestID(ctx), "cause", text, "stack", string(debug.Stack()))
		return apiErrorf(codeInternal, "an internal error happened; the hub's log has it under this request id")
	}
}
