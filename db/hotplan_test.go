package db_test

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/streaming-hub/streaming-hub/db"
	"github.com/streaming-hub/streaming-hub/db/internal/dbsqlc"
	"github.com/streaming-hub/streaming-hub/hub"
)

// hotPlan is a statement with what its plan must and must not hold.
type hotPlan struct {
	name, sql string
	args      string // SQL literals; NOW is the smallest id of this moment
	must      []string
	mustNot   []string
}

// hotPlans are the statements of ingest and dispatch with the plans that they
// are written for. A statement that gets another one is up to a thousand times
// slower, and no functional test would notice.
var hotPlans = []hotPlan{
	{
		name: "LanesAfter", sql: dbsqlc.LanesAfter, args: "'', '00000000-0000-0000-0000-000000000000', 400",
		must: []string{
			`(?s)Index Only Scan using delivery_queue_lane on delivery_queue q\b.*Index Only Scan using delivery_queue_lane on delivery_queue q_1`,
			`Index Cond: \(ROW\(tenant_id, destination_id\) > ROW\(lanes(_\d)?\.tenant_id, lanes(_\d)?\.destination_id\)\)`,
		},
		mustNot: []string{`Sort Key`},
	},
	{
		name: "ClaimLanes", sql: dbsqlc.ClaimLanes, args: "'1 min', ARRAY['a'], ARRAY['00000000-0000-0000-0000-000000000000'::uuid], ARRAY[10]",
		must: []string{
			`Index Scan using delivery_queue_lane on delivery_queue q_1`,
			`Index Cond: \(\(tenant_id = .*\) AND \(destination_id = .*\) AND \(due_at <= now\(\)\)\)`,
			`(Index|Bitmap Index) Scan (using|on) delivery_queue_pkey`,
		},
		mustNot: []string{`Sort Key`},
	},
	{
		name: "OldestDue", sql: dbsqlc.OldestDue, args: "1000",
		must: []string{`Index( Only)? Scan using delivery_queue_lane on delivery_queue q\b`, `due_at <= now\(\)`},
	},
	{
		name: "SettleQueue", sql: dbsqlc.SettleQueue, args: "ARRAY['00000000-0000-0000-0000-000000000000'::uuid], ARRAY[1]",
		must: []string{`Nested Loop`, `Index Scan using delivery_queue_pkey on delivery_queue`},
	},
	{
		name: "RescheduleQueue", sql: dbsqlc.RescheduleQueue,
		args: "ARRAY['00000000-0000-0000-0000-000000000000'::uuid], ARRAY[1], ARRAY[now()], ARRAY[1], ARRAY[1], ARRAY[now()], ARRAY[now()]",
		must: []string{`Nested Loop`, `Index Scan using delivery_queue_pkey on delivery_queue`},
	},
	{
		name: "ReleaseLeases", sql: dbsqlc.ReleaseLeases,
		args: "ARRAY['00000000-0000-0000-0000-000000000000'::uuid], ARRAY[1], ARRAY[0], ARRAY[true], ARRAY['00000000-0000-0000-0000-000000000000'::uuid]",
		must: []string{`Nested Loop`, `Index Scan using delivery_queue_pkey on delivery_queue`},
	},
	{
		// Only rows that may run behind an open circuit are looked at.
		name: "ClaimLast", sql: dbsqlc.ClaimLast, args: "'1 min', ARRAY['a'], ARRAY['00000000-0000-0000-0000-000000000000'::uuid], ARRAY[10], ARRAY[false]",
		must: []string{
			`Index Scan using delivery_queue_last on delivery_queue q_1`,
			`Index Cond: \(\(tenant_id = .*\) AND \(destination_id = .*\) AND \(last_at <= now\(\)\)\)`,
		},
		mustNot: []string{`Sort Key`},
	},
	{
		name: "BeginAlone", sql: dbsqlc.BeginAlone, args: "'1 min', '00000000-0000-0000-0000-000000000000'::uuid, 1",
		must: []string{`Index Scan using delivery_queue_pkey`},
	},
	{
		name: "LockTenants", sql: dbsqlc.LockTenants, args: "ARRAY['a']",
		must: []string{`Scan (using|on) tenant_counters_pkey`},
	},
	{
		name: "AdvanceSeq", sql: dbsqlc.AdvanceSeq, args: "ARRAY['a'], ARRAY[2]",
		must: []string{`Index Scan using tenant_counters_pkey`},
	},
	{
		name: "KnownKeys", sql: dbsqlc.KnownKeys, args: "ARRAY['00000000-0000-0000-0000-000000000000'::uuid]",
		must:    []string{`(Index|Bitmap Index) Scan (using|on) event_keys_p\d+_\d+_key_idx`},
		mustNot: []string{`Filter: \(key`},
	},
	{
		// One day's events: the bounds leave one partition of the four.
		name: "EventsByID", sql: dbsqlc.EventsByID, args: "ARRAY['NOW'::uuid], 'NOW', 'NOW'",
		must:    []string{`(Index|Bitmap Index) Scan (using|on) events_p\d+_\d+_pkey`, `Subplans Removed: [3-9]`},
		mustNot: []string{`(?s)on events_p.*(->|Scan) .*on events_p\d+_\d+ events_2`},
	},
}

