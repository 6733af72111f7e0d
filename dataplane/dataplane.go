// Package dataplane moves events: Kafka → inbox → matching → webhooks. It
// keeps working when the control plane is down, and any number of replicas
// share the work.
//
// Run starts every long-lived goroutine of the program; this file is the whole
// plane on one screen.
package dataplane

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	mathrand "math/rand/v2"
	"net"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sync/errgroup"

	"github.com/streaming-hub/streaming-hub/access"
	"github.com/streaming-hub/streaming-hub/dataplane/dispatch"
	"github.com/streaming-hub/streaming-hub/dataplane/ingest"
	"github.com/streaming-hub/streaming-hub/dataplane/observer"
	"github.com/streaming-hub/streaming-hub/dataplane/pull"
	"github.com/streaming-hub/streaming-hub/dataplane/sink"
	"github.com/streaming-hub/streaming-hub/dataplane/snapshot"
	"github.com/streaming-hub/streaming-hub/dataplane/upkeep"
	"github.com/streaming-hub/streaming-hub/db"
	"github.com/streaming-hub/streaming-hub/hub/address"
	"github.com/streaming-hub/streaming-hub/hub/secret"
	"github.com/streaming-hub/streaming-hub/hub/wire"
)

// ingestWriters is how many ingest transactions a process runs at once: more
// did not help on two cores, and fewer leave Postgres idle between commits.
const ingestWriters = 2

// Config is what the program was told.
type Config struct {
	Version  string
	Listener net.Listener // for the pull API, health and metrics
	DSN      string

	Ingest, Deliver bool // the parts of the work that this process does

	Kafka        []kgo.Opt
	Group        string
	Rules        wire.Rules
	BatchRecords int

	Workers      int
	Lease        time.Duration
	Unwritten    int
	CurveSteps   []time.Duration
	HeaderPrefix string
	Addresses    address.Policy
	Keyring      *secret.Keyring

	DLQRetention        time.Duration // of dead-letter observations
	PullRate, PullBurst int           // pull requests of one tenant: per second, and at once

	ShutdownTimeout time.Duration
	Profiles        bool // serve /debug/pprof/
	Log             *slog.Logger
}

// Run works until ctx ends, then stops in order: no new events, no new
// attempts, what is under way ends and is recorded. It gives that at most
// ShutdownTimeout.
func Run(ctx context.Context, c Config) error {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))

	// Each kind of work has connections of its own.
	inboxDB, err := db.Open(ctx, db.Config{DSN: c.DSN, MaxConns: ingestWriters + 5, Hot: true, Name: "streaming-hub ingest"})
	if err != nil {
		return err
	}
	defer inboxDB.Close()
	queueDB, err := db.Open(ctx, db.Config{DSN: c.DSN, MaxConns: 4, Hot: true, Name: "streaming-hub dispatch"})
	if err != nil {
		return err
	}
	defer queueDB.Close()
	configDB, err := db.Open(ctx, db.Config{DSN: c.DSN, MaxConns: 4, Name: "streaming-hub upkeep"})
	if err != nil {
		return err
	}
	defer configDB.Close()
	observerDB, err := db.Open(ctx, db.Config{DSN: c.DSN, MaxConns: 1, Name: "streaming-hub dead-letter observer"})
	if err != nil {
		return err
	}
	defer observerDB.Close()
	pullDB, err := db.Open(ctx, db.Config{DSN: c.DSN, MaxConns: 4, Hot: true, Name: "streaming-hub pull"})
	if err != nil {
		return err
	}
	defer pullDB.Close()

	tenants := snapshot.New(snapshot.Deps{
		Store: configDB, Keyring: c.Keyring, CurveSteps: c.CurveSteps, Now: time.Now, Log: c.Log,
	})
	webhooks := sink.NewWebhook(sink.Config{
		Policy: c.Addresses, HeaderPrefix: c.HeaderPrefix, UserAgent: sink.UserAgent(c.Version),
	})
	defer webhooks.Close()
	pool := dispatch.NewPool(dispatch.Deps{
		Queue: queueDB, Sink: webhooks, Tenants: tenants,
		Workers: c.Workers, Lease: c.Lease, Unwritten: c.Unwritten,
		Now: time.Now, Random: rand.Reader, Token: leaseToken, Jitter: mathrand.Float64,
		Metrics: dispatch.NewMetrics(registry), Log: c.Log,
	})
	watcher := pull.NewWatcher(pullDB, c.Log)
	consumer := ingest.NewConsumer(ingest.Deps{
		Kafka: c.Kafka, Group: c.Group, Rules: c.Rules, Inbox: watcher.Inbox(inboxDB), Ledger: configDB, Tenants: tenants, Pool: ingestPool(c, pool),
		BatchRecords: c.BatchRecords, Writers: ingestWriters,
		Now: time.Now, Random: rand.Reader, Jitter: mathrand.Float64,
		Metrics: ingest.NewMetrics(registry), Log: c.Log,
	})
	registry.MustRegister(consumer) // its partitions' lag
	deadLetters := observer.New(observer.Deps{
		Kafka: c.Kafka, Group: c.Group + "-dlq", TopicPrefix: c.Rules.TopicPrefix, HeaderPrefix: c.HeaderPrefix,
		Store: observerDB, Now: time.Now, Random: rand.Reader, Metrics: observer.NewMetrics(registry), Log: c.Log,
	})
	keeper := upkeep.New(configDB, registry, retention(c), c.Log)
	reads := pull.New(pull.Deps{
		Store: pullDB, Subscriptions: pullDB, Tokens: access.NewTokens(pullDB), Watcher: watcher,
		Rate: c.PullRate, Burst: c.PullBurst, Stopping: ctx, Now: time.Now,
		Metrics: pull.NewMetrics(registry), Log: c.Log,
	})
	server := newServer(c, registry, keeper, consumer, pool, reads)

	// hard ends ShutdownTimeout after ctx: then nothing is waited for any more.
	hard, stopHard := context.WithCancel(context.WithoutCancel(ctx))
	defer stopHard()
	context.AfterFunc(ctx, func() { time.AfterFunc(c.ShutdownTimeout, stopHard) })

	// The server outlives the work, to tell how the shutdown goes.
	serving, stopServing := context.WithCancel(context.WithoutCancel(ctx))
	serverDone := make(chan error, 1)
	go func() { serverDone <- server.run(serving) }()

	err = work(ctx, hard, c, keeper, tenants, consumer, deadLetters, pool, watcher, configDB)
	stopServing()
	if serveErr := <-serverDone; err == nil {
		err = serveErr
	}
	return err
}

