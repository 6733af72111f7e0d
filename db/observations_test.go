package db_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/streaming-hub/streaming-hub/db"
	"github.com/streaming-hub/streaming-hub/hub"
)

var top = hub.FloorID(time.Now().Add(48 * time.Hour))

func observed(tenant hub.TenantID, at time.Time, change func(*db.NewObservation)) db.NewObservation {
	o := db.NewObservation{Place: newID(), Body: []byte("body"), Observation: hub.Observation{
		ID: newID(), Writer: hub.WriterProducer, Tenant: tenant, ObservedAt: at, BodyBytes: 4, KeptBytes: 4,
		Record: hub.RecordPosition{Topic: "lerian.streaming.lender.dlq", Partition: 1, Offset: 2},
	}}
	if change != nil {
		change(&o)
	}
	return o
}

func TestStoreObservations(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	now := time.Now().UTC().Truncate(time.Microsecond)
	retries, partition, offset, omitted, payload := int32(3), int32(4), int64(5), true, int64(6)
	full := observed("acme", now, func(o *db.NewObservation) {
		o.Writer, o.Attributes, o.AttributesCut = hub.WriterConsumer, []hub.Attribute{{Name: "id", Value: "é"}}, true
		o.SourceTopic, o.ErrorClass, o.ErrorMessage, o.ProducerID, o.CauseKind = "t", "c", "m", "p", "codec"
		o.RetryCount, o.SourcePartition, o.SourceOffset, o.PayloadOmitted, o.PayloadBytes = &retries, &partition, &offset, &omitted, &payload
		o.FirstFailureAt, o.BodyBytes = now.Add(-time.Hour), 100
	})
	bare := observed("", now, func(o *db.NewObservation) { o.Body, o.BodyBytes, o.KeptBytes = nil, 0, 0 })
	stored, err := l.db.StoreObservations(t.Context(), now, []db.NewObservation{full, bare, full})
	if err != nil || stored != 2 {
		t.Fatalf("stored %d, %v", stored, err)
	}
	t.Run("comes_back_as_it_was", func(t *testing.T) {
		list, err := l.db.ObservationsByID(t.Context(), []hub.ID{full.ID})
		if err != nil || len(list) != 1 {
			t.Fatalf("%v, %v", list, err)
		}
		list[0].ObservedAt = list[0].ObservedAt.UTC()
		if diff := cmp.Diff(full.Observation, list[0]); diff != "" {
			t.Error(diff)
		}
		bodies, err := l.db.ObservationBodies(t.Context(), []hub.ID{full.ID, bare.ID})
		if err != nil || string(bodies[full.ID]) != "body" || len(bodies) != 2 {
			t.Errorf("%q, %v", bodies, err)
		}
	})
	t.Run("a_place_is_stored_once", func(t *testing.T) {
		again := full
		again.ID = newID()
		fresh := observed("acme", now, nil)
		if stored, err := l.db.StoreObservations(t.Context(), now, []db.NewObservation{again, fresh}); err != nil || stored != 1 {
			t.Errorf("stored %d, %v", stored, err)
		}
		l.wantCount("observations", 3, `SELECT count(*) FROM dlq_observations`)
		l.wantCount("keys", 3, `SELECT count(*) FROM event_keys`)
	})
}

