package db_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/streaming-hub/streaming-hub/db"
	"github.com/streaming-hub/streaming-hub/db/internal/dbsqlc"
)

// A chore that finds a million rows must not sort or scan them.
func TestLanePlans_do_not_depend_on_statistics(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.exec("ALTER TABLE delivery_queue SET (autovacuum_enabled = off)")
	const id = "'00000000-0000-0000-0000-000000000000'"
	noFullSort := `->  Sort\b`
	plans := []hotPlan{
		{
			name: "LaneStretch", sql: dbsqlc.LaneStretch, args: "'tenant1', " + id + ", now(), " + id + ", 500",
			must: []string{
				`Index Scan using delivery_queue_lane on delivery_queue`, `Presorted Key: due_at`,
				`Index Cond: \(\(tenant_id = \$1\) AND \(destination_id = \$2\) AND \(due_at >= \$3\) AND \(due_at < 'infinity'`,
			},
			mustNot: []string{noFullSort},
		},
		{
			name: "HeldStretch", sql: dbsqlc.HeldStretch, args: id + ", " + id + ", 500",
			must: []string{
				`Index( Only)? Scan using delivery_queue_held on delivery_queue`, `Index Cond: \(\(subscription_id = \$1\) AND \(id > \$2\)\)`,
			},
			mustNot: []string{noFullSort},
		},
		{
			name: "StaleLasts", sql: dbsqlc.StaleLasts, args: id + ", " + id + ", 500",
			must:    []string{`Index Scan using delivery_queue_pkey on delivery_queue`, `Index Cond: \(\(id > \$1\) AND \(id < \$2\)\)`},
			mustNot: []string{noFullSort},
		},
		{name: "HoldDeliveries", sql: dbsqlc.HoldDeliveries, args: "ARRAY[" + id + "::uuid]", must: []string{`delivery_queue_pkey`}},
		{name: "ResumeDeliveries", sql: dbsqlc.ResumeDeliveries, args: id + ", ARRAY[" + id + "::uuid]", must: []string{`delivery_queue_pkey`}},
		{name: "TakeDeliveries", sql: dbsqlc.TakeDeliveries, args: "ARRAY[" + id + "::uuid]", must: []string{`delivery_queue_pkey`}},
	}
	check := func(statistics string) {
		conn, err := pgx.Connect(t.Context(), l.dsn) // no hot one
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close(context.Background()) })
		if _, err := conn.Exec(t.Context(), "BEGIN; SET LOCAL plan_cache_mode = force_generic_plan; "+db.ByIndex); err != nil {
			t.Fatal(err)
		}
		for _, p := range plans {
			t.Run(statistics+"/"+p.name, func(t *testing.T) { p.check(t, conn) })
		}
	}
	l.exec("ANALYZE")
	check("empty")
	l.exec(`INSERT INTO delivery_queue (id, tenant_id, destination_id, subscription_id, event_id, due_at, received_at, body_bytes)
		SELECT gen_random_uuid(), 'tenant' || n % 2, md5((n % 2)::text)::uuid, md5((n % 4)::text)::uuid, gen_random_uuid(),
			CASE WHEN n % 3 = 0 THEN 'infinity' ELSE now() + n * interval '1 ms' END, now(), 100
		FROM generate_series(1, 20000) n`)
	check("stale")
	l.exec("ANALYZE")
	check("fresh")
}
