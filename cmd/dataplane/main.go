// The dataplane program: ingest, match and dispatch. It is set up by the
// STREAMING_HUB_* settings; `hub settings` lists them.
package main

import (
	"context"
	"fmt"
	"io"
	stdlog "log"
	"net"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/streaming-hub/streaming-hub/cmd/internal/commandline"
	"github.com/streaming-hub/streaming-hub/cmd/internal/kafkaopt"
	"github.com/streaming-hub/streaming-hub/cmd/internal/settings"
	"github.com/streaming-hub/streaming-hub/dataplane"
	"github.com/streaming-hub/streaming-hub/hub"
	"github.com/streaming-hub/streaming-hub/hub/health"
	"github.com/streaming-hub/streaming-hub/hub/secret"
	"github.com/streaming-hub/streaming-hub/hub/wire"
	"github.com/streaming-hub/streaming-hub/tracing"
)

// version is set by the linker.
var version = "dev"

func main() {
	if status, end := commandline.Judge(os.Stdout, os.Stderr, "dataplane", version, os.Args[1:]); end {
		os.Exit(status)
	}
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "dataplane:", err)
		os.Exit(1)
	}
}

// Garbage is collected less often than Go's default: the live heap is small
// and the rate of short-lived objects high. The soft limit keeps the memory of
// a large backlog where the default would have it.
const (
	gcPercent   = 400
	memoryLimit = 160 << 20
)

func run() error {
	// net/http writes what a receiver sends unasked into the standard log: it
	// may hold what we sent, secrets too.
	stdlog.SetOutput(io.Discard)
	debug.SetGCPercent(gcPercent)
	debug.SetMemoryLimit(memoryLimit)
	s, err := settings.Load(settings.DataPlane, os.Environ())
	if err != nil {
		return err
	}
	log := s.Logger(os.Stderr)
	keyring, err := secret.ParseKeyring(string(s.KEKKeys.Reveal()))
	if err != nil {
		return fmt.Errorf("STREAMING_HUB_KEK_KEYS: %w", err)
	}
	if err := s.OTLP.Check(); err != nil {
		return err
	}
	issuer, err := s.Issuer(log)
	if err != nil {
		return err
	}
	span := health.SpanSettings{Window: s.AutodisableFailureWindow, Spread: s.AutodisableFailureSpread}
	if err := span.Validate(); err != nil {
		return fmt.Errorf("STREAMING_HUB_AUTODISABLE_FAILURE_WINDOW and _SPREAD: %w", err)
	}
	listener, err := net.Listen("tcp", s.HTTPListenAddr)
	if err != nil {
		return fmt.Errorf("listen on %s (STREAMING_HUB_HTTP_LISTEN_ADDR): %w", s.HTTPListenAddr, err)
	}
	rules := wire.DefaultRules()
	rules.TopicPrefix, rules.TypePrefix, rules.MaxBodyBytes = s.TopicPrefix, s.TypePrefix, s.MaxBodyBytes
	if !s.MultiTenantEnabled {
		rules.SingleTenant = hub.TenantID(s.TenantID)
	}

	// The first signal asks for an orderly stop, the second one ends at once.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)

	return dataplane.Run(ctx, dataplane.Config{
		Version: version, Listener: listener, DSN: string(s.PostgresDSN.Reveal()),
		Ingest: s.Role != settings.RoleDelivery, Deliver: s.Role != settings.RoleIngest,
		Kafka: kafkaopt.Options(s), Group: s.ConsumerGroup, Rules: rules, BatchRecords: s.IngestBatch,
		Workers: s.DispatchWorkers, Lease: s.DispatchLease, Unwritten: s.DispatchUnwrittenOutcomes,
		Poison: s.PoisonThreshold, Span: span, AutoDisable: s.AutodisableEnabled,
		CurveSteps: s.DefaultRetrySteps, HeaderPrefix: s.HeaderPrefix, Keyring: keyring, Issuer: issuer,
		Addresses:      s.Addresses(),
		EventRetention: s.EventRetention, IdempotencyTTL: s.IdempotencyTTL, DLQRetention: s.DLQRetention,
		PullRate: s.PullRate, PullBurst: s.PullBurst,
		Traces: tracing.Config{
			Endpoint: s.OTLP.Endpoint, Headers: s.OTLP.Headers, SampleRatio: s.TraceSampleRatio,
			Service: "streaming-hub-dataplane", Version: version, Log: log,
		},
		ShutdownTimeout: s.ShutdownTimeout, Profiles: s.ProfilesEnabled, Log: log,
	})
}