func TestHotPlans_do_not_depend_on_statistics(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	for _, table := range []string{"delivery_queue", "tenant_counters"} {
		l.exec("ALTER TABLE " + table + " SET (autovacuum_enabled = off)")
	}
	check := func(statistics string) {
		conn := l.hotConn()
		for _, p := range hotPlans {
			t.Run(statistics+"/"+p.name, func(t *testing.T) { p.check(t, conn) })
		}
	}
	// The planner's belief is that of a quiet moment, in which a connection
	// may well make the plan that it keeps; then the flood comes.
	l.exec("ANALYZE")
	check("empty")
	l.exec(`INSERT INTO tenant_counters (tenant_id) SELECT 'tenant' || n FROM generate_series(0, 1999) n`)
	l.exec(`INSERT INTO delivery_queue (id, tenant_id, destination_id, subscription_id, event_id, due_at, received_at, body_bytes)
		SELECT gen_random_uuid(), 'tenant' || n % 20, md5((n % 200)::text)::uuid, gen_random_uuid(), gen_random_uuid(), now(), now(), 100
		FROM generate_series(1, 20000) n`)
	today := text(hub.FloorID(time.Now()))
	l.exec(`INSERT INTO event_keys SELECT gen_random_uuid(), gen_random_uuid(), '` + today + `' FROM generate_series(1, 20000)`)
	l.exec(`INSERT INTO events SELECT (left('` + today + `', 14) || right(gen_random_uuid()::text, 22))::uuid, 'a', n, '', '', '', '', 1,
		now(), '', 0, 0, '{}', '' FROM generate_series(1, 20000) n`)

	check("stale")
	l.exec("ANALYZE")
	check("fresh")
}

// check compares the generic plan of the statement with what it is written for.
func (p *hotPlan) check(t *testing.T, conn *pgx.Conn) {
	today := text(hub.FloorID(time.Now()))
	plan := explain(t, conn, p.name, p.sql, strings.ReplaceAll(p.args, "NOW", today))
	mustNot := append([]string{`Seq Scan on (delivery_queue|events|event_keys|tenant_counters)`, `Hash Join`, `Merge Join`}, p.mustNot...)
	for _, re := range p.must {
		if !regexp.MustCompile(re).MatchString(plan) {
			t.Errorf("the plan lacks %q", re)
		}
	}
	for _, re := range mustNot {
		if regexp.MustCompile(re).MatchString(plan) {
			t.Errorf("the plan has %q", re)
		}
	}
	if t.Failed() {
		t.Log(plan)
	}
}

// hotConn is a connection with the settings of ingest and dispatch.
func (l *lab) hotConn() *pgx.Conn {
	l.Helper()
	config, err := pgx.ParseConfig(l.dsn)
	if err != nil {
		l.Fatal(err)
	}
	for name, value := range db.HotSession {
		config.RuntimeParams[name] = value
	}
	conn, err := pgx.ConnectConfig(l.Context(), config)
	if err != nil {
		l.Fatal(err)
	}
	l.Cleanup(func() { conn.Close(context.Background()) })
	return conn
}

// explain is the generic plan of a statement.
func explain(t *testing.T, conn *pgx.Conn, name, sql, args string) string {
	t.Helper()
	if _, err := conn.Exec(t.Context(), fmt.Sprintf("PREPARE %s AS %s", name, sql), pgx.QueryExecModeSimpleProtocol); err != nil {
		t.Fatal(err)
	}
	rows, err := conn.Query(t.Context(), fmt.Sprintf("EXPLAIN (COSTS off) EXECUTE %s(%s)", name, args), pgx.QueryExecModeSimpleProtocol)
	if err != nil {
		t.Fatal(err)
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(lines, "\n")
}
