package db_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/streaming-hub/streaming-hub/db"
	"github.com/streaming-hub/streaming-hub/hub"
)

func TestEnsurePartitions(t *testing.T) {
	t.Parallel()
	const week = 7 * 24 * time.Hour
	t.Run("second_call_makes_nothing", func(t *testing.T) {
		t.Parallel()
		l := newLab(t)
		made, err := l.db.EnsurePartitions(t.Context(), week)
		if err != nil || made < 5*3 { // four days more for five tables by the day
			t.Fatalf("made %d, %v", made, err)
		}
		if made, err = l.db.EnsurePartitions(t.Context(), week); err != nil || made != 0 {
			t.Errorf("second call made %d, %v", made, err)
		}
	})
	t.Run("callers_at_once_share_the_work", func(t *testing.T) {
		t.Parallel()
		l := newLab(t)
		var mu sync.Mutex
		var callers sync.WaitGroup
		sum := 0
		for range 6 {
			callers.Go(func() {
				made, err := l.db.EnsurePartitions(t.Context(), week)
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				sum += made
				mu.Unlock()
			})
		}
		callers.Wait()
		again := newLab(t)
		alone, err := again.db.EnsurePartitions(t.Context(), week)
		if err != nil || sum != alone {
			t.Errorf("six callers made %d, one alone makes %d (%v)", sum, alone, err)
		}
	})
	t.Run("leaves_join_without_a_gap_and_hold_their_time", func(t *testing.T) {
		t.Parallel()
		l := newLab(t)
		if _, err := l.db.EnsurePartitions(t.Context(), week); err != nil {
			t.Fatal(err)
		}
		// The bounds of each leaf, read back from the catalogue.
		rows, err := l.raw.Query(t.Context(), `
			SELECT p.relname, c.relname, pg_get_expr(c.relpartbound, c.oid), extract(epoch FROM s.step)::bigint
			FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid JOIN pg_class p ON p.oid = i.inhparent
			JOIN partitioned_tables s ON s.name = p.relname
			WHERE c.relkind = 'r' ORDER BY p.relname, c.relname`)
		if err != nil {
			t.Fatal(err)
		}
		end := map[string]time.Time{} // by parent: where the last leaf ends
		for rows.Next() {
			var parent, leaf, bound string
			var step int64
			if err := rows.Scan(&parent, &leaf, &bound, &step); err != nil {
				t.Fatal(err)
			}
			quoted := strings.Split(bound, "'") // FOR VALUES FROM ('…') TO ('…')
			from, err1 := hub.ParseID(quoted[1])
			to, err2 := hub.ParseID(quoted[3])
			if err1 != nil || err2 != nil {
				t.Fatalf("%s: %s", leaf, bound)
			}
			if from != hub.FloorID(from.Time()) || to.Time().Sub(from.Time()) != time.Duration(step)*time.Second {
				t.Errorf("%s holds %s to %s", leaf, from.Time(), to.Time())
			}
			if want := parent + from.Time().Format("_p20060102_15"); leaf != want {
				t.Errorf("%s begins at %s, so it should be called %s", leaf, from.Time(), want)
			}
			if last, ok := end[parent]; ok && !last.Equal(from.Time()) {
				t.Errorf("%s begins at %s, the one before ends at %s", leaf, from.Time(), last)
			} else if !ok && from.Time().After(time.Now().Add(-time.Hour)) {
				t.Errorf("%s begins at %s: a clock that runs an hour late has no partition", leaf, from.Time())
			}
			end[parent] = to.Time()
		}
		if err := rows.Err(); err != nil {
			t.Fatal(err)
		}
		l.wantCount("tables on the list", len(end), "SELECT count(*) FROM partitioned_tables")
		l.wantCount("partitioned tables", len(end), "SELECT count(*) FROM pg_class WHERE relkind = 'p'")
		for parent, until := range end {
			if until.Before(time.Now().Add(week)) {
				t.Errorf("%s ends at %s, less than a week ahead", parent, until)
			}
		}
	})
	t.Run("rows_at_the_edge_of_a_day", func(t *testing.T) {
		t.Parallel()
		l := newLab(t)
		midnight := time.Now().UTC().Truncate(24 * time.Hour).Add(24 * time.Hour)
		for _, at := range []time.Time{midnight.Add(-time.Millisecond), midnight, midnight.Add(24*time.Hour - time.Millisecond)} {
			for _, fill := range []string{"\x00", "\xff"} { // the smallest and greatest id of the millisecond
				id := hub.NewID(at, strings.NewReader(strings.Repeat(fill, 10)))
				l.exec("INSERT INTO deliveries VALUES ($1, 'acme', $1, $1, $1)", text(id))
				l.wantCount(fmt.Sprintf("rows of %s in the leaf of their day", id), 1,
					"SELECT count(*) FROM deliveries_p"+at.Format("20060102")+"_00 WHERE id = $1", text(id))
				var kept time.Time
				if err := l.raw.QueryRow(t.Context(), "SELECT hub_uuid_time($1)", text(id)).Scan(&kept); err != nil || !kept.Equal(at) {
					t.Errorf("hub_uuid_time(%s) = %s, %v, want %s", id, kept.UTC(), err, at)
				}
			}
		}
	})
	t.Run("dedup_keys_are_unique_in_each_leaf", func(t *testing.T) {
		t.Parallel()
		l := newLab(t)
		l.wantCount("leaves of event_keys without a unique index", 0, `SELECT count(*) FROM pg_inherits i
			WHERE i.inhparent = 'event_keys'::regclass AND NOT EXISTS (
				SELECT FROM pg_index x WHERE x.indrelid = i.inhrelid AND x.indisunique)`)
	})
}