func TestObservationPage(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	now := time.Now().UTC()
	old := observed("acme", now, func(o *db.NewObservation) {
		o.ID, o.Writer, o.ErrorClass = hub.FloorID(now.Add(-time.Minute)), hub.WriterConsumer, "A"
	})
	beta := observed("beta", now, func(o *db.NewObservation) { o.Record.Topic = "lerian.streaming.tracer.dlq" })
	none := observed("", now, nil)
	if _, err := l.db.StoreObservations(t.Context(), now, []db.NewObservation{old, beta, none}); err != nil {
		t.Fatal(err)
	}
	l.exec(`UPDATE dlq_observations SET observed_at = now() - interval '1 minute' WHERE id = $1`, text(old.ID))
	for name, c := range map[string]struct {
		f    db.ObservationFilter
		want int
	}{
		"all": {db.ObservationFilter{}, 3}, "tenant": {db.ObservationFilter{Tenant: "acme"}, 1}, "topic": {db.ObservationFilter{Topic: beta.Record.Topic}, 1},
		"source": {db.ObservationFilter{Source: "lender"}, 2}, "writer": {db.ObservationFilter{Writer: hub.WriterConsumer}, 1},
		"error_class": {db.ObservationFilter{ErrorClass: "A"}, 1}, "after": {db.ObservationFilter{After: now.Add(-10 * time.Second)}, 2},
		"before": {db.ObservationFilter{Before: now.Add(-10 * time.Second)}, 1}, "tenant_and_writer": {db.ObservationFilter{Tenant: "beta", Writer: hub.WriterConsumer}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			page, err := l.db.ObservationPage(t.Context(), c.f, top, 10)
			if err != nil || len(page.Rows) != c.want || page.More {
				t.Errorf("%d rows, more %t, %v; want %d", len(page.Rows), page.More, err, c.want)
			}
		})
	}
	t.Run("pages_hold_everything_once", func(t *testing.T) {
		seen, before := map[hub.ID]bool{}, top
		for range 5 {
			page, err := l.db.ObservationPage(t.Context(), db.ObservationFilter{}, before, 1)
			if err != nil {
				t.Fatal(err)
			}
			for _, o := range page.Rows {
				seen[o.ID] = true
			}
			if before = page.End; !page.More {
				break
			}
		}
		if len(seen) != 3 {
			t.Errorf("saw %d", len(seen))
		}
	})
	t.Run("a_rare_filter_stops_early_and_goes_on", func(t *testing.T) {
		l.exec(`INSERT INTO dlq_observations SELECT (left(hub_uuid_floor(now() + interval '1 hour')::text, 14) || '7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid,
			'acme', 'PRODUCER', 't', 0, n, NULL, NULL, NULL, now(), '{}', '', 0 FROM generate_series(1, 3000) n`)
		f := db.ObservationFilter{ErrorClass: "A"}
		page, err := l.db.ObservationPage(t.Context(), f, top, 5)
		if err != nil || len(page.Rows) != 0 || !page.More {
			t.Fatalf("%d rows, more %t, %v", len(page.Rows), page.More, err)
		}
		if page, err = l.db.ObservationPage(t.Context(), f, page.End, 5); err != nil || len(page.Rows) != 1 || page.More {
			t.Errorf("%d rows, more %t, %v", len(page.Rows), page.More, err)
		}
	})
}

func TestRequestReadmission(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	ids := make([]hub.ID, 4)
	for i := range ids {
		ids[i] = newID()
		l.exec(`INSERT INTO quarantined_records (id, reason, topic, kafka_partition, kafka_offset, headers, body, body_bytes, received_at)
			VALUES ($1, 'type_mismatch', 't', 0, $2, '[]', '', 0, now())`, text(ids[i]), i)
	}
	l.exec(`UPDATE quarantined_records SET readmitted_at = now() WHERE id = $1`, text(ids[2]))
	conn, err := l.raw.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	if _, err := conn.Exec(t.Context(), "LISTEN hub_readmit"); err != nil {
		t.Fatal(err)
	}
	ask := func() []hub.QuarantinedRecord {
		t.Helper()
		list, err := l.db.RequestReadmission(t.Context(), append(ids[:3:3], newID()), func(before, after *hub.QuarantinedRecord) db.AuditEntry {
			return db.AuditEntry{
				ID: newID(), ActorName: "night shift", Action: "readmit", Object: after.ID.String(),
				Before: map[string]bool{"asked": !before.ReadmitRequestedAt.IsZero()}, After: map[string]bool{"asked": !after.ReadmitRequestedAt.IsZero()},
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		return list
	}
	if list := ask(); len(list) != 3 {
		t.Errorf("%d records come back", len(list))
	}
	if _, err := conn.Conn().WaitForNotification(t.Context()); err != nil {
		t.Fatal(err)
	}
	l.wantCount("asked for", 2, `SELECT count(*) FROM quarantined_records WHERE readmit_requested_at IS NOT NULL`)
	ask() // a double click
	l.wantCount("audit entries", 2, fmt.Sprintf(`SELECT count(*) FROM audit_log WHERE action = 'readmit' AND actor_name = 'night shift' AND tenant_id IS NULL AND actor_id IS NULL
		AND before = '{"asked": false}' AND after = '{"asked": true}' AND object IN ('%s', '%s')`, ids[0], ids[1]))
}
