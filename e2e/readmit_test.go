package e2e

import (
	"context"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/streaming-hub/streaming-hub/dev/sample"
)

// TestReadmission puts records into quarantine by a limit that is set too low,
// mends the setting, and asks for them again: what passes now is stored and
// delivered as any other event, what does not stays with its reason.
func TestReadmission(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	defer cancel()
	rig := newKillRig(ctx, t)
	addr := rig.broker.Addrs()[0]
	client, err := kgo.NewClient(kgo.SeedBrokers(addr))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	publish := func(id, body, schema string) {
		t.Helper()
		f := sample.Fact{ID: id, Source: "lender", ResourceType: "loan", EventType: "closed", SchemaVersion: schema,
			TenantID: "t0", Time: time.Now(), Body: []byte(body)}
		if err := client.ProduceSync(ctx, f.Record(sample.Prefixes{Topic: "lerian.streaming", Type: "studio.lerian"})).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}

	low := rig.startOn(t, addr, "STREAMING_HUB_MAX_BODY_BYTES=10")
	publish("long", "longer than ten bytes", "1")
	publish("again", "longer than ten bytes", "1")
	publish("broken", "x", "newest")
	publish("short", "short", "1")
	rig.awaitStored(ctx, t, 4)
	if n := rig.count(ctx, t, "SELECT count(*) FROM quarantined_records"); n != 3 {
		t.Fatalf("%d records are in quarantine, want 3", n)
	}
	low.stop(t)

	mended := rig.startOn(t, addr)
	// The producer, told of it, published one of them once more meanwhile.
	publish("again", "longer than ten bytes", "1")
	rig.awaitStored(ctx, t, 5)
	if _, err := rig.pool.Exec(ctx, "UPDATE quarantined_records SET readmit_requested_at = now()"); err != nil {
		t.Fatal(err)
	}
	eventually(ctx, t, func() bool {
		return rig.count(ctx, t, "SELECT count(*) FROM quarantined_records WHERE readmit_requested_at IS NOT NULL") == 0
	}, func() string { return "the re-admission is not done" })

	rows, err := rig.pool.Query(ctx, `SELECT reason, readmit_result, readmitted_at IS NOT NULL FROM quarantined_records ORDER BY kafka_partition, kafka_offset`)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var results []string
	for rows.Next() {
		var reason, result string
		var readmitted bool
		if err := rows.Scan(&reason, &result, &readmitted); err != nil {
			t.Fatal(err)
		}
		if readmitted != (result == "accepted") {
			t.Errorf("a record with the result %s is marked readmitted: %v", result, readmitted)
		}
		results = append(results, reason+" → "+result)
	}
	want := []string{"body_too_large → accepted", "body_too_large → duplicate", "invalid_attribute:schemaversion → invalid_attribute:schemaversion"}
	if len(results) != 3 || results[0] != want[0] || results[1] != want[1] || results[2] != want[2] {
		t.Errorf("results %q, want %q", results, want)
	}
	eventually(ctx, t, func() bool { return rig.finished(ctx, t) == 3 }, rig.say)
	if n := rig.count(ctx, t, "SELECT max(seq) - count(*) FROM events WHERE tenant_id = 't0'"); n != 0 {
		t.Errorf("seq has %d gaps", n)
	}
	if n := rig.count(ctx, t, "SELECT count(*) FROM quarantined_records"); n != 3 {
		t.Errorf("%d records are in quarantine after the re-admission, want the same 3", n)
	}
	mended.stop(t)
}