func work(ctx, hard context.Context, c Config, keeper *upkeep.Upkeep, tenants *snapshot.Cache, consumer *ingest.Consumer, deadLetters *observer.Observer, pool *dispatch.Pool, watcher *pull.Watcher, quarantine ingest.Quarantine) error {
	if err := keeper.AwaitSchema(ctx); err != nil {
		return nil // asked to stop while waiting
	}
	c.Log.Info("data plane started", "version", c.Version, "ingest", c.Ingest, "deliver", c.Deliver, "workers", c.Workers)
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return keeper.Run(ctx) })
	g.Go(func() error { return tenants.Run(ctx) })
	g.Go(func() error { return watcher.Run(ctx) })
	if c.Ingest {
		g.Go(func() error { return consumer.Run(ctx) })
		g.Go(func() error { return consumer.Readmit(ctx, quarantine) })
		g.Go(func() error { return deadLetters.Run(ctx) })
	}
	if c.Deliver {
		g.Go(func() error { return pool.Run(ctx, hard) })
	}
	if err := g.Wait(); err != nil {
		return fmt.Errorf("data plane: %w", err)
	}
	c.Log.Info("data plane stopped")
	return nil
}

const (
	// feedRetention is how far back a reader of the live feed can go on.
	feedRetention = 48 * time.Hour
	// dedupHorizon is how long a repeat is recognised, at least: a partition
	// of keys goes when its youngest key is older.
	dedupHorizon = 30 * 24 * time.Hour
	// quarantineRetention is how long a record waits for people to look at it.
	quarantineRetention = 30 * 24 * time.Hour
)

// retention says what upkeep drops. What still waits to be delivered must end
// before its events and deliveries may go, so these are not in the list.
func retention(c Config) []upkeep.Retention {
	list := []upkeep.Retention{
		{Table: "outcome_feed", Keep: feedRetention},
		{Table: "event_keys", Keep: dedupHorizon},
		{Table: "quarantined_records", Keep: quarantineRetention},
	}
	if c.DLQRetention > 0 {
		list = append(list, upkeep.Retention{Table: "dlq_observations", Keep: c.DLQRetention})
	}
	return list
}

// leaseToken is a random token, never 0 and exact in every language's numbers.
func leaseToken() int64 { return 1 + mathrand.Int64N(1<<53-1) }
