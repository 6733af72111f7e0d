package graph

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"

	"github.com/99designs/gqlgen/graphql/handler"
	"github.com/99designs/gqlgen/graphql/handler/extension"
	"github.com/99designs/gqlgen/graphql/handler/lru"
	"github.com/99designs/gqlgen/graphql/handler/transport"
	"github.com/vektah/gqlparser/v2/ast"

	"github.com/streaming-hub/streaming-hub/access"
	"github.com/streaming-hub/streaming-hub/graph/generated"
	"github.com/streaming-hub/streaming-hub/tracing"
)

// Deps is what the API needs.
type Deps struct {
	Resolver *Resolver
	Tokens   *access.Tokens
	// Origins are further web origins, scheme://host[:port], whose pages may
	// call the API; its own is always one.
	Origins []string
	Tracer  *tracing.Tracer // nil for no traces
	Log     *slog.Logger
}

// Server is the GraphQL endpoint: queries and mutations by POST, live feeds by
// WebSocket and by server-sent events, all at one path.
type Server struct {
	http.Handler
	sockets *sockets
}

// NewServer puts the endpoint together. It fails on an origin that is none.
func NewServer(d Deps) (*Server, error) {
	cross, err := origins(d.Origins).crossOrigin()
	if err != nil {
		return nil, fmt.Errorf("make the GraphQL endpoint: %w", err)
	}
	books := newSockets(d.Tokens)
	g := &gate{tokens: d.Tokens, origins: d.Origins, cross: cross, sockets: books}
	g.graphql = newExecutor(d, g)
	return &Server{Handler: g, sockets: books}, nil
}

func newExecutor(d Deps, g *gate) *handler.Server {
	limit := int64(maxBody)
	srv := handler.New(generated.NewExecutableSchema(generated.Config{Resolvers: d.Resolver, Complexity: costs()}))
	srv.AddTransport(transport.Websocket{
		Implementation: socketImplementation{}, InitFunc: g.init, InitTimeout: initTime,
		PingPongInterval: socketPing, PayloadReadLimit: &limit,
	})
	srv.AddTransport(transport.SSE{KeepAlivePingInterval: streamPing})
	srv.AddTransport(transport.POST{})

	srv.SetQueryCache(lru.New[*ast.QueryDocument](200))
	srv.SetParserTokenLimit(maxTokens)
	srv.Use(extension.Introspection{}) // the gate lets nobody in without a token
	srv.Use(liveOnly{})
	srv.Use(shapeLimits{})
	srv.Use(extension.FixedComplexityLimit(maxComplexity))
	if d.Tracer != nil {
		srv.AroundOperations(traced(d.Tracer))
	}
	srv.AroundOperations(limitTime)
	srv.AroundResponses(d.Resolver.freshLoaders)
	srv.AroundFields(guardFields) // goes first
	srv.AroundFields(checkFilter)
	srv.AroundFields(d.Resolver.freshAfterChange)
	srv.AroundFields(d.Resolver.once)
	srv.SetErrorPresenter(present(d.Log))
	srv.SetRecoverFunc(recovered(d.Log))
	return srv
}

// LiveConnections is how many WebSockets and streams are open.
func (s *Server) LiveConnections() int { return s.sockets.count() }

// Close ends all live connections, WebSockets with 1001, and waits for them
// until the context ends. New ones are refused.
func (s *Server) Close(ctx context.Context) { s.sockets.close(ctx) }
