// Package db keeps the hub's state in Postgres. One .sql file and one .go
// file per aggregate; an exported method is one transaction. The SQL lives in
// queries/, is compiled by sqlc into internal/dbsqlc and never leaves this
// package: callers speak in the words of package hub.
//
// The statements of the hot path (ingest, claim, outcomes) are built so that
// their plans do not depend on statistics, which are always wrong for a queue:
// see hotSession.
package db

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/streaming-hub/streaming-hub/db/internal/dbsqlc"
)

// Config says how to reach Postgres. Each kind of work opens a DB of its own,
// so that no kind can take the connections of another.
type Config struct {
	DSN string
	// MaxConns bounds the pool; 0 means 4.
	MaxConns int32
	// Hot pins the planner's choices for ingest and dispatch.
	Hot bool
	// Walled lets each call reach only what its context says it is for (see
	// OfTenant and OfPlatform), by row level security. It has a pool for either
	// kind of call, of MaxConns connections each.
	Walled bool
	// Name shows in pg_stat_activity.
	Name string
}

// DB is a pool of connections with the hub's statements.
type DB struct {
	pool    *pool
	queries *dbsqlc.Queries
}

// hotSession are the settings of connections that work on the queue. A queue
// that autovacuum saw empty makes the planner believe that it holds one row,
// and the plans that follow are up to a thousand times slower. The statements
// are written for index look-ups by key; these settings leave no other choice.
var hotSession = map[string]string{
	"plan_cache_mode":  "force_generic_plan",
	"enable_seqscan":   "off",
	"enable_hashjoin":  "off",
	"enable_mergejoin": "off",
	"jit":              "off",
}

// Open makes the pool. It does not connect: a database that is away shows at
// the first use, and the caller waits and tries again.
func Open(ctx context.Context, c Config) (*DB, error) {
	pc, err := pgxpool.ParseConfig(c.DSN)
	if err != nil {
		return nil, fmt.Errorf("read the Postgres DSN: %w", err)
	}
	pc.MaxConns = c.MaxConns
	if pc.MaxConns <= 0 {
		pc.MaxConns = 4
	}
	pc.ConnConfig.ConnectTimeout = 5 * time.Second
	params := pc.ConnConfig.RuntimeParams
	params["timezone"] = "UTC"
	params["lock_timeout"] = "10s"
	params["idle_in_transaction_session_timeout"] = "30s"
	if c.Name != "" {
		params["application_name"] = c.Name
	}
	if c.Hot {
		for name, value := range hotSession {
			params[name] = value
		}
	} else {
		params["statement_timeout"] = "10s"
	}
	pc.AfterConnect = func(_ context.Context, conn *pgx.Conn) error {
		registerTypes(conn.TypeMap())
		return nil
	}
	p := new(pool)
	if c.Walled {
		err = p.openWall(ctx, pc)
		pc.MaxConns = 2 // for readiness and notifications only
	}
	if err == nil {
		p.login, err = pgxpool.NewWithConfig(ctx, pc)
	}
	if err != nil {
		p.Close()
		return nil, fmt.Errorf("open the Postgres pool: %w", err)
	}
	return &DB{pool: p, queries: dbsqlc.New()}, nil
}

// closeTime is how long a server that hangs may keep Close waiting.
const closeTime = time.Second

// Close waits for the connections that are in use and closes them. Those whose
// server does not answer their farewell end with the process.
func (d *DB) Close() {
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		d.pool.Close()
	}()
	select {
	case <-closed:
	case <-time.After(closeTime):
	}
}

// Ping reports whether Postgres answers.
func (d *DB) Ping(ctx context.Context) error {
	if err := d.pool.login.Ping(ctx); err != nil {
		return fmt.Errorf("reach Postgres: %w", err)
	}
	return nil
}
