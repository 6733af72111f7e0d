// Package dbtest gives each test a database of its own with the hub's schema.
//
// A test process starts one throw-away server at the first call, migrates one
// template database, and clones it for every test (about 40 ms each), so that
// tests run in parallel and see nothing of each other. The server ends with
// the process; nobody needs a TestMain. Where STREAMING_HUB_TEST_POSTGRES_DSN
// names a server, that one is used, and processes share its template:
// `make test` does so to start a single server for all packages.
package dbtest

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/streaming-hub/streaming-hub/db"
	"github.com/streaming-hub/streaming-hub/dev/localpg"
	"github.com/streaming-hub/streaming-hub/dev/localpg/dockerpg"
)

// ServerEnv names a server to use instead of starting one; its user must be
// allowed to create databases.
const ServerEnv = "STREAMING_HUB_TEST_POSTGRES_DSN"

// templateLock keeps two test processes from building the same template at
// once. The number is arbitrary, it only has to be the same everywhere.
const templateLock = 7_241_990_311

// shared is the server and template of this test process.
var shared = sync.OnceValues(func() (*cluster, error) {
	ctx := context.Background()
	server, err := localpg.Start(ctx, localpg.Options{
		DSN:    os.Getenv(ServerEnv),
		Unsafe: true,
		Docker: dockerpg.Start,
		// Copying template pages by WAL is the faster way without fsync.
		Settings: map[string]string{"shared_buffers": "256MB"},
	})
	if err != nil {
		return nil, err
	}
	c := &cluster{server: server}
	if err := c.buildTemplate(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("prepare the test template: %w", err), server.Close())
	}
	return c, nil
})

type cluster struct {
	server   *localpg.Server
	template string
}

// New makes a database with the newest schema for this test and returns its
// DSN. It is dropped when the test ends, with whatever is still connected.
func New(t testing.TB) (dsn string) {
	t.Helper()
	c, err := shared()
	if err != nil {
		t.Fatalf("dbtest: %v", err)
	}
	name := "hub_test_" + rand.Text()
	if err := c.exec(t.Context(), "CREATE DATABASE "+quote(name)+" TEMPLATE "+quote(c.template)); err != nil {
		t.Fatalf("dbtest: clone the template: %v", err)
	}
	t.Cleanup(func() {
		if err := c.exec(context.Background(), "DROP DATABASE "+quote(name)+" WITH (FORCE)"); err != nil {
			t.Errorf("dbtest: drop the test's database: %v", err)
		}
	})
	return c.dsn(name)
}

// Pool is New with a pool of connections, closed when the test ends.
func Pool(t testing.TB) *pgxpool.Pool {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), New(t))
	if err != nil {
		t.Fatalf("dbtest: %v", err)
	}
	t.Cleanup(pool.Close)
	return pool
}

// buildTemplate migrates a database of a name that stands for these
// migrations and this day: migrations make partitions for the days around
// them, so yesterday's template would soon run out.
func (c *cluster) buildTemplate(ctx context.Context) error {
	version, err := migrationsHash()
	if err != nil {
		return err
	}
	c.template = fmt.Sprintf("hub_template_%s_%s", version, time.Now().UTC().Format("20060102"))
	conn, err := pgx.Connect(ctx, c.server.DSN())
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	// A session lock: it ends with the connection.
	if _, err := conn.Exec(ctx, "SELECT pg_advisory_lock($1)", int64(templateLock)); err != nil {
		return err
	}
	var there bool
	if err := conn.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)", c.template).Scan(&there); err != nil || there {
		return err
	}
	// Only a finished template gets the final name.
	draft := c.template + "_draft"
	for _, sql := range []string{"DROP DATABASE IF EXISTS " + quote(draft) + " WITH (FORCE)", "CREATE DATABASE " + quote(draft)} {
		if _, err := conn.Exec(ctx, sql); err != nil {
			return err
		}
	}
	if err := db.Migrate(ctx, c.dsn(draft)); err != nil {
		return err
	}
	return retryInUse(ctx, func() error {
		_, err := conn.Exec(ctx, "ALTER DATABASE "+quote(draft)+" RENAME TO "+quote(c.template))
		return err
	})
}

// exec runs one statement on the server's own database.
func (c *cluster) exec(ctx context.Context, sql string) error {
	conn, err := pgx.Connect(ctx, c.server.DSN())
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	return retryInUse(ctx, func() error {
		_, err := conn.Exec(ctx, sql)
		return err
	})
}

// retryInUse repeats a statement on a database in which a backend is still
// ending; a closed connection leaves its backend alive for milliseconds.
func retryInUse(ctx context.Context, do func() error) error {
	const tries, pause = 100, 20 * time.Millisecond
	for n := 1; ; n++ {
		err := do()
		var pgErr *pgconn.PgError
		if n == tries || !errors.As(err, &pgErr) || pgErr.Code != "55006" { // object_in_use
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(pause):
		}
	}
}

// dsn is the server's DSN with another database.
func (c *cluster) dsn(database string) string {
	u, err := url.Parse(c.server.DSN())
	if err != nil || u.Scheme == "" {
		return c.server.DSN() + " dbname=" + database // key=value form: the last one counts
	}
	u.Path = "/" + database
	return u.String()
}

// migrationsHash names the state of the migration files, which tests have
// beside them in the source tree.
func migrationsHash() (string, error) {
	_, file, _, _ := runtime.Caller(0)
	names, err := filepath.Glob(filepath.Join(filepath.Dir(file), "..", "migrations", "*.sql"))
	if err != nil {
		return "", err
	}
	sum := sha256.New()
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			return "", fmt.Errorf("read the migrations: %w", err)
		}
		sum.Write(text)
	}
	return fmt.Sprintf("%x", sum.Sum(nil)[:6]), nil
}

func quote(name string) string { return pgx.Identifier{name}.Sanitize() }
