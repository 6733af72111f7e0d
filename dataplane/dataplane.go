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
	"github.com/streaming-hub/streaming-hub/dataplane/circuit"
	"github.com/streaming-hub/streaming-hub/dataplane/dbclock"
	"github.com/streaming-hub/streaming-hub/dataplane/dispatch"
	"github.com/streaming-hub/streaming-hub/dataplane/health"
	"github.com/streaming-hub/streaming-hub/dataplane/ingest"
	"github.com/streaming-hub/streaming-hub/dataplane/observer"
	"github.com/streaming-hub/streaming-hub/dataplane/pull"
	"github.com/streaming-hub/streaming-hub/dataplane/replay"
	"github.com/streaming-hub/streaming-hub/dataplane/sink"
	"github.com/streaming-hub/streaming-hub/dataplane/snapshot"
	"github.com/streaming-hub/streaming-hub/dataplane/upkeep"
	"github.com/streaming-hub/streaming-hub/db"
	"github.com/streaming-hub/streaming-hub/hub/address"
	hubhealth "github.com/streaming-hub/streaming-hub/hub/health"
	"github.com/streaming-hub/streaming-hub/hub/secret"
	"github.com/streaming-hub/streaming-hub/hub/wire"
	"github.com/streaming-hub/streaming-hub/tracing"
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
	Poison       int                    // lone runs without an outcome
	Span         hubhealth.SpanSettings // the gates of FAILURE_SPAN
	AutoDisable  bool                   // false: verdicts are shown, nothing is switched off
	CurveSteps   []time.Duration
	HeaderPrefix string
	Addresses    address.Policy
	Keyring      *secret.Keyring

	EventRetention      time.Duration  // of events, deliveries and attempts
	IdempotencyTTL      time.Duration  // of answers remembered by idempotency key
	DLQRetention        time.Duration  // of dead-letter observations
	PullRate, PullBurst int            // pull requests of one tenant: per second, and at once
	Issuer              *access.Issuer // whose tokens let in beside ours; nil for nobody's

	Traces          tracing.Config
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

	// hard ends ShutdownTimeout after ctx: then nothing is waited for any more.
	hard, stopHard := context.WithCancel(context.WithoutCancel(ctx))
	defer stopHard()
	context.AfterFunc(ctx, func() { time.AfterFunc(c.ShutdownTimeout, stopHard) })

	tracer, err := tracing.New(c.Traces)
	if err != nil {
		return err
	}
	defer tracer.Close(hard) // when all that it tells of has ended
	tracer.Register(registry)

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

	replayDB, err := db.Open(ctx, db.Config{DSN: c.DSN, MaxConns: 1, Name: "streaming-hub replay"})
	if err != nil {
		return err
	}
	defer replayDB.Close()

	tenants := snapshot.New(snapshot.Deps{
		Store: configDB, Keyring: c.Keyring, CurveSteps: c.CurveSteps, Now: time.Now, Log: c.Log,
	})
	webhooks := sink.NewWebhook(sink.Config{
		Policy: c.Addresses, HeaderPrefix: c.HeaderPrefix, UserAgent: sink.UserAgent(c.Version), Log: c.Log,
	})
	defer webhooks.Close()
	clock := dbclock.New(configDB, time.Now, c.Log)
	var pool *dispatch.Pool
	circuits := circuit.New(circuit.Deps{
		Store: configDB, Now: clock.Now, Random: rand.Reader, Metrics: registry, Log: c.Log,
		Moved: func(l db.Lane) { pool.Moved(l) },
	})
	policies := health.New(health.Deps{
		Store: configDB, Span: c.Span, Act: c.AutoDisable, Now: clock.Now, Random: rand.Reader, Metrics: registry, Log: c.Log,
	})
	pool = dispatch.NewPool(dispatch.Deps{
		Queue: queueDB, Sink: webhooks, Tenants: tenants, Circuits: circuits, Health: policies,
		Workers: c.Workers, Lease: c.Lease, Unwritten: c.Unwritten, Poison: c.Poison, MaxBody: c.Rules.MaxBodyBytes,
		Now: time.Now, Random: rand.Reader, Token: leaseToken, Jitter: mathrand.Float64,
		Tracer: tracer, Metrics: dispatch.NewMetrics(registry), Log: c.Log,
	})
	registry.MustRegister(pool)
	announcer := newAnnouncer(configDB, c.Log)
	watcher := pull.NewWatcher(pullDB, c.Log)
	consumer := ingest.NewConsumer(ingest.Deps{
		Kafka: c.Kafka, Group: c.Group, Rules: c.Rules, Inbox: watcher.Inbox(inboxDB), Ledger: configDB, Tenants: tenants, Pool: ingestPool(c, pool, announcer),
		BatchRecords: c.BatchRecords, Writers: ingestWriters,
		Now: time.Now, Random: rand.Reader, Jitter: mathrand.Float64,
		Tracer: tracer, Metrics: ingest.NewMetrics(registry), Log: c.Log,
	})
	registry.MustRegister(consumer) // its partitions' lag
	deadLetters := observer.New(observer.Deps{
		Kafka: c.Kafka, Group: c.Group + "-dlq", TopicPrefix: c.Rules.TopicPrefix, HeaderPrefix: c.HeaderPrefix,
		Store: observerDB, Now: time.Now, Random: rand.Reader, Metrics: observer.NewMetrics(registry), Log: c.Log,
	})
	keeper := upkeep.New(configDB, registry, retention(c), c.Log)
	lanes := &upkeep.Lanes{
		Store: configDB, Tenants: tenants, Now: time.Now, Random: rand.Reader, Log: c.Log,
		EventRetention: c.EventRetention, IdempotencyTTL: c.IdempotencyTTL,
	}
	lanes.Register(registry)
	replays := replay.New(replay.Deps{Store: replayDB, Now: clock.Now, Random: rand.Reader, Metrics: registry, Log: c.Log})
	reads := pull.New(pull.Deps{
		Store: pullDB, Subscriptions: pullDB, Tokens: access.NewTokens(pullDB).Trust(c.Issuer), Watcher: watcher,
		Rate: c.PullRate, Burst: c.PullBurst, Stopping: ctx, Now: time.Now,
		Metrics: pull.NewMetrics(registry), Log: c.Log,
	})
	server := newServer(c, registry, keeper, consumer, pool, reads)

	// The server outlives the work, to tell how the shutdown goes.
	serving, stopServing := context.WithCancel(context.WithoutCancel(ctx))
	serverDone := make(chan error, 1)
	go func() { serverDone <- server.run(serving) }()

	err = parts{
		keeper, tenants, consumer, deadLetters, pool, clock, circuits, policies, lanes, replays, announcer, watcher, configDB,
	}.work(ctx, hard, c)
	stopServing()
	if serveErr := <-serverDone; err == nil {
		err = serveErr
	}
	return err
}

