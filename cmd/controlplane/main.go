// The controlplane program: the GraphQL API with its live feeds, GET
// /admin/dlq, POST /v1/subscriptions/{id}/verify, the start page and GraphiQL. It is set up by the STREAMING_HUB_* settings; `hub
// settings` lists them. It starts without a database and works as soon as
// that answers.
package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	stdlog "log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/streaming-hub/streaming-hub/access"
	"github.com/streaming-hub/streaming-hub/cmd/internal/commandline"
	"github.com/streaming-hub/streaming-hub/cmd/internal/settings"
	"github.com/streaming-hub/streaming-hub/controlplane"
	"github.com/streaming-hub/streaming-hub/controlplane/adminapi"
	"github.com/streaming-hub/streaming-hub/controlplane/console"
	"github.com/streaming-hub/streaming-hub/dataplane/sink"
	"github.com/streaming-hub/streaming-hub/db"
	"github.com/streaming-hub/streaming-hub/graph"
	"github.com/streaming-hub/streaming-hub/graph/graphiql"
	"github.com/streaming-hub/streaming-hub/hub/health"
	"github.com/streaming-hub/streaming-hub/hub/secret"
	"github.com/streaming-hub/streaming-hub/tracing"
)

// version is set by the linker.
var version = "dev"

func main() {
	if status, end := commandline.Judge(os.Stdout, os.Stderr, "controlplane", version, os.Args[1:]); end {
		os.Exit(status)
	}
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "controlplane:", err)
		os.Exit(1)
	}
}

