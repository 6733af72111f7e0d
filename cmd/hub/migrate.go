package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/streaming-hub/streaming-hub/db"
)

type migrateCommand struct {
	PostgresDSN string `help:"Postgres; otherwise STREAMING_HUB_POSTGRES_DSN."`

	Up     migrateUp     `cmd:"" help:"Apply every migration that is pending."`
	Status migrateStatus `cmd:"" help:"Show which migrations are applied; exit code 1 when one is pending."`
}

// dsnOr is the flag's DSN, else the setting's.
func dsnOr(flag string) (string, error) {
	if flag != "" {
		return flag, nil
	}
	s, err := load()
	if err != nil {
		return "", err
	}
	if s.PostgresDSN.IsZero() {
		return "", errors.New("which Postgres? Give --postgres-dsn or set STREAMING_HUB_POSTGRES_DSN")
	}
	return string(s.PostgresDSN.Reveal()), nil
}

type migrateUp struct{}

func (migrateUp) Run(ctx context.Context, c *commands, out io.Writer) error {
	dsn, err := dsnOr(c.Migrate.PostgresDSN)
	if err != nil {
		return err
	}
	if err := db.Migrate(ctx, dsn); err != nil {
		return err
	}
	list, err := db.MigrationStatus(ctx, dsn)
	if err != nil {
		return err
	}
	if len(list) == 0 {
		return errors.New("this program holds no migrations")
	}
	_, err = fmt.Fprintf(out, "The schema is at version %d.\n", list[len(list)-1].Version)
	return err
}

type migrateStatus struct{}

func (migrateStatus) Run(ctx context.Context, c *commands, out io.Writer) error {
	dsn, err := dsnOr(c.Migrate.PostgresDSN)
	if err != nil {
		return err
	}
	list, err := db.MigrationStatus(ctx, dsn)
	if err != nil {
		return err
	}
	pending := 0
	for _, m := range list {
		when := "pending"
		if m.AppliedAt.IsZero() {
			pending++
		} else {
			when = m.AppliedAt.UTC().Format(time.RFC3339)
		}
		if _, err := fmt.Fprintf(out, "%-22s %s\n", when, m.Name); err != nil {
			return err
		}
	}
	if pending > 0 {
		return fmt.Errorf("%d of %d migrations are pending: run hub migrate up", pending, len(list))
	}
	return nil
}
