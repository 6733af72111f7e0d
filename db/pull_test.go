package db_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/streaming-hub/streaming-hub/db/internal/dbsqlc"
	"github.com/streaming-hub/streaming-hub/hub"
)

func TestScratch(t *testing.T) {
	l := newLab(t)
	l.exec(`SELECT hub_ensure_partitions(now() + interval '40 days')`)
	l.exec(`INSERT INTO events SELECT (left(hub_uuid_floor(now() + (n/1000.0) * interval '1 day')::text, 15) || right(md5(n::text)::uuid::text, 21))::uuid, 'tenant' || n % 20, 1 + n/20, 's', 'c', 'a.b', '1', 1, now(), 't', 0, n, '{}', decode(repeat('41',1000),'hex') FROM generate_series(0, 39999) n`)
	l.exec("ANALYZE")
	conn := l.hotConn()
	for _, mode := range []string{"force_generic_plan", "force_custom_plan"} {
		conn.Exec(t.Context(), "SET plan_cache_mode="+mode)
		for _, since := range []time.Duration{-40 * 24 * time.Hour, 24 * 2 * time.Hour, 24 * 38 * time.Hour} {
			for _, limit := range []int{1, 100} {
				sql := dbsqlc.ScanEvents
				name := fmt.Sprintf("%s_%d_%d", mode, int(since.Hours())+2000, limit)
				if _, err := conn.Prepare(t.Context(), name, sql); err != nil {
					t.Fatal(err)
				}
				after := int64(max(0, since.Hours()/24*50))
				begun := time.Now()
				const n = 500
				for range n {
					rows, err := conn.Query(t.Context(), name, "tenant3", after, text(hub.FloorID(time.Now().Add(since))), limit)
					if err != nil {
						t.Fatal(err)
					}
					rows.Close()
				}
				t.Log(name, time.Since(begun)/n)
			}
		}
	}
	plan := explain(t, conn, "x", dbsqlc.ScanEvents, fmt.Sprintf("'tenant3', 1900, '%s', 100", text(hub.FloorID(time.Now().Add(24*38*time.Hour)))))
	t.Log(plan)
	_ = pgx.ErrNoRows
	_ = regexp.MustCompile
	_ = strings.Cut
}