func run() error {
	// net/http writes what a receiver sends unasked into the standard log: it
	// may hold what we sent, secrets too.
	stdlog.SetOutput(io.Discard)
	s, err := settings.Load(settings.ControlPlane, os.Environ())
	if err != nil {
		return err
	}
	log := s.Logger(os.Stderr)
	keys, err := secret.ParseKeyring(string(s.KEKKeys.Reveal()))
	if err != nil {
		return fmt.Errorf("STREAMING_HUB_KEK_KEYS: %w", err)
	}
	// The first signal asks for an orderly stop, the second one ends at once.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)

	if err := s.OTLP.Check(); err != nil {
		return err
	}
	tracer, err := tracing.New(tracing.Config{
		Endpoint: s.OTLP.Endpoint, Headers: s.OTLP.Headers, SampleRatio: s.TraceSampleRatio,
		Service: "streaming-hub-controlplane", Version: version, Log: log,
	})
	if err != nil {
		return err
	}
	// hard ends SHUTDOWN_TIMEOUT after ctx: then the last spans are not waited for.
	hard, stopHard := context.WithCancel(context.WithoutCancel(ctx))
	defer stopHard()
	context.AfterFunc(ctx, func() { time.AfterFunc(s.ShutdownTimeout, stopHard) })
	defer tracer.Close(hard)

	// What people ask for runs behind the wall that shows a tenant its own rows
	// only. Live feeds read on connections of their own, so that slow queries
	// cannot hold them up. All statements are look-ups by key: Hot keeps the
	// planner from scanning a table whose statistics are out of date.
	dsn := string(s.PostgresDSN.Reveal())
	database, err := db.Open(ctx, db.Config{DSN: dsn, MaxConns: 10, Hot: true, Walled: true, Name: "controlplane"})
	if err != nil {
		return err
	}
	defer database.Close()
	feedDatabase, err := db.Open(ctx, db.Config{DSN: dsn, MaxConns: 4, Hot: true, Name: "controlplane feed"})
	if err != nil {
		return err
	}
	defer feedDatabase.Close()

	webhook := sink.NewWebhook(sink.Config{
		Policy: s.Addresses(), HeaderPrefix: s.HeaderPrefix, UserAgent: sink.UserAgent(version), Log: log,
	})
	defer webhook.Close()
	feed := controlplane.NewFeed(feedDatabase, log)
	hold := &controlplane.FeedHold{}
	issuer, err := s.Issuer(log)
	if err != nil {
		return err
	}
	tokens := access.NewTokens(controlplane.TokenLookup{DB: database}).Trust(issuer)
	observations := &controlplane.Observations{DB: database}
	span := health.SpanSettings{Window: s.AutodisableFailureWindow, Spread: s.AutodisableFailureSpread}
	if err := span.Validate(); err != nil {
		return fmt.Errorf("STREAMING_HUB_AUTODISABLE_FAILURE_WINDOW, _SPREAD: %w", err)
	}
	subscriptions := &controlplane.Subscriptions{
		DB: database, Keys: keys, Addresses: s.Addresses(), Prober: prober{webhook},
		HeaderPrefix: s.HeaderPrefix, TypePrefix: s.TypePrefix, Now: time.Now, Random: rand.Reader,
	}
	api, err := graph.NewServer(graph.Deps{
		Resolver: &graph.Resolver{
			Subscriptions: subscriptions,
			History:       &controlplane.History{DB: database},
			Redelivery:    &controlplane.Redelivery{DB: database, Now: time.Now, Random: rand.Reader},
			Replays:       &controlplane.Replays{DB: database, Now: time.Now, Random: rand.Reader},
			Discarding:    &controlplane.Discarding{DB: database, Now: time.Now, Random: rand.Reader},
			Quarantine:    &controlplane.Quarantine{DB: database, Now: time.Now, Random: rand.Reader},
			Observations:  observations, Feed: feed,
			Tokens: &controlplane.Tokens{DB: database, Access: tokens, Now: time.Now, Random: rand.Reader},
			Audit:  &controlplane.AuditLog{DB: database},
			Idempotency: &controlplane.Idempotency{
				Store: database, Keys: keys, TTL: s.IdempotencyTTL, Now: time.Now, Random: rand.Reader, Log: log,
			},
			Breakers: &controlplane.Breakers{DB: database, Keys: keys},
			Policies: &controlplane.FailurePolicies{
				DB: database, Now: time.Now, KillSwitch: !s.AutodisableEnabled,
				Span: span,
			},
			HeaderPrefix: s.HeaderPrefix, CurveSteps: s.DefaultRetrySteps, Now: time.Now,
		},
		Tokens: tokens, Origins: s.AllowedOrigins, Tracer: tracer, Log: log,
	})
	if err != nil {
		return fmt.Errorf("STREAMING_HUB_ALLOWED_ORIGINS: %w", err)
	}

	listener, err := net.Listen("tcp", s.HTTPListenAddr)
	if err != nil {
		return fmt.Errorf("listen on %s (STREAMING_HUB_HTTP_LISTEN_ADDR): %w", s.HTTPListenAddr, err)
	}
	mux := http.NewServeMux()
	mux.Handle("/graphql", api)
	mux.Handle("/graphiql", graphiql.Handler())
	mux.Handle("/graphiql/", graphiql.Handler())
	mux.Handle("GET /admin/dlq", adminapi.DLQ{Observations: observations, Tokens: tokens, Log: log})
	mux.Handle("POST /v1/subscriptions/{id}/verify", adminapi.Verify{Subscriptions: subscriptions, Tokens: tokens, Log: log})
	mux.Handle("/", console.Handler())
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.Handle("GET /readyz", readiness{database: database, feed: feed, hold: hold, keys: keys, now: time.Now})
	mux.Handle("GET /metrics", metrics(api, feed, hold, tracer))

	log.Info("the control plane listens", "address", listener.Addr().String(), "version", version)
	parts, ctx := errgroup.WithContext(ctx)
	parts.Go(func() error { return feed.Run(ctx) })
	parts.Go(func() error { return hold.Run(ctx, feedDatabase, time.Now) })
	parts.Go(func() error { return serve(ctx, listener, mux, api, s.ShutdownTimeout) })
	return parts.Wait()
}
