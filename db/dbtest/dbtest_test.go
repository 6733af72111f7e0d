package dbtest_test

import (
	"testing"

	"github.com/streaming-hub/streaming-hub/db/dbtest"
)

func TestNew(t *testing.T) {
	t.Run("tests_see_nothing_of_each_other", func(t *testing.T) {
		one, two := dbtest.Pool(t), dbtest.Pool(t)
		if _, err := one.Exec(t.Context(), "CREATE TABLE only_here ()"); err != nil {
			t.Fatal(err)
		}
		var there bool
		if err := two.QueryRow(t.Context(), "SELECT to_regclass('only_here') IS NOT NULL").Scan(&there); err != nil {
			t.Fatal(err)
		}
		if there {
			t.Error("a table of one test shows in another's database")
		}
	})
	t.Run("schema_is_migrated", func(t *testing.T) {
		var applied int
		err := dbtest.Pool(t).QueryRow(t.Context(), "SELECT count(*) FROM goose_db_version WHERE is_applied AND version_id > 0").Scan(&applied)
		if err != nil {
			t.Fatal(err)
		}
		if applied == 0 {
			t.Error("no migration was applied")
		}
	})
}

func BenchmarkNew(b *testing.B) {
	for b.Loop() {
		dbtest.New(b)
	}
}