func TestMigrate(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	// A database with nothing in it, on the same server.
	name := "bare_" + strings.ReplaceAll(text(newID()), "-", "")
	l.exec("CREATE DATABASE " + name)
	t.Cleanup(func() {
		if _, err := l.raw.Exec(context.Background(), "DROP DATABASE "+name+" WITH (FORCE)"); err != nil {
			t.Error(err)
		}
	})
	config := l.raw.Config().ConnConfig
	bare := strings.Replace(l.dsn, config.Database, name, 1)
	d, err := db.Open(t.Context(), db.Config{DSN: bare})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()

	wantSaid := func(want string) {
		t.Helper()
		if err := d.SchemaReady(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("SchemaReady = %v, want %q", err, want)
		}
	}
	wantSaid("the database has no schema yet: run hub migrate up")
	steps, err := db.MigrationStatus(t.Context(), bare)
	if err != nil || len(steps) < 4 {
		t.Fatalf("status = %v, %v", steps, err)
	}
	for i, s := range steps {
		if !s.AppliedAt.IsZero() || i > 0 && s.Version <= steps[i-1].Version || !strings.Contains(s.Name, fmt.Sprintf("%05d_", s.Version)) {
			t.Errorf("step %d = %+v, want it pending", i, s)
		}
	}

	var callers sync.WaitGroup
	for range 3 { // replicas that start at once
		callers.Go(func() {
			if err := db.Migrate(t.Context(), bare); err != nil {
				t.Error(err)
			}
		})
	}
	callers.Wait()
	if err := d.SchemaReady(t.Context()); err != nil {
		t.Error(err)
	}
	steps, err = db.MigrationStatus(t.Context(), bare)
	for _, s := range steps {
		if err != nil || time.Since(s.AppliedAt) > time.Hour {
			t.Errorf("step %+v is not applied (%v)", s, err)
		}
	}

	before, newest := steps[len(steps)-2].Version, steps[len(steps)-1].Version
	raw := db.PoolOf(d)
	if _, err := raw.Exec(t.Context(), "DELETE FROM goose_db_version WHERE version_id = $1", newest); err != nil {
		t.Fatal(err)
	}
	wantSaid(fmt.Sprintf("the schema is at version %d, this program needs %d: run hub migrate up", before, newest))
	// A schema newer than the program is fine: programs are rolled after it.
	if _, err := raw.Exec(t.Context(), "INSERT INTO goose_db_version (version_id, is_applied) VALUES ($1, true)", newest+7); err != nil {
		t.Fatal(err)
	}
	if err := d.SchemaReady(t.Context()); err != nil {
		t.Errorf("with a newer schema: %v", err)
	}
}

func TestSchemaReady_says_that_the_database_is_away(t *testing.T) {
	t.Parallel()
	d, err := db.Open(t.Context(), db.Config{DSN: "postgres://hub@127.0.0.1:1/hub?sslmode=disable"})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if err := d.SchemaReady(t.Context()); err == nil || !strings.Contains(err.Error(), "the schema version: ") {
		t.Errorf("SchemaReady = %v", err)
	}
	if err := d.Ping(t.Context()); err == nil || !strings.Contains(err.Error(), "reach Postgres: ") {
		t.Errorf("Ping = %v", err)
	}
}
