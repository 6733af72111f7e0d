package db_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/streaming-hub/streaming-hub/db"
	"github.com/streaming-hub/streaming-hub/hub"
)

// walled is the lab's database as the API opens it.
func (l *lab) walled(conns int32) *db.DB {
	l.Helper()
	d, err := db.Open(l.Context(), db.Config{DSN: l.dsn, MaxConns: conns, Hot: true, Walled: true})
	if err != nil {
		l.Fatal(err)
	}
	l.Cleanup(d.Close)
	return d
}

// names is a list of one text column.
func (l *lab) names(sql string, args ...any) []string {
	l.Helper()
	rows, err := l.raw.Query(l.Context(), sql, args...)
	if err != nil {
		l.Fatal(err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		l.Fatal(err)
	}
	return list
}

// tenantTables are the tables with a tenant_id, without partitions.
const tenantTables = `SELECT c.relname FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'tenant_id' AND NOT a.attisdropped
	WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition AND c.relnamespace = 'public'::regnamespace`

func TestWall_every_table_with_a_tenant_has_policies(t *testing.T) {
	l := newLab(t)
	const policy = "((tenant_id = current_setting('hub.tenant'::text, true)) IS TRUE)"
	bare := l.names(tenantTables + ` AND NOT (c.relrowsecurity
		AND EXISTS (SELECT FROM pg_policies p WHERE p.tablename = c.relname AND p.policyname = 'of_tenant' AND p.roles = '{hub_tenant}' AND p.cmd = 'ALL' AND p.qual = '` +
		strings.ReplaceAll(policy, "'", "''") + `' AND p.with_check = p.qual)
		AND EXISTS (SELECT FROM pg_policies p WHERE p.tablename = c.relname AND p.policyname = 'of_platform' AND p.roles = '{hub_platform}' AND p.qual = 'true'))`)
	for _, name := range bare {
		t.Errorf("table %s has a tenant_id and is not behind the wall: let its migration call hub_wall('%s', '…')", name, name)
	}
	// Where no policy holds a tenant back, it may do nothing.
	open := l.names(`SELECT DISTINCT table_name || ': ' || privilege_type FROM information_schema.table_privileges
		WHERE grantee IN ('hub_tenant', 'PUBLIC') AND table_schema = 'public' AND table_name NOT IN (` + tenantTables + `) ORDER BY 1`)
	if want := []string{"outcome_feed: INSERT"}; !slices.Equal(open, want) {
		t.Errorf("rights of hub_tenant without a policy: %v, want %v", open, want)
	}
	if other := l.names(`SELECT tablename || ' ' || policyname FROM pg_policies WHERE policyname NOT IN ('of_tenant', 'of_platform')`); len(other) > 0 {
		t.Errorf("further policies, which would let more through: %v", other)
	}
	t.Run("a_new_table_without_is_found", func(t *testing.T) {
		l.exec(`CREATE TABLE forgotten (id uuid, tenant_id text)`)
		if got := l.names(tenantTables + ` AND NOT c.relrowsecurity`); !slices.Equal(got, []string{"forgotten"}) {
			t.Errorf("found %v", got)
		}
	})
}

// literal is some value of a type, for a row of a tenant.
func literal(column, kind, tenant string) string {
	switch {
	case column == "tenant_id":
		return "'" + tenant + "'"
	case kind == "uuid":
		return "'" + newID().String() + "'"
	case strings.HasSuffix(kind, "[]"):
		return "'{}'"
	case strings.HasPrefix(kind, "timestamp"):
		return "now()"
	case kind == "jsonb" || kind == "json":
		return "'{}'"
	case kind == "boolean":
		return "false"
	case kind == "interval":
		return "'1h'"
	case kind == "text" || kind == "bytea":
		return "'" + newID().String() + "'"
	}
	return "1"
}

// insertInto is a statement that makes a row of a tenant.
func (l *lab) insertInto(table, tenant string) string {
	l.Helper()
	columns := l.names(`SELECT attname || ' ' || format_type(atttypid, NULL) FROM pg_attribute
		WHERE attrelid = $1::text::regclass AND attnum > 0 AND NOT attisdropped AND (attnotnull OR attname = 'tenant_id') ORDER BY attnum`, table)
	var names, values []string
	for _, c := range columns {
		name, kind, _ := strings.Cut(c, " ")
		names, values = append(names, name), append(values, literal(name, kind, tenant))
	}
	return fmt.Sprintf("INSERT INTO %s (%s) VALUES (%s)", table, strings.Join(names, ", "), strings.Join(values, ", "))
}

// Any statement, whatever it asks for, reaches rows of the scope's tenant only.
func TestWall_a_tenant_reaches_only_its_own_rows(t *testing.T) {
	l := newLab(t)
	// Rows here are made of any values.
	l.exec(`DO $$ DECLARE c record; BEGIN
		FOR c IN SELECT conrelid::regclass t, conname FROM pg_constraint WHERE contype IN ('c', 'f') AND coninhcount = 0 AND connamespace = 'public'::regnamespace
		LOOP EXECUTE format('ALTER TABLE %s DROP CONSTRAINT %I', c.t, c.conname); END LOOP; END $$`)
	d := l.walled(2)
	run := db.StatementsOf(d)
	stranger, platform := db.OfTenant(t.Context(), "stranger"), db.OfPlatform(t.Context())
	for _, table := range l.names(tenantTables + ` ORDER BY 1`) {
		t.Run(table, func(t *testing.T) {
			l.exec(l.insertInto(table, "acme"))
			l.exec(l.insertInto(table, "stranger"))
			may := func(right string) bool {
				return l.count(`SELECT has_table_privilege('hub_tenant', $1, $2)::int`, table, right) == 1
			}
			count := func(ctx context.Context, where string) (n int) {
				if err := run.QueryRow(ctx, `SELECT count(*) FROM `+table+` `+where).Scan(&n); err != nil {
					t.Fatal(err)
				}
				return n
			}
			refused := func(what, sql string) {
				t.Helper()
				_, err := run.Exec(stranger, sql)
				var pgErr *pgconn.PgError
				if !errors.As(err, &pgErr) || pgErr.Code != "42501" { // insufficient_privilege
					t.Errorf("%s: %v", what, err)
				}
			}
			untouched := func(what, sql string) {
				t.Helper()
				tag, err := run.Exec(stranger, sql)
				if err != nil || tag.RowsAffected() != 0 {
					t.Errorf("%s: %d rows, %v", what, tag.RowsAffected(), err)
				}
			}
			if n := count(platform, ""); n != 2 {
				t.Errorf("the platform sees %d rows", n)
			}
			if !may("SELECT") {
				refused("reading", `SELECT FROM `+table)
			} else if all, foreign := count(stranger, ""), count(stranger, `WHERE tenant_id = 'acme'`); all != 1 || foreign != 0 {
				t.Errorf("stranger sees %d rows, %d of acme", all, foreign)
			}
			if refused("a foreign row", l.insertInto(table, "acme")); may("INSERT") {
				if _, err := run.Exec(stranger, l.insertInto(table, "stranger")); err != nil {
					t.Logf("an own row: %v", err) // the tenant's counter is there already
				}
			}
			if may("UPDATE") {
				refused("giving a row away", `UPDATE `+table+` SET tenant_id = 'acme'`)
				untouched("changing a foreign row", `UPDATE `+table+` SET tenant_id = 'stranger' WHERE tenant_id = 'acme'`)
			} else {
				refused("changing", `UPDATE `+table+` SET tenant_id = 'stranger'`)
			}
			if may("DELETE") {
				untouched("deleting a foreign row", `DELETE FROM `+table+` WHERE tenant_id = 'acme'`)
			} else {
				refused("deleting", `DELETE FROM `+table)
			}
			refused("emptying", `TRUNCATE `+table)
		})
	}
	t.Run("a_partition_by_its_own_name", func(t *testing.T) {
		leaf := l.names(`SELECT c.relname FROM pg_class c WHERE c.relispartition AND c.relname LIKE 'events_p%' LIMIT 1`)[0]
		for _, ctx := range []context.Context{stranger, platform} {
			if _, err := run.Exec(ctx, `SELECT FROM `+leaf); err == nil {
				t.Errorf("%s can be read directly", leaf)
			}
		}
	})
}

func TestWall_a_call_for_nobody_is_refused(t *testing.T) {
	l := newLab(t)
	d := l.walled(2)
	_, one := d.SubscriptionPage(t.Context(), "acme", newID(), 1)
	_, many := d.DeliveryPage(t.Context(), db.DeliveryFilter{Tenant: "acme"}, newID(), 1)
	_, single := d.FeedSnapshot(t.Context())
	for _, err := range []error{one, many, single} {
		if !errors.Is(err, db.ErrNoScope) {
			t.Errorf("%v", err)
		}
	}
	for _, none := range []hub.TenantID{"", "x', true); DROP TABLE events; --"} {
		if _, err := d.SubscriptionPage(db.OfTenant(t.Context(), none), "", newID(), 1); err == nil {
			t.Errorf("a tenant that is none, %q, was let in", none)
		}
	}
	if err := d.Ingest(db.OfPlatform(t.Context()), db.IngestBatch{}, nil); err == nil {
		t.Error("the data plane's work was done")
	}
	if err := errors.Join(d.Ping(t.Context()), d.SchemaReady(t.Context())); err != nil {
		t.Errorf("readiness needs no scope: %v", err)
	}
}

// The name of the tenant ends with the transaction, and a connection is given
// back whatever became of its statement.
func TestWall_leaves_nothing_on_the_connection(t *testing.T) {
	l := newLab(t)
	l.queue(laneOf("acme"), 3)
	d := l.walled(1)
	run, acme := db.StatementsOf(d), db.OfTenant(t.Context(), "acme")
	look := func(after string) {
		t.Helper()
		var tenant, role string
		var n int
		err := db.TenantPoolOf(d).QueryRow(t.Context(), `SELECT coalesce(current_setting('hub.tenant', true), ''), current_user::text, (SELECT count(*) FROM delivery_queue)`).Scan(&tenant, &role, &n)
		if err != nil || tenant != "" || role != "hub_tenant" || n != 0 {
			t.Errorf("after %s: tenant %q, role %s, %d rows, %v", after, tenant, role, n, err)
		}
	}
	look("nothing")
	var n int
	if err := run.QueryRow(acme, `SELECT count(*) FROM delivery_queue`).Scan(&n); err != nil || n != 3 {
		t.Errorf("%d rows, %v", n, err)
	}
	look("a row")
	if err := run.QueryRow(acme, `SELECT attempts FROM delivery_queue WHERE false`).Scan(&n); !errors.Is(err, pgx.ErrNoRows) {
		t.Error(err)
	}
	look("no row")
	rows, err := run.Query(acme, `SELECT id FROM delivery_queue`)
	if err != nil {
		t.Fatal(err)
	}
	rows.Next()
	rows.Close()
	look("rows that were not read to their end")
	if ids, err := run.Query(acme, `SELECT id FROM delivery_queue`); err != nil {
		t.Fatal(err)
	} else if list, err := pgx.CollectRows(ids, pgx.RowTo[[16]byte]); len(list) != 3 || err != nil {
		t.Errorf("%v, %v", list, err)
	}
	look("rows")
	if _, err := run.Query(acme, `SELECT nonsense`); err == nil {
		t.Error("nonsense was understood")
	}
	look("a statement that is none")
	if rows, err := run.Query(acme, `SELECT 1 / (n - 2) FROM generate_series(1, 3) n`); err == nil {
		for rows.Next() {
			continue
		}
		if rows.Err() == nil {
			t.Error("no error")
		}
	}
	look("rows that break off")
	if _, err := run.Exec(acme, `UPDATE delivery_queue SET attempts = -1`); err == nil {
		t.Error("no error")
	}
	look("a statement that fails")
	if _, err := d.DeliveryPage(acme, db.DeliveryFilter{}, hub.FloorID(newID().Time()), 1); err != nil {
		t.Error(err)
	}
	look("a transaction")
}
