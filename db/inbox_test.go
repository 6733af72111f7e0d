package db_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/streaming-hub/streaming-hub/db"
	"github.com/streaming-hub/streaming-hub/hub"
	"github.com/streaming-hub/streaming-hub/hub/wire"
)

func eventOf(tenant hub.TenantID, ceID string, seq int64) hub.Event {
	return hub.Event{
		ID: hub.EventID{ID: newID()}, Tenant: tenant, Seq: seq, CEID: ceID, Source: "lender",
		CEType: "studio.lerian.lender.loan.approved", ResourceType: "loan", EventType: "approved",
		SchemaVersion: "1.0.0", SchemaMajor: 1, Time: "2026-01-02T03:04:05Z", Body: []byte(`{"n":1}`),
	}
}

func keyOf(e *hub.Event) db.EventKey {
	return db.EventKey{
		Key:         wire.DedupKey(e.Tenant, e.Source, e.CEID),
		ContentHash: wire.ContentHash(e.CEType, e.Body), Event: e.ID.ID,
	}
}

// storeUnknown ingests the events with the given ids of each tenant that are
// not stored yet, the way ingest plans it, and returns how many they were.
func storeUnknown(ctx context.Context, d *db.DB, ids map[hub.TenantID][]string, fail error) (int, error) {
	var batch db.IngestBatch
	for tenant, list := range ids {
		batch.Tenants = append(batch.Tenants, tenant)
		for _, id := range list {
			batch.Keys = append(batch.Keys, wire.DedupKey(tenant, "lender", id))
		}
	}
	stored := 0
	err := d.Ingest(ctx, batch, func(_ context.Context, state db.IngestState) (db.IngestWrites, error) {
		w := db.IngestWrites{
			Record: hub.RecordPosition{Topic: "lerian.streaming.lender"}, ReceivedAt: time.Now(),
			NextSeqs: map[hub.TenantID]int64{},
		}
		for tenant, list := range ids {
			next := state.Tenants[tenant].NextSeq
			for _, id := range list {
				e := eventOf(tenant, id, next)
				key := keyOf(&e)
				if _, known := state.Known[key.Key]; known {
					continue
				}
				w.Events, w.Keys = append(w.Events, e), append(w.Keys, key)
				next++
			}
			w.NextSeqs[tenant] = next
		}
		stored = len(w.Events)
		return w, fail
	})
	if err != nil {
		stored = 0
	}
	return stored, err
}

func TestIngest_seq_has_no_gap_at_any_moment(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	tenants := []hub.TenantID{"acme", "bolt", "crow", "dune"}
	errPlan := errors.New("the plan does not hold")
	seed := rand.Uint64()
	t.Logf("seed %d", seed)

	// A reader sees gapless numbers in every snapshot: the order of the
	// numbers is the order of the commits.
	reading, stopReading := context.WithCancel(t.Context())
	var reader sync.WaitGroup
	reader.Go(func() {
		for reading.Err() == nil {
			var gaps int
			err := l.raw.QueryRow(reading, `SELECT count(*) FROM (
				SELECT tenant_id FROM events GROUP BY tenant_id HAVING count(*) <> max(seq)) g`).Scan(&gaps)
			if err == nil && gaps > 0 {
				t.Errorf("%d tenants show a gap between committed numbers", gaps)
				return
			}
		}
	})

	var mu sync.Mutex
	tried := map[hub.TenantID]map[string]bool{}
	total := 0
	var writers sync.WaitGroup
	for n := range 8 {
		r := rand.New(rand.NewPCG(seed, uint64(n)))
		writers.Go(func() {
			for range 30 {
				ids := map[hub.TenantID][]string{}
				for _, i := range r.Perm(len(tenants))[:1+r.IntN(3)] {
					for _, k := range r.Perm(120)[:1+r.IntN(6)] {
						ids[tenants[i]] = append(ids[tenants[i]], fmt.Sprint(k))
					}
				}
				var fail error
				if r.IntN(4) == 0 {
					fail = errPlan
				}
				stored, err := storeUnknown(t.Context(), l.db, ids, fail)
				if !errors.Is(err, fail) {
					t.Errorf("Ingest = %v, want %v", err, fail)
					return
				}
				if fail != nil {
					continue
				}
				mu.Lock()
				total += stored
				for tenant, list := range ids {
					if tried[tenant] == nil {
						tried[tenant] = map[string]bool{}
					}
					for _, id := range list {
						tried[tenant][id] = true
					}
				}
				mu.Unlock()
			}
		})
	}
	writers.Wait()
	stopReading()
	reader.Wait()

	for _, tenant := range tenants {
		want := len(tried[tenant])
		l.wantCount("events of "+string(tenant), want, "SELECT count(*) FROM events WHERE tenant_id = $1", tenant)
		l.wantCount("ids of "+string(tenant), want, "SELECT count(DISTINCT ce_id) FROM events WHERE tenant_id = $1", tenant)
		l.wantCount("distinct seqs of "+string(tenant), want,
			"SELECT count(DISTINCT seq) FROM events WHERE tenant_id = $1 AND seq BETWEEN 1 AND $2", tenant, want)
		l.wantCount("next seq of "+string(tenant), want+1, "SELECT next_seq FROM tenant_counters WHERE tenant_id = $1", tenant)
	}
	l.wantCount("events that writers saw stored", total, "SELECT count(*) FROM events")
	l.wantCount("keys", total, "SELECT count(*) FROM event_keys")
}

