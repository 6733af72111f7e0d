package db_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
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
	if _, err := d.SubscriptionPage(db.OfTenant(t.Context(), "x', true); DROP TABLE events; --"), "", newID(), 1); err == nil {
		t.Error("a tenant that is none was let in")
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

// The methods of DB, called as if the application's own filter had been
// forgotten.
func TestWall_methods_without_a_filter_show_nothing_foreign(t *testing.T) {
	l := newLab(t)
	d := l.walled(4)
	sub := l.deadLetterOf("acme")
	newest := hub.ID{0xff, 0xff}
	one := func(ctx context.Context) (found map[string]int) {
		found = map[string]int{}
		note := func(what string, n int, err error) {
			if err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			found[what] = n
		}
		deliveries, err := d.DeliveryPage(ctx, db.DeliveryFilter{}, newest, 10)
		note("DeliveryPage", len(deliveries.Deliveries), err)
		dead, err := d.DeadLetterPage(ctx, db.DeadLetterFilter{}, newest, 10)
		note("DeadLetterPage", len(dead.Deliveries), err)
		byID, err := d.DeliveriesByID(ctx, []hub.DeliveryID{sub.delivery.ID})
		note("DeliveriesByID", len(byID), err)
		events, err := d.EventPage(ctx, newest, 10)
		note("EventPage", len(events.Events), err)
		heads, err := d.EventHeadsByID(ctx, []hub.EventID{sub.delivery.Event})
		note("EventHeadsByID", len(heads), err)
		bodies, err := d.EventBodies(ctx, []hub.EventID{sub.delivery.Event})
		note("EventBodies", len(bodies), err)
		subs, err := d.SubscriptionPage(ctx, "", newest, 10)
		note("SubscriptionPage", len(subs), err)
		subs, err = d.SubscriptionsByID(ctx, []hub.SubscriptionID{sub.delivery.Subscription})
		note("SubscriptionsByID", len(subs), err)
		dests, err := d.DestinationsByID(ctx, []hub.DestinationID{sub.delivery.Destination})
		note("DestinationsByID", len(dests), err)
		tokens, err := d.ListTokens(ctx, "")
		note("ListTokens", len(tokens), err)
		log, err := d.AuditPage(ctx, db.AuditFilter{}, newest, 10)
		note("AuditPage", len(log.Rows), err)
		observed, err := d.ObservationPage(ctx, db.ObservationFilter{}, newest, 10)
		note("ObservationPage", len(observed.Rows), err)
		return found
	}
	for _, of := range []struct {
		who  string
		ctx  context.Context
		want int
	}{
		{"acme", db.OfTenant(t.Context(), "acme"), 1}, {"platform", db.OfPlatform(t.Context()), 1}, {"stranger", db.OfTenant(t.Context(), "stranger"), 0},
	} {
		for method, n := range one(of.ctx) {
			if n != of.want {
				t.Errorf("%s by %s: %d rows, want %d", method, of.who, n, of.want)
			}
		}
	}
	stranger := db.OfTenant(t.Context(), "stranger")
	if found, err := d.RevokeToken(stranger, sub.token); err != nil || found {
		t.Errorf("revoked a foreign token: %t, %v", found, err)
	}
	_, err := d.BeginRun(stranger, db.RunRequest{Delivery: sub.delivery.ID, Tenant: "acme", Action: "redeliver",
		Judge: func(*db.RunState) (bool, error) { return true, nil }})
	if !errors.Is(err, db.ErrChanged) {
		t.Errorf("a run of a foreign delivery: %v", err)
	}
	_, _, err = d.CreateSubscription(stranger, db.NewSubscription{
		Subscription: hub.EventSubscription{ID: hub.SubscriptionID{ID: newID()}, Tenant: "acme", Name: "x", EventTypes: []string{"*"}, Kind: hub.SinkPull, Timeout: hub.MinTimeout, VerificationState: hub.VerificationPending},
		Destination:  hub.Destination{ID: hub.DestinationID{ID: newID()}, Tenant: "acme", Kind: hub.SinkPull},
	})
	var pgErr *pgconn.PgError
	if !errors.As(err, &pgErr) || pgErr.Code != "42501" {
		t.Errorf("made a subscription for acme: %v", err)
	}
	l.wantCount("settings of acme changed", 1, `SELECT config_version FROM tenant_counters WHERE tenant_id = 'acme'`)
}

// deadLetter is what one dead letter consists of.
type deadLetter struct {
	delivery hub.Delivery
	token    hub.TokenID
}

// deadLetterOf makes one row of everything that the API shows a tenant.
func (l *lab) deadLetterOf(tenant hub.TenantID) (d deadLetter) {
	l.Helper()
	d.delivery = hub.Delivery{
		ID: hub.DeliveryID{ID: newID()}, Event: hub.EventID{ID: newID()}, Tenant: tenant,
		Subscription: hub.SubscriptionID{ID: newID()}, Destination: hub.DestinationID{ID: newID()},
	}
	d.token = hub.TokenID{ID: newID()}
	event, sub, dest, delivery := text(d.delivery.Event), text(d.delivery.Subscription), text(d.delivery.Destination), text(d.delivery.ID)
	l.exec(`INSERT INTO tenant_counters (tenant_id) VALUES ($1)`, string(tenant))
	l.exec(`INSERT INTO destinations (id, tenant_id, kind, url, created_at) VALUES ($1, $2, 'WEBHOOK', 'https://example.com/', now())`, dest, string(tenant))
	l.exec(`INSERT INTO destination_secrets (id, tenant_id, destination_id, version, key_id, wrapped_key, ciphertext, created_at) VALUES ($1, $2, $3, 1, 'k', '', '', now())`, text(newID()), string(tenant), dest)
	l.exec(`INSERT INTO event_subscriptions (id, tenant_id, name, event_types, destination_id, kind, created_at, updated_at) VALUES ($1, $2, 'x', '{*}', $3, 'WEBHOOK', now(), now())`, sub, string(tenant), dest)
	l.exec(`INSERT INTO events VALUES ($1, $2, 1, 's', 'c', 'a.b', '1', 1, now(), 't', 0, 0, '{"time":"2026-01-31T12:04:05Z"}', '')`, event, string(tenant))
	l.exec(`INSERT INTO deliveries VALUES ($1, $2, $3, $4, $5)`, delivery, string(tenant), event, sub, dest)
	l.exec(`INSERT INTO delivery_results (id, tenant_id, delivery_id, run, state, dead_reason) VALUES ($1, $2, $3, 1, 'DEAD', 'EXPIRED')`, text(newID()), string(tenant), delivery)
	l.exec(`INSERT INTO api_tokens (id, tenant_id, name, role, hash, created_at) VALUES ($1, $2, 'x', 'ADMIN', decode(repeat('00', 32), 'hex'), now())`, text(d.token), string(tenant))
	l.exec(`INSERT INTO audit_log (id, tenant_id, actor_name, action, object) VALUES ($1, $2, 'x', 'x', 'x')`, text(newID()), string(tenant))
	l.exec(`INSERT INTO dlq_observations VALUES ($1, $2, 'PRODUCER', 't', 0, 0, NULL, NULL, NULL, now(), '{}', '', 0)`, text(newID()), string(tenant))
	return d
}

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
