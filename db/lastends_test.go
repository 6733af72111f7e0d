package db_test

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/streaming-hub/streaming-hub/db/dbtest"
	"github.com/streaming-hub/streaming-hub/db/internal/dbsqlc"
)

// A month of few dead letters is many small partitions. To read each of them
// whole would look cheap to the planner, and once made a page of deliveries of
// long ago cost more than all its other look-ups together.
func TestLastEnds_reads_small_partitions_by_key(t *testing.T) {
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
	exec(`INSERT INTO delivery_results (id, tenant_id, delivery_id, run, state, dead_reason)
		SELECT (left(hub_uuid_floor(now() + n % 48 * interval '1 hour')::text, 15) || right(md5(n::text)::uuid::text, 21))::uuid,
			'tenant' || n % 20, md5('d' || n)::uuid, 1, 'DEAD', 'EXPIRED' FROM generate_series(1, 1500) n`)
	exec(`ANALYZE delivery_results`)
	exec(`SET enable_seqscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off`)
	for _, mode := range []string{"force_custom_plan", "force_generic_plan"} {
		t.Run(mode, func(t *testing.T) {
			exec(`SET plan_cache_mode = ` + mode)
			exec(`DEALLOCATE ALL`)
			exec(`PREPARE one AS ` + dbsqlc.LastEnds)
			rows, err := conn.Query(t.Context(),
				`EXPLAIN EXECUTE one('{`+strings.Repeat("00000000-0000-0000-0000-000000000000,", 99)+`00000000-0000-0000-0000-000000000001}', '00000000-0000-0000-0000-000000000000')`,
				pgx.QueryExecModeExec)
			if err != nil {
				t.Fatal(err)
			}
			lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
			if err != nil {
				t.Fatal(err)
			}
			plan := strings.Join(lines, "\n")
			if !strings.Contains(plan, "delivery_id_idx") || strings.Contains(plan, "pkey") {
				t.Errorf("want the index by delivery_id in every partition:\n%s", plan)
			}
		})
	}
}