func TestIngest(t *testing.T) {
	t.Parallel()
	t.Run("plan_of_a_new_tenant_starts_at_one", func(t *testing.T) {
		t.Parallel()
		l := newLab(t)
		called := 0
		err := l.db.Ingest(t.Context(), db.IngestBatch{Tenants: []hub.TenantID{"new", "newer"}},
			func(_ context.Context, s db.IngestState) (db.IngestWrites, error) {
				called++
				for _, tenant := range []hub.TenantID{"new", "newer"} {
					if got, want := s.Tenants[tenant], (db.TenantCounter{NextSeq: 1, ConfigVersion: 1}); got != want {
						t.Errorf("counter of %s = %+v, want %+v", tenant, got, want)
					}
				}
				return db.IngestWrites{}, nil
			})
		if err != nil || called != 1 {
			t.Errorf("Ingest = %v after %d calls of plan, want one call", err, called)
		}
	})
	t.Run("failed_plan_leaves_nothing", func(t *testing.T) {
		t.Parallel()
		l := newLab(t)
		errPlan := errors.New("no")
		if _, err := storeUnknown(t.Context(), l.db, map[hub.TenantID][]string{"acme": {"a"}}, errPlan); !errors.Is(err, errPlan) {
			t.Fatalf("Ingest = %v", err)
		}
		l.wantCount("events", 0, "SELECT count(*) FROM events")
		l.wantCount("keys", 0, "SELECT count(*) FROM event_keys")
		l.wantCount("next seq", 1, "SELECT next_seq FROM tenant_counters WHERE tenant_id = 'acme'")
		// The lock is gone too: the next batch does not wait for it.
		if n, err := storeUnknown(t.Context(), l.db, map[hub.TenantID][]string{"acme": {"a"}}, nil); err != nil || n != 1 {
			t.Errorf("next batch stored %d, %v", n, err)
		}
	})
	t.Run("failed_write_leaves_nothing", func(t *testing.T) {
		t.Parallel()
		l := newLab(t)
		e := eventOf("acme", "a", 1)
		key := keyOf(&e)
		err := l.db.Ingest(t.Context(), db.IngestBatch{Tenants: []hub.TenantID{"acme"}},
			func(context.Context, db.IngestState) (db.IngestWrites, error) {
				return db.IngestWrites{
					ReceivedAt: time.Now(), NextSeqs: map[hub.TenantID]int64{"acme": 3},
					Events: []hub.Event{e}, Keys: []db.EventKey{key, key}, // the second wall
				}, nil
			})
		if err == nil {
			t.Error("a key was stored twice")
		}
		l.wantCount("events", 0, "SELECT count(*) FROM events")
		l.wantCount("next seq", 1, "SELECT next_seq FROM tenant_counters WHERE tenant_id = 'acme'")
	})
	t.Run("known_keys_come_with_their_content", func(t *testing.T) {
		t.Parallel()
		l := newLab(t)
		e := eventOf("acme", "a", 1)
		key, unknown := keyOf(&e), newID()
		l.store(db.IngestWrites{Events: []hub.Event{e}, Keys: []db.EventKey{key}}, "acme")

		// A key of three partitions ago.
		past := time.Now().Add(-45 * 24 * time.Hour)
		l.exec(`CREATE TABLE event_keys_of_the_past PARTITION OF event_keys
			FOR VALUES FROM ('` + text(hub.FloorID(past.Add(-time.Hour))) + `') TO ('` + text(hub.FloorID(past.Add(time.Hour))) + `')`)
		l.exec("CREATE UNIQUE INDEX ON event_keys_of_the_past (key)")
		old := db.EventKey{Key: newID(), ContentHash: newID(), Event: hub.NewID(past, bytes.NewReader(make([]byte, 10)))}
		l.store(db.IngestWrites{Keys: []db.EventKey{old}}, "acme")
		l.wantCount("keys of the past", 1, "SELECT count(*) FROM event_keys_of_the_past")

		ask := []hub.ID{key.Key, unknown, old.Key}
		err := l.db.Ingest(t.Context(), db.IngestBatch{Tenants: []hub.TenantID{"acme"}, Keys: ask},
			func(_ context.Context, s db.IngestState) (db.IngestWrites, error) {
				want := map[hub.ID]hub.ID{key.Key: key.ContentHash, old.Key: old.ContentHash}
				if diff := cmp.Diff(want, s.Known); diff != "" {
					t.Errorf("known (-want +got):\n%s", diff)
				}
				for _, k := range ask {
					if _, ok := s.Asked[k]; !ok {
						t.Errorf("%s does not count as asked for", k)
					}
				}
				return db.IngestWrites{}, nil
			})
		if err != nil {
			t.Error(err)
		}
	})
	t.Run("batch_without_any_tenant_stores_its_quarantine", func(t *testing.T) {
		t.Parallel()
		l := newLab(t)
		q := db.QuarantinedRecord{
			ID: newID(), Reason: "missing_attribute:id", Offset: 41, BodyBytes: 9,
			Headers: []db.RawHeader{{Key: []byte("ce-\xff\x00"), Value: []byte{0, 0xfe}}, {Key: []byte("empty")}},
			Body:    []byte("\x00\xff{"),
		}
		l.store(db.IngestWrites{
			Record: hub.RecordPosition{Topic: "lerian.streaming.lender", Partition: 3}, Quarantine: []db.QuarantinedRecord{q},
		})
		var body []byte
		var headers, topic string
		var tenant *string
		var partition, size int
		var offset int64
		err := l.raw.QueryRow(t.Context(), `SELECT tenant_id, topic, kafka_partition, kafka_offset, headers->0->>'v', body, body_bytes
			FROM quarantined_records`).Scan(&tenant, &topic, &partition, &offset, &headers, &body, &size)
		if err != nil {
			t.Fatal(err)
		}
		if tenant != nil || topic != "lerian.streaming.lender" || partition != 3 || offset != 41 || headers != "AP4=" ||
			!bytes.Equal(body, q.Body) || size != 9 {
			t.Errorf("kept: tenant %v, %s/%d at %d, header %s, body %q of %d", tenant, topic, partition, offset, headers, body, size)
		}
	})
	t.Run("event_comes_back_byte_for_byte", func(t *testing.T) {
		t.Parallel()
		l := newLab(t)
		e := eventOf("acme", `id "with" 100% \ 日本`, 1)
		e.Subject, e.ContentType, e.DataSchema = "a%20b <&>", "application/json; charset=utf-8", "https://example.com/s"
		e.Extensions = []hub.Attribute{{Name: "partner'; --", Value: "\u2028☃"}, {Name: "z", Value: " "}}
		e.TraceParent, e.TraceState = "00-11111111111111111111111111111111-2222222222222222-01", "a=b"
		e.Body = append([]byte("{\"a\":\"x\\u0000y\", \"n\":12345678901234567890,\"n\":1.0}\x00\xff\xfe"), bytes.Repeat([]byte("long"), 5000)...)
		e.Record = hub.RecordPosition{Topic: "lerian.streaming.lender", Partition: 2, Offset: 1 << 40}
		e.ReceivedAt = time.Now().UTC().Truncate(time.Microsecond)
		empty := eventOf("acme", "empty", 2)
		empty.Body, empty.Record, empty.ReceivedAt = nil, e.Record, e.ReceivedAt
		l.store(db.IngestWrites{Record: e.Record, ReceivedAt: e.ReceivedAt, Events: []hub.Event{e, empty}}, "acme")
		got, err := l.db.Events(t.Context(), []hub.ID{e.ID.ID, newID(), empty.ID.ID})
		if err != nil {
			t.Fatal(err)
		}
		empty.Body = []byte{}
		byID := map[hub.EventID]hub.Event{}
		for _, ev := range got {
			ev.ReceivedAt = ev.ReceivedAt.UTC()
			byID[ev.ID] = ev
		}
		if diff := cmp.Diff(map[hub.EventID]hub.Event{e.ID: e, empty.ID: empty}, byID); diff != "" {
			t.Errorf("events (-want +got):\n%s", diff)
		}
	})
	t.Run("deliveries_are_born_due_later_or_claimed", func(t *testing.T) {
		t.Parallel()
		l := newLab(t)
		lane := laneOf("acme")
		list := born(lane, 3)
		list[1].DueIn = time.Hour
		list[2].LeaseToken = 4711
		l.store(db.IngestWrites{Deliveries: list, Lease: time.Minute}, "acme")
		l.wantCount("birth rows", 3, "SELECT count(*) FROM deliveries WHERE tenant_id = 'acme' AND destination_id = $1", text(lane.Destination))
		id := func(n int) string { return text(list[n].Delivery.ID) }
		l.wantCount("due now without lease", 1, `SELECT count(*) FROM delivery_queue WHERE id = $1
			AND due_at <= now() AND leased_until IS NULL AND run = 1 AND attempts = 0 AND body_bytes = 7`, id(0))
		l.wantCount("due in an hour", 1, `SELECT count(*) FROM delivery_queue WHERE id = $1
			AND due_at BETWEEN now() + interval '59 min' AND now() + interval '61 min' AND lease_token IS NULL`, id(1))
		l.wantCount("born claimed", 1, `SELECT count(*) FROM delivery_queue WHERE id = $1 AND lease_token = 4711
			AND leased_until BETWEEN now() + interval '55 s' AND now() + interval '65 s'`, id(2))
		claims := l.claim(lane, 10, time.Minute)
		if len(claims) != 1 || claims[0].Delivery.ID != list[0].Delivery.ID {
			t.Errorf("claimed %d deliveries, want the one that is due and free", len(claims))
		}
	})
}
