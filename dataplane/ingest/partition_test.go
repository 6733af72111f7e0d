package ingest

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/streaming-hub/streaming-hub/db"
	"github.com/streaming-hub/streaming-hub/hub/wire"
)

// TestPartition_pauses_and_resumes shows what bounds memory at any backlog.
func TestPartition_pauses_and_resumes(t *testing.T) {
	client, err := kgo.NewClient() // never connects: pausing is its own affair
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	for name, c := range map[string]struct {
		record  kgo.Record
		records int // that fit before the pause
	}{
		"by_bytes_of_values":        {kgo.Record{Value: make([]byte, 64<<10)}, pauseAboveBytes / (64 << 10)},
		"by_bytes_of_keys":          {kgo.Record{Key: make([]byte, 64<<10)}, pauseAboveBytes / (64 << 10)},
		"by_bytes_of_headers":       {kgo.Record{Headers: []kgo.RecordHeader{{Key: "a"}, {Key: "b", Value: make([]byte, 64<<10-2)}}}, pauseAboveBytes / (64 << 10)},
		"by_bytes_of_header_names":  {kgo.Record{Headers: []kgo.RecordHeader{{Key: strings.Repeat("a", 64<<10)}}}, pauseAboveBytes / (64 << 10)},
		"by_records_without_a_byte": {kgo.Record{}, pauseAboveRecords},
	} {
		t.Run(name, func(t *testing.T) {
			consumer := &Consumer{deps: Deps{BatchRecords: 500}, budget: newByteBudget(maxQueuedBytes)}
			p := &partition{consumer: consumer, client: client, topic: "facts", id: 3}
			p.arrived = sync.NewCond(&p.mu)
			record := &c.record
			for i := range c.records {
				if p.push([16]byte{1}, []*kgo.Record{record}, 0) {
					t.Fatalf("fetching pauses after %d records of %d bytes", i+1, size(record))
				}
			}
			if !p.push([16]byte{1}, []*kgo.Record{record}, 0) {
				t.Fatal("fetching does not pause")
			}
			if p.push([16]byte{1}, []*kgo.Record{record}, 0) {
				t.Error("it pauses a second time")
			}
			for p.paused {
				batch, _, ok := p.take()
				if !ok {
					t.Fatal("nothing to take")
				}
				if got := sizeOf(batch); got > maxBatchBytes {
					t.Fatalf("a batch of %d bytes", got)
				}
			}
			if p.bytes >= resumeBelowBytes && size(record) > 0 || len(p.queue) >= resumeBelowRecords {
				t.Errorf("fetching resumes with %d records and %d bytes queued", len(p.queue), p.bytes)
			}
		})
	}
}

// stuckInbox never answers, as a database that hangs, until its caller gives up.
type stuckInbox struct{ entered chan struct{} }

func (s stuckInbox) Ingest(ctx context.Context, _ db.IngestBatch, _ func(context.Context, db.IngestState) (db.IngestWrites, error)) error {
	close(s.entered)
	<-ctx.Done()
	return ctx.Err()
}

// A database that hangs, rather than being away, answers nothing and refuses
// nothing: the batch under way is given up in time for the consumer group.
func TestConsumer_stop_gives_a_hanging_database_its_time(t *testing.T) {
	for name, c := range map[string]struct {
		finish bool
		takes  time.Duration
	}{"revoked": {true, finishTime}, "lost": {false, 0}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				inbox := stuckInbox{make(chan struct{})}
				consumer := NewConsumer(Deps{
					Inbox: inbox, Rules: wire.DefaultRules(), Now: time.Now, Metrics: NewMetrics(prometheus.NewRegistry()), Log: slog.New(slog.DiscardHandler),
				})
				p := consumer.startPartition(nil, "facts", 3)
				consumer.partitions[topicPartition{"facts", 3}] = p
				p.push([16]byte{1}, []*kgo.Record{{Topic: "facts", Partition: 3}}, 1)
				<-inbox.entered
				begun := time.Now()
				consumer.stop(map[string][]int32{"facts": {3}}, c.finish)
				if took := time.Since(begun); took != c.takes {
					t.Errorf("it took %s, want %s", took, c.takes)
				}
				if _, _, moved := p.uncommitted(); moved {
					t.Error("the batch counts as stored")
				}
			})
		})
	}
}
