package db_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/streaming-hub/streaming-hub/db"
	"github.com/streaming-hub/streaming-hub/db/internal/dbsqlc"
)

// A job of a hundred thousand items is walked piece by piece: no piece may sort
// or scan all of it, whatever the planner believes of its size.
func TestReplayPlans_do_not_depend_on_statistics(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	for _, leaf := range l.names(`SELECT c.oid::regclass::text FROM pg_class c WHERE c.relkind = 'r'
		AND (c.relname = 'replay_jobs' OR c.relname ~ '^(replay_items|delivery_results|deliveries|events|attempts)_p')`) {
		l.exec("ALTER TABLE " + leaf + " SET (autovacuum_enabled = off)")
	}
	const id, ids = "'00000000-0000-0000-0000-000000000000'", "ARRAY['NOW'::uuid]"
	today := text(newID())[:14]
	job := "'" + today + "7000-8000-000000000000'"
	const end = "'ffffffff-0000-0000-0000-000000000000'"
	fullSort, scan := `->  Sort\b`, `Seq Scan on (replay|deliver|attempts|events)`
	walk := func(name, sql, first, index, cond string) hotPlan {
		return hotPlan{
			name: name, sql: sql, args: first + id + ", 'NOW', " + end + ", 500",
			must: []string{`Index( Only)? Scan using \w+` + index, cond + `\(id > '.*'::uuid\) AND \(id >= '.*'::uuid\) AND \(id < '.*'::uuid\)`}, mustNot: []string{`Sort Key`, scan},
		}
	}
	plans := []hotPlan{
		{
			name: "ReplayItemsFrom", sql: dbsqlc.ReplayItemsFrom, args: job + ", 50000, 500",
			must: []string{`Index Scan using replay_items_\w*job_id_ordinal_idx`, `Index Cond: \(\(job_id = '.*'::uuid\) AND \(ordinal >= '50000'`}, mustNot: []string{fullSort, scan},
		},
		{
			name: "SettleReplayItems", sql: dbsqlc.SettleReplayItems, args: job + ", " + ids + ", ARRAY['']",
			must: []string{`Index Scan (using|on) replay_items_\w*pkey`, `Index Cond: \(\(job_id = '.*'::uuid\) AND \(delivery_id = o\.delivery_id`}, mustNot: []string{scan},
		},
		{
			name: "MoveReplayItems", sql: dbsqlc.MoveReplayItems, args: ids + ", " + ids + ", ARRAY['DELIVERED']",
			must: []string{
				`Index Scan (using|on) replay_items_\w*pkey`, `Index Cond: \(\(job_id = o\.job_id\) AND \(delivery_id = o\.delivery_id\)\)`,
				`Index Cond: \(\(job_id = outcome_1\.job_id\) AND \(delivery_id = outcome_1\.delivery_id\)\)`,
			},
			mustNot: []string{scan, `Join Filter`},
		},
		{
			name: "ActiveReplayJobs", sql: dbsqlc.ActiveReplayJobs, args: "'24 hours', 100",
			must: []string{`Index Scan using replay_jobs_active`}, mustNot: []string{fullSort},
		},
		walk("DeadEndsOfTenantFrom", dbsqlc.DeadEndsOfTenantFrom, "'a', ", `tenant_id_id_idx`, `Index Cond: \(\(tenant_id = 'a'::text\) AND `),
		walk("DeadEndsFrom", dbsqlc.DeadEndsFrom, "", `pkey`, `Index Cond: \(`),
		walk("DeadEndsOfCauseFrom", dbsqlc.DeadEndsOfCauseFrom, `'\x01', `, `fingerprint_id_idx`, `Index Cond: \(\(fingerprint = '.*'::bytea\) AND `),
		walk("BirthsOfTenantFrom", dbsqlc.BirthsOfTenantFrom, "'a', ", `tenant_id_id_idx`, `Index Cond: \(\(tenant_id = 'a'::text\) AND `),
		walk("BirthsOfSubscriptionFrom", dbsqlc.BirthsOfSubscriptionFrom, id+", ", `subscription_id_id_idx`, `Index Cond: \(\(subscription_id = '.*'::uuid\) AND `),
		walk("BirthsFrom", dbsqlc.BirthsFrom, "", `pkey`, `Index Cond: \(`),
		{
			name: "EventsToBackfill", sql: dbsqlc.EventsToBackfill, args: "'a', 1, 1000000, 'NOW', " + end + ", 500",
			must:    []string{`Index Scan using events_\w*tenant_id_seq_idx`, `Index Cond: \(\(tenant_id = 'a'::text\) AND \(seq > '1'::bigint\) AND \(seq <= '1000000'::bigint\)\)`},
			mustNot: []string{fullSort, scan},
		},
		{name: "EventFacts", sql: dbsqlc.EventFacts, args: ids + ", 'NOW', 'NOW'", must: []string{`Scan (using|on) events_\w*pkey`}, mustNot: []string{scan}},
		{name: "EarlierAnswers", sql: dbsqlc.EarlierAnswers, args: ids + ", 'NOW'", must: []string{`Scan (using|on) attempts_\w*delivery_id_idx`}, mustNot: []string{scan}},
		{name: "LockDeliveries", sql: dbsqlc.LockDeliveries, args: ids + ", 'NOW', 'NOW'", must: []string{`Index Scan using deliveries_\w*pkey`, `LockRows`}, mustNot: []string{scan}},
	}
	check := func(statistics string) {
		for kind, settings := range map[string]string{"cold": db.ByIndex, "hot": "SELECT"} {
			conn := l.hotConn()
			if kind == "cold" {
				var err error
				if conn, err = pgx.Connect(t.Context(), l.dsn); err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { conn.Close(context.Background()) })
			}
			if _, err := conn.Exec(t.Context(), "BEGIN; "+settings+"; "+db.PlanAnew); err != nil {
				t.Fatal(err)
			}
			for _, p := range plans {
				// Outcomes are recorded by a hot session, all else by one that
				// walks by index.
				if kind == "cold" || p.name == "MoveReplayItems" {
					t.Run(statistics+"/"+kind+"/"+p.name, func(t *testing.T) { p.check(t, conn) })
				}
			}
		}
	}
	l.exec("ANALYZE")
	l.exec(`INSERT INTO replay_items (job_id, tenant_id, ordinal, delivery_id, event_id, subscription_id, destination_id)
		SELECT ('` + today + `' || '7000-8000-00000000000' || n % 3)::uuid, 'a', n, gen_random_uuid(), gen_random_uuid(), gen_random_uuid(), gen_random_uuid() FROM generate_series(1, 100000) n`)
	l.exec(`INSERT INTO deliveries SELECT ('` + today + `' || right(gen_random_uuid()::text, 22))::uuid, 'a', gen_random_uuid(), md5((n % 5)::text)::uuid, md5((n % 3)::text)::uuid FROM generate_series(1, 20000) n`)
	l.exec(`INSERT INTO delivery_results (id, tenant_id, delivery_id, run, state, dead_reason, fingerprint)
		SELECT ('` + today + `' || right(gen_random_uuid()::text, 22))::uuid, 'a', id, 1, 'DEAD', 'EXPIRED', decode(md5((random() * 3)::int::text), 'hex') FROM deliveries`)
	check("stale")
	l.exec("ANALYZE")
	check("fresh")
}
