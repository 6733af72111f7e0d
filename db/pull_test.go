package db_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/streaming-hub/streaming-hub/db"
	"github.com/streaming-hub/streaming-hub/db/internal/dbsqlc"
	"github.com/streaming-hub/streaming-hub/hub"
)

// manyDays gives a lab 40 partitions of events, one for each day from today.
func (l *lab) manyDays() {
	l.Helper()
	l.exec(`DELETE FROM partitioned_tables WHERE name <> 'events'`)
	l.exec(`SELECT hub_ensure_partitions(now() + interval '39 days')`)
}

// fillDays stores n events of 20 tenants, spread evenly over the days.
func (l *lab) fillDays(n int) {
	l.Helper()
	l.exec(`INSERT INTO events SELECT
		(left(hub_uuid_floor(now() + n * interval '39 days' / $1)::text, 15) || right(md5(n::text)::uuid::text, 21))::uuid,
		'tenant' || n % 20, 1 + n / 20, 's', 'c', 'a.b', '1', 1, now(), 't', 0, n, '{}', '\x41'
		FROM generate_series(0, $1 - 1) n`, n)
}

// The walk through 40 days takes no sort and no scan of a table, whatever the
// statistics say, and leaves out the days before the cursor's.
func TestScanEvents_plan_with_many_partitions(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.manyDays()
	l.exec(`ALTER TABLE tenant_counters SET (autovacuum_enabled = off)`)
	wellFormed := func(t *testing.T, conn *pgx.Conn, name string, since time.Time, scans int) {
		plan := explain(t, conn, name, dbsqlc.ScanEvents, fmt.Sprintf("'tenant3', 400, '%s', 100", text(hub.FloorID(since))))
		for _, bad := range []string{"Seq Scan", "->  Sort", "Bitmap"} {
			if strings.Contains(plan, bad) {
				t.Errorf("the plan has %q:\n%s", bad, plan)
			}
		}
		if !strings.Contains(plan, "Merge Append") || !strings.Contains(plan, "Index Cond: ((tenant_id = $1) AND (seq > $2))") {
			t.Errorf("the plan does not merge the days' indexes:\n%s", plan)
		}
		if n := strings.Count(plan, "Index Scan using"); n < 1 || n > scans {
			t.Errorf("%d partitions are looked at, want at most %d:\n%s", n, scans, plan)
		}
	}
	look := func(statistics string) {
		t.Run(statistics, func(t *testing.T) {
			conn := l.hotConn()
			wellFormed(t, conn, "everywhere", time.Unix(0, 0), 60)
			wellFormed(t, conn, "behind_a_cursor", time.Now().Add(38*24*time.Hour), 3)
			if plan := explain(t, conn, "newest", dbsqlc.NewestSeqs, "ARRAY['a', 'b']"); !strings.Contains(plan, "tenant_counters_pkey") {
				t.Errorf("the newest seqs are not found by key:\n%s", plan)
			}
		})
	}
	l.exec(`ANALYZE`)
	l.fillDays(20_000)
	l.exec(`INSERT INTO tenant_counters (tenant_id) SELECT 'other' || n FROM generate_series(0, 1999) n`)
	look("stale")
	l.exec(`ANALYZE`)
	look("fresh")
}

func TestScanEvents(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	var stored []hub.Event
	for _, tenant := range []hub.TenantID{"acme", "bolt"} {
		w := db.IngestWrites{NextSeqs: map[hub.TenantID]int64{tenant: 6}}
		for seq := range int64(5) {
			w.Events = append(w.Events, eventOf(tenant, fmt.Sprint("e", seq), seq+1))
		}
		l.store(w, tenant)
		stored = append(stored, w.Events...)
	}
	marks, err := l.db.ScanEvents(t.Context(), "bolt", 2, time.Time{}, 2)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range stored[7:9] {
		if len(marks) != 2 {
			t.Fatalf("%d marks, want 2", len(marks))
		}
		got := marks[i].Event
		if got.ID != want.ID || got.Tenant != "bolt" || got.Seq != want.Seq || got.Source != want.Source ||
			got.Key() != want.Key() || got.SchemaMajor != want.SchemaMajor || int(marks[i].BodyBytes) != len(want.Body) {
			t.Errorf("mark %d = %+v, want that of %+v", i, marks[i], want)
		}
	}
	t.Run("since_spares_what_is_more_than_an_hour_older", func(t *testing.T) {
		for ahead, want := range map[time.Duration]int{30 * time.Minute: 5, 2 * time.Hour: 0} {
			marks, err := l.db.ScanEvents(t.Context(), "acme", 0, time.Now().Add(ahead), 10)
			if err != nil || len(marks) != want {
				t.Errorf("since %s ahead: %d marks, %v, want %d", ahead, len(marks), err, want)
			}
		}
	})
	t.Run("newest_seqs", func(t *testing.T) {
		newest, err := l.db.NewestSeqs(t.Context(), []hub.TenantID{"acme", "bolt", "nobody"})
		if err != nil || len(newest) != 2 || newest["acme"] != 5 || newest["bolt"] != 5 {
			t.Errorf("%v, %v", newest, err)
		}
	})
}
