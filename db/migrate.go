package db

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	_ "github.com/jackc/pgx/v5/stdlib" // goose speaks database/sql
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"
)

//go:embed migrations/*.sql
var migrationFiles embed.FS

// Migration is one step of the schema.
type Migration struct {
	Version   int64
	Name      string
	AppliedAt time.Time // zero while it is pending
}

// Migrate brings the schema to the newest version. Several callers at once
// wait for each other. Each step is one transaction with a lock_timeout.
func Migrate(ctx context.Context, dsn string) error {
	return withProvider(dsn, func(p *goose.Provider) error {
		_, err := p.Up(ctx)
		return err
	})
}

// MigrationStatus lists all steps, oldest first.
func MigrationStatus(ctx context.Context, dsn string) (list []Migration, err error) {
	err = withProvider(dsn, func(p *goose.Provider) error {
		status, err := p.Status(ctx)
		for _, s := range status {
			list = append(list, Migration{Version: s.Source.Version, Name: s.Source.Path, AppliedAt: s.AppliedAt})
		}
		return err
	})
	return list, err
}

func withProvider(dsn string, do func(*goose.Provider) error) error {
	conn, err := sql.Open("pgx", dsn)
	if err != nil {
		return fmt.Errorf("read the Postgres DSN: %w", err)
	}
	defer conn.Close()
	files, err := fs.Sub(migrationFiles, "migrations")
	if err != nil {
		return err
	}
	locker, err := lock.NewPostgresSessionLocker()
	if err != nil {
		return err
	}
	p, err := goose.NewProvider(goose.DialectPostgres, conn, files, goose.WithSessionLocker(locker))
	if err != nil {
		return fmt.Errorf("read the migrations: %w", err)
	}
	if err := do(p); err != nil {
		return fmt.Errorf("migrate the schema: %w", err)
	}
	return nil
}

// newestMigration is the version that this program was built with.
func newestMigration() (int64, error) {
	names, err := fs.Glob(migrationFiles, "migrations/*.sql")
	if err != nil {
		return 0, err
	}
	return goose.NumericComponent(names[len(names)-1])
}

// SchemaReady reports whether the schema is at least what this program was
// built with; the error says in words what is missing.
func (d *DB) SchemaReady(ctx context.Context) error {
	want, err := newestMigration()
	if err != nil {
		return err
	}
	var have int64
	err = d.pool.login.QueryRow(ctx, "SELECT coalesce(max(version_id), 0) FROM goose_db_version WHERE is_applied").Scan(&have)
	var pgErr *pgconn.PgError
	switch {
	case errors.As(err, &pgErr) && pgErr.Code == "42P01":
		return fmt.Errorf("the database has no schema yet: run hub migrate up")
	case err != nil:
		return fmt.Errorf("ask Postgres for the schema version: %w", err)
	case have < want:
		return fmt.Errorf("the schema is at version %d, this program needs %d: run hub migrate up", have, want)
	}
	return nil
}