// parts are what works; each ends when its context does.
type parts struct {
	keeper      *upkeep.Upkeep
	tenants     *snapshot.Cache
	consumer    *ingest.Consumer
	deadLetters *observer.Observer
	pool        *dispatch.Pool
	clock       *dbclock.Clock
	circuits    *circuit.Board
	policies    *health.Board
	lanes       *upkeep.Lanes
	replays     *replay.Runner
	announcer   *announcer
	watcher     *pull.Watcher
	configDB    *db.DB
}

func (p parts) work(ctx, hard context.Context, c Config) error {
	if err := p.keeper.AwaitSchema(ctx); err != nil {
		return nil // asked to stop while waiting
	}
	c.Log.Info("data plane started", "version", c.Version, "ingest", c.Ingest, "deliver", c.Deliver, "workers", c.Workers)
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return p.keeper.Run(ctx) })
	g.Go(func() error { return p.tenants.Run(ctx) })
	g.Go(func() error { return p.watcher.Run(ctx) })
	if c.Ingest {
		g.Go(func() error { return p.consumer.Run(ctx, hard) })
		g.Go(func() error { return p.consumer.Readmit(ctx, p.configDB) })
		g.Go(func() error { return p.consumer.Relay(ctx, p.configDB) })
		g.Go(func() error { return p.deadLetters.Run(ctx) })
	}
	if c.Ingest && !c.Deliver {
		g.Go(func() error { return p.announcer.run(ctx) })
	}
	if c.Deliver {
		if err := p.clock.Set(ctx); err != nil && ctx.Err() == nil {
			c.Log.Warn("cannot read the database's clock yet; going by this machine's", "error", err)
		}
		g.Go(func() error { return p.clock.Run(ctx) })
		// The boards outlive the pool, to store what its last attempts showed.
		boards, stopBoards := context.WithCancel(context.WithoutCancel(ctx))
		g.Go(func() error { defer stopBoards(); return p.pool.Run(ctx, hard) })
		g.Go(func() error { return p.circuits.Run(boards) })
		g.Go(func() error { return p.policies.Run(boards) })
		g.Go(func() error { return p.lanes.Run(ctx) })
		g.Go(func() error { return p.replays.Run(ctx) })
		g.Go(func() error { return hearDue(ctx, p.configDB, p.pool, c.Log) })
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

// retention says what upkeep drops. What still waits when its event's retention
// ends is ended first: see upkeep.Lanes.
func retention(c Config) []upkeep.Retention {
	list := []upkeep.Retention{
		{Table: "outcome_feed", Keep: feedRetention},
		{Table: "event_keys", Keep: dedupHorizon},
		{Table: "quarantined_records", Keep: quarantineRetention},
	}
	if c.EventRetention > 0 {
		// A day longer than what waits may: its end comes first.
		keep := c.EventRetention + 24*time.Hour
		for _, table := range []string{"events", "deliveries", "attempts", "delivery_results", "replay_items"} {
			list = append(list, upkeep.Retention{Table: table, Keep: keep})
		}
	}
	if c.DLQRetention > 0 {
		list = append(list, upkeep.Retention{Table: "dlq_observations", Keep: c.DLQRetention})
	}
	return list
}

// leaseToken is a random token, never 0 and exact in every language's numbers.
func leaseToken() int64 { return 1 + mathrand.Int64N(1<<53-1) }
