package db_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/streaming-hub/streaming-hub/db/dbtest"
	"github.com/streaming-hub/streaming-hub/db/internal/dbsqlc"
)

// The statements of the API's lists keep their plans, custom or generic, in
// sessions as the API opens them: the index that their comment names, no scan
// of a table, no partition that the bounds leave out.
func TestListPlans(t *testing.T) {
	conn, err := pgx.Connect(t.Context(), dbtest.New(t))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	exec := func(sql string) {
		t.Helper()
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
	// 20 tenants with 30 000 deliveries over two days, half of them settled.
	exec(`SELECT hub_ensure_partitions(now() + interval '3 days')`)
	exec(`CREATE TEMP TABLE made AS SELECT
		(left(hub_uuid_floor(now() + (n % 70) * interval '1 hour')::text, 15) || right(md5(n::text)::uuid::text, 21))::uuid AS id,
		'tenant' || n % 20 AS tenant, md5('s' || n % 40)::uuid AS sub, md5('d' || n % 40)::uuid AS dest, n FROM generate_series(1, 30000) n`)
	exec(`INSERT INTO deliveries SELECT id, tenant, id, sub, dest FROM made`)
	exec(`INSERT INTO events SELECT id, tenant, n, 's', 'c', 'a.b', '1', 1, now(), 't', 0, n, '{}', '' FROM made`)
	exec(`INSERT INTO delivery_queue (id, tenant_id, destination_id, subscription_id, event_id, due_at, received_at, body_bytes)
		SELECT id, tenant, dest, sub, id, now(), now(), 0 FROM made WHERE n % 2 = 0`)
	exec(`INSERT INTO attempts SELECT id, tenant, id, id, sub, dest, 1, 1, now(), 1, 200, '', 'DELIVERED', NULL, '{}' FROM made WHERE n % 2 = 1`)
	exec(`INSERT INTO delivery_results SELECT id, tenant, id, 1, 'DEAD', 'EXPIRED', '' FROM made WHERE n % 4 = 1`)
	exec(`INSERT INTO outcome_feed (id, items) SELECT id, '' FROM made`)
	exec(`INSERT INTO quarantined_records (id, reason, topic, kafka_partition, kafka_offset, headers, body, body_bytes, received_at, readmit_requested_at)
		SELECT id, 'type_mismatch', 't', 0, n, '[]', '', 0, now(), CASE WHEN n % 1000 = 0 THEN now() END FROM made`)
	exec(`INSERT INTO dlq_observations SELECT id, tenant, 'PRODUCER', 't', 0, n, NULL, NULL, NULL, now(), '{}', '', 0 FROM made`)
	exec(`INSERT INTO audit_log SELECT id, tenant, dest, 'test', 'redeliver', n::text, NULL, '{}' FROM made`)
	exec(`INSERT INTO tenant_counters SELECT DISTINCT tenant FROM made`)
	exec(`INSERT INTO destinations SELECT DISTINCT dest, tenant, 'WEBHOOK', dest::text, now() FROM made`)
	exec(`INSERT INTO event_subscriptions (id, tenant_id, name, event_types, destination_id, kind, created_at, updated_at)
		SELECT md5(n::text)::uuid, tenant, 'x', '{*}', dest, 'WEBHOOK', now(), now() FROM made WHERE n <= 3000`)
	exec(`ANALYZE`)
	exec(`SET enable_seqscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off`)

	const (
		top    = `'ffffffff-ffff-ffff-ffff-ffffffffffff'`
		middle = `hub_uuid_floor(now() + interval '20 hours')`
		ids    = `(SELECT array_agg(id) FROM (SELECT id FROM made WHERE n % 70 = 7 LIMIT 50) picked)`
		lowest = `hub_uuid_floor(now() + interval '6 hours')`
		high   = `hub_uuid_floor(now() + interval '8 hours')`
	)
	for _, c := range []struct {
		name, sql, args, index string
		pruned                 bool // partitions outside the bounds are left out
	}{
		{"BirthsOfTenant", dbsqlc.BirthsOfTenant, `'tenant3', ` + middle + `, 100`, "tenant_id_id_idx", true},
		{"BirthsOfSubscription", dbsqlc.BirthsOfSubscription, `md5('s3')::uuid, ` + top + `, 100`, "subscription_id_id_idx", false},
		{"BirthsOfEvent", dbsqlc.BirthsOfEvent, `md5('x')::uuid, ` + lowest + `, ` + top + `, 100`, "event_id_idx", false},
		{"Births", dbsqlc.Births, middle + `, 100`, "pkey", true},
		{"BirthsByID", dbsqlc.BirthsByID, ids + `, ` + lowest + `, ` + high, "pkey", true},
		{"EndsOfTenant", dbsqlc.EndsOfTenant, `'tenant3', ` + middle + `, 100`, "tenant_id_id_idx", true},
		{"Ends", dbsqlc.Ends, middle + `, 100`, "pkey", true},
		{"DeadEndsOfTenant", dbsqlc.DeadEndsOfTenant, `'tenant3', ` + middle + `, ` + lowest + `, 100`, "tenant_id_id_idx", true},
		{"DeadEnds", dbsqlc.DeadEnds, middle + `, ` + lowest + `, 100`, "pkey", true},
		{"EventTypesByID", dbsqlc.EventTypesByID, ids + `, ` + lowest + `, ` + high, "pkey", true},
		{"LockDelivery", dbsqlc.LockDelivery, `(SELECT id FROM made LIMIT 1)`, "pkey", true},
		{"AuditPageOfTenant", dbsqlc.AuditPageOfTenant, `'tenant3', ` + middle + `, ` + lowest + `, 100`, "tenant_id_id_idx", true},
		{"AuditPage", dbsqlc.AuditPage, middle + `, ` + lowest + `, 100`, "pkey", true},
		{"AuditByID", dbsqlc.AuditByID, ids + `, ` + lowest + `, ` + high, "pkey", true},
		{"ActionOn", dbsqlc.ActionOn, `'tenant3', ` + high + `, 'redeliver', '3'`, "tenant_id_id_idx", true},
		{"QueuedByID", dbsqlc.QueuedByID, ids, "delivery_queue_pkey", false},
		{"LastEnds", dbsqlc.LastEnds, ids + `, ` + lowest, "delivery_id_idx", false},
		{"LastAttemptHeads", dbsqlc.LastAttemptHeads, ids + `, ` + lowest, "delivery_id_idx", false},
		{"AttemptsOfDeliveries", dbsqlc.AttemptsOfDeliveries, ids + `, ` + lowest, "delivery_id_idx", false},
		{"EventPageOfTenant", dbsqlc.EventPageOfTenant, `'tenant3', 100000, 100`, "tenant_id_seq_idx", false},
		{"EventPage", dbsqlc.EventPage, middle + `, 100`, "pkey", true},
		{"EventHeadsByID", dbsqlc.EventHeadsByID, ids + `, ` + lowest + `, ` + high, "pkey", true},
		{"SubscriptionPageOfTenant", dbsqlc.SubscriptionPageOfTenant, `'tenant3', ` + top + `, 20`, "event_subscriptions_tenant", false},
		{"QuarantinePage", dbsqlc.QuarantinePage, middle + `, ` + lowest + `, 100`, "pkey", true},
		{"QuarantinedByID", dbsqlc.QuarantinedByID, ids + `, ` + lowest + `, ` + high, "pkey", true},
		{"RequestReadmission", dbsqlc.RequestReadmission, lowest + `, ` + high + `, ` + ids, "pkey", true},
		{"ObservationPage", dbsqlc.ObservationPage, middle + `, ` + lowest + `, 100`, "pkey", true},
		{"ObservationPageOfTenant", dbsqlc.ObservationPageOfTenant, `'tenant3', ` + middle + `, ` + lowest + `, 100`, "tenant_id_id_idx", true},
		{"ObservationsByID", dbsqlc.ObservationsByID, ids + `, ` + lowest + `, ` + high, "pkey", true},
		{"BirthsOfEvents", dbsqlc.BirthsOfEvents, ids + `, ` + lowest, "event_id_idx", false},
		{"FeedRows", dbsqlc.FeedRows, `'7', '00000000-0000-0000-0000-000000000000', 32`, "xid_id_idx", false},
	} {
		for _, mode := range []string{"force_custom_plan", "force_generic_plan", "behind_the_wall"} {
			t.Run(c.name+"/"+mode, func(t *testing.T) {
				behind := mode == "behind_the_wall"
				if behind {
					if strings.Contains(c.sql, "quarantined_records") || strings.Contains(c.sql, "outcome_feed") {
						return // not for tenants
					}
					mode = "force_generic_plan"
				}
				exec(`SET plan_cache_mode = ` + mode)
				exec(`DEALLOCATE ALL`)
				exec(`PREPARE one AS ` + c.sql)
				// Sub-selects are no parameters; values are put in first.
				var args string
				if err := conn.QueryRow(t.Context(), `SELECT concat_ws(', ', `+quoted(c.args)+`)`, pgx.QueryExecModeExec).Scan(&args); err != nil {
					t.Fatal(err)
				}
				if behind {
					exec(`SET ROLE hub_tenant; SET hub.tenant = 'tenant3'`)
					defer exec(`RESET ROLE; RESET hub.tenant`)
				}
				rows, err := conn.Query(t.Context(), `EXPLAIN EXECUTE one(`+args+`)`, pgx.QueryExecModeExec)
				if err != nil {
					t.Fatal(err)
				}
				lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
				if err != nil {
					t.Fatal(err)
				}
				plan := strings.Join(lines, "\n")
				if !strings.Contains(plan, c.index) || strings.Contains(plan, "Seq Scan") {
					t.Errorf("want index %s:\n%s", c.index, plan)
				}
				if scans := strings.Count(plan, "Scan using") + strings.Count(plan, "Bitmap Heap Scan"); c.pruned && scans > 3 {
					t.Errorf("%d scans, want partitions left out:\n%s", scans, plan)
				}
			})
		}
	}
}

// quoted makes each argument a literal: quote_literal(a), quote_literal(b), …
func quoted(args string) string {
	var out []string
	depth, start := 0, 0
	for i, c := range args + "," {
		switch {
		case c == '(':
			depth++
		case c == ')':
			depth--
		case c == ',' && depth == 0:
			out = append(out, fmt.Sprintf("quote_literal(%s)", args[start:i]))
			start = i + 1
		}
	}
	return strings.Join(out, ", ")
}
