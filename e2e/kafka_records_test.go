package e2e

import (
	"context"
	"crypto/rand"
	"fmt"
	"maps"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
)

const mib = 1 << 20

// eachCodec publishes with each compression that Kafka knows.
func eachCodec(ctx context.Context, t *testing.T, r *kafkaRig) {
	r.createTopic(ctx, t, "lender", kafkaPartitions, nil)
	r.start(ctx, t)
	for _, codec := range []kgo.CompressionCodec{
		kgo.NoCompression(), kgo.GzipCompression(), kgo.SnappyCompression(), kgo.Lz4Compression(), kgo.ZstdCompression(),
	} {
		publish(ctx, t, r.connect(t, kgo.ProducerBatchCompression(codec)), r.facts("lender", 100, 2000)...)
	}
	r.arrived(ctx, t, r.sent)
	if n := r.count(ctx, t, "SELECT count(*) FROM events WHERE octet_length(body) = 2000"); n != r.sent {
		t.Errorf("%d of %d bodies are stored whole", n, r.sent)
	}
}

// transactions ends some by abort and some by commit; one stays open for a
// while, and is committed before the records that were published after it.
func transactions(ctx context.Context, t *testing.T, r *kafkaRig) {
	r.createTopic(ctx, t, "lender", 1, nil)
	r.start(ctx, t)
	client := r.connect(t, kgo.TransactionalID(r.prefix))
	transaction := func(end kgo.TransactionEndTry, records ...*kgo.Record) {
		t.Helper()
		if err := client.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		publish(ctx, t, client, records...)
		if err := client.EndTransaction(ctx, end); err != nil {
			t.Fatal(err)
		}
	}
	aborted := r.facts("lender", 20, 0)
	transaction(kgo.TryAbort, aborted...)
	transaction(kgo.TryCommit, r.facts("lender", 20, 0)...)
	r.arrived(ctx, t, 20)

	if err := client.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	publish(ctx, t, client, r.facts("lender", 1, 0)...)
	publish(ctx, t, r.connect(t), r.facts("lender", 10, 0)...)
	if n := r.count(ctx, t, "SELECT count(*) FROM events"); n != 20 {
		t.Errorf("%d facts are stored while a transaction is open before them, want 20", n)
	}
	if err := client.EndTransaction(ctx, kgo.TryCommit); err != nil {
		t.Fatal(err)
	}
	r.arrived(ctx, t, 31)
	for _, record := range aborted {
		id := string(record.Headers[1].Value)
		if n := r.count(ctx, t, "SELECT count(*) FROM events WHERE ce_id = $1", id); n != 0 {
			t.Errorf("%s=%s was aborted and is stored", record.Headers[1].Key, id)
		}
	}
}

// largeRecords has bodies at the limit, one byte above it, and as large as the
// broker takes at all, with small ones between them.
func largeRecords(ctx context.Context, t *testing.T, r *kafkaRig) {
	const brokerLimit = 4 * mib
	limit := fmt.Sprint(brokerLimit)
	r.createTopic(ctx, t, "lender", 1, map[string]*string{"max.message.bytes": &limit})
	client := r.connect(t, kgo.ProducerBatchMaxBytes(brokerLimit), kgo.ProducerBatchCompression(kgo.NoCompression()))
	// The batch around a record has its own bytes, some 600 with these headers.
	for _, size := range []int{0, mib, 0, mib + 1, 0, brokerLimit - 1024, 0} {
		record := r.facts("lender", 1, size)[0]
		if size > 0 {
			rand.Read(record.Value)
		}
		publish(ctx, t, client, record)
	}
	r.start(ctx, t)
	r.arrived(ctx, t, 5)
	quarantine := map[string]int{}
	rows, err := r.pool.Query(ctx, "SELECT reason, body_bytes, octet_length(body) FROM quarantined_records ORDER BY kafka_offset")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var reason string
		var size, kept int
		if err := rows.Scan(&reason, &size, &kept); err != nil {
			t.Fatal(err)
		}
		quarantine[fmt.Sprintf("%s of %d, %d kept", reason, size, kept)]++
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	want := map[string]int{
		fmt.Sprintf("body_too_large of %d, %d kept", mib+1, mib):            1,
		fmt.Sprintf("body_too_large of %d, %d kept", brokerLimit-1024, mib): 1,
	}
	if !maps.Equal(quarantine, want) {
		t.Errorf("quarantine: %v, want %v", quarantine, want)
	}
	if n := r.count(ctx, t, "SELECT count(*) FROM events WHERE octet_length(body) = $1", mib); n != 1 {
		t.Errorf("%d bodies of exactly 1 MiB are stored, want 1", n)
	}
}
