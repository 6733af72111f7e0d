package db_test

import (
	"testing"
	"time"
)

func TestDropPartitions(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	// Partitions of days long past, each with a row in its last millisecond.
	setup := func(t *testing.T) *lab {
		l := newLab(t)
		for _, name := range []string{"10", "9", "8"} {
			l.exec(`CREATE TABLE dlq_observations_old` + name + ` PARTITION OF dlq_observations FOR VALUES
				FROM ('` + l.floor(name) + `') TO ('` + l.floor(name+" - 1") + `')`)
			l.exec(`INSERT INTO dlq_observations SELECT (left($1, 8) || right(left($1, 13), 5) || '-7fff-bfff-ffffffffffff')::uuid, NULL, 'PRODUCER', 't', 0, 0,
				NULL, NULL, NULL, now(), '{}', '', 0`, l.floor(name+" - 0.5"))
		}
		return l
	}
	t.Run("only_what_is_wholly_past_goes", func(t *testing.T) {
		t.Parallel()
		l := setup(t)
		if dropped, err := l.db.DropPartitions(t.Context(), "dlq_observations", 8*day-time.Minute); err != nil || dropped != 2 {
			t.Errorf("dropped %d, %v; want 2", dropped, err)
		}
		l.wantCount("rows that are left", 1, `SELECT count(*) FROM dlq_observations`)
		if dropped, err := l.db.DropPartitions(t.Context(), "dlq_observations", 8*day-time.Minute); err != nil || dropped != 0 {
			t.Errorf("dropped %d, %v; want nothing more", dropped, err)
		}
	})
	t.Run("what_is_still_written_stays_whatever_is_asked", func(t *testing.T) {
		t.Parallel()
		l := setup(t)
		before := l.count(`SELECT count(*) FROM pg_inherits WHERE inhparent = 'dlq_observations'::regclass`)
		if dropped, err := l.db.DropPartitions(t.Context(), "dlq_observations", -1000*day); err != nil || before-dropped < 3 {
			t.Errorf("dropped %d of %d, %v", dropped, before, err)
		}
		l.exec(`INSERT INTO dlq_observations VALUES ($1, NULL, 'PRODUCER', 't', 0, 0, NULL, NULL, NULL, now(), '{}', '', 0)`, text(newID()))
	})
	t.Run("a_table_in_use_is_left_for_the_next_call", func(t *testing.T) {
		t.Parallel()
		l := setup(t)
		tx, err := l.raw.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tx.Exec(t.Context(), `SELECT count(*) FROM dlq_observations`); err != nil {
			t.Fatal(err)
		}
		if dropped, err := l.db.DropPartitions(t.Context(), "dlq_observations", 7*day); err != nil || dropped != 0 {
			t.Errorf("dropped %d, %v, while somebody reads", dropped, err)
		}
		if err := tx.Rollback(t.Context()); err != nil {
			t.Fatal(err)
		}
		if dropped, err := l.db.DropPartitions(t.Context(), "dlq_observations", 6*day); err != nil || dropped != 3 {
			t.Errorf("dropped %d, %v; want 3", dropped, err)
		}
	})
	t.Run("other_tables_are_refused", func(t *testing.T) {
		t.Parallel()
		l := newLab(t)
		for _, table := range []string{"api_tokens", "pg_class", `events"; DROP TABLE api_tokens; --`} {
			if _, err := l.db.DropPartitions(t.Context(), table, day); err == nil {
				t.Errorf("%s was taken for a partitioned table", table)
			}
		}
	})
}

// floor is the smallest id of the moment some days ago.
func (l *lab) floor(daysAgo string) (id string) {
	l.Helper()
	if err := l.raw.QueryRow(l.Context(), `SELECT hub_uuid_floor(now() - (`+daysAgo+`) * interval '1 day')::text`).Scan(&id); err != nil {
		l.Fatal(err)
	}
	return id
}
