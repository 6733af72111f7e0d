package db_test

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/streaming-hub/streaming-hub/db"
)

func TestMigrate_needs_no_right_to_make_roles(t *testing.T) {
	l := newLab(t) // whose server has the roles by now
	name := "hub_test_migrator_" + strings.ReplaceAll(text(newID()), "-", "")
	l.exec(`CREATE ROLE ` + name + ` LOGIN PASSWORD 'test'`)
	l.exec(`CREATE DATABASE ` + name + ` OWNER ` + name)
	t.Cleanup(func() {
		for _, sql := range []string{`DROP DATABASE ` + name + ` WITH (FORCE)`, `DROP ROLE ` + name} {
			if _, err := l.raw.Exec(context.Background(), sql); err != nil {
				t.Error(err)
			}
		}
	})
	u, err := url.Parse(l.dsn)
	if err != nil {
		t.Fatal(err)
	}
	u.User, u.Path = url.UserPassword(name, "test"), "/"+name
	err = db.Migrate(t.Context(), u.String())
	var pgErr *pgconn.PgError
	if !errors.As(err, &pgErr) || !strings.Contains(pgErr.Hint, "GRANT hub_tenant, hub_platform TO "+name) {
		t.Fatalf("without the administrator: %v", err)
	}
	l.exec(`GRANT hub_tenant, hub_platform TO ` + name)
	if err := db.Migrate(t.Context(), u.String()); err != nil {
		t.Fatalf("after the administrator: %v", err)
	}
	d, err := db.Open(t.Context(), db.Config{DSN: u.String(), Walled: true})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	for _, ctx := range []context.Context{db.OfTenant(t.Context(), "acme"), db.OfPlatform(t.Context())} {
		if list, err := d.SubscriptionPage(ctx, "", newID(), 1); err != nil || len(list) != 0 {
			t.Errorf("%v, %v", list, err)
		}
	}
}
