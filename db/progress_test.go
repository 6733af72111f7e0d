package db_test

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/streaming-hub/streaming-hub/db"
	"github.com/streaming-hub/streaming-hub/hub"
)

func TestIngest_progress(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	one, other := db.Progress{Topic: newID(), Partition: 3}, db.Progress{Topic: newID(), Partition: 3}
	at := func(p db.Progress, next int64) db.IngestWrites {
		p.Next = next
		return db.IngestWrites{Record: hub.RecordPosition{Topic: "lerian.streaming.lender", Partition: p.Partition}, Progress: &p}
	}
	want := func(want map[db.Progress]int64) {
		t.Helper()
		got, err := l.db.StoredUpTo(t.Context(), []db.Progress{one, other})
		if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); err != nil || diff != "" {
			t.Errorf("stored up to (-want +got):\n%s %v", diff, err)
		}
	}
	want(nil)
	l.store(at(one, 100))
	want(map[db.Progress]int64{one: 100})
	l.store(at(one, 150))
	l.store(at(one, 120)) // a replica that stood still
	l.store(at(other, 7))
	want(map[db.Progress]int64{one: 150, other: 7})

	// What is not stored is no progress.
	e := eventOf("acme", "a", 1)
	key := keyOf(&e)
	w := at(one, 200)
	w.Keys = []db.EventKey{key, key}
	err := l.db.Ingest(t.Context(), db.IngestBatch{}, func(context.Context, db.IngestState) (db.IngestWrites, error) { return w, nil })
	if err == nil {
		t.Error("a key was stored twice")
	}
	want(map[db.Progress]int64{one: 150, other: 7})
}
