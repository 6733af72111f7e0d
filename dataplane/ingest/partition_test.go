package ingest

import (
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
)

// TestPartition_pauses_and_resumes shows what bounds memory at any backlog.
func TestPartition_pauses_and_resumes(t *testing.T) {
	client, err := kgo.NewClient() // never connects: pausing is its own affair
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	for name, c := range map[string]struct {
		valueBytes int
		records    int // that fit before the pause
	}{
		"by_bytes":   {valueBytes: 64 << 10, records: pauseAboveBytes / (64 << 10)},
		"by_records": {valueBytes: 0, records: pauseAboveRecords},
	} {
		t.Run(name, func(t *testing.T) {
			consumer := &Consumer{deps: Deps{BatchRecords: 500}, budget: newByteBudget(maxQueuedBytes)}
			p := &partition{consumer: consumer, client: client, topic: "facts", id: 3}
			p.arrived = sync.NewCond(&p.mu)
			record := &kgo.Record{Value: make([]byte, c.valueBytes)}
			for i := range c.records {
				if p.push([16]byte{1}, []*kgo.Record{record}, 0) {
					t.Fatalf("fetching pauses after %d records of %d bytes", i+1, c.valueBytes)
				}
			}
			if !p.push([16]byte{1}, []*kgo.Record{record}, 0) {
				t.Fatal("fetching does not pause")
			}
			if p.push([16]byte{1}, []*kgo.Record{record}, 0) {
				t.Error("it pauses a second time")
			}
			for p.paused {
				if _, _, ok := p.take(); !ok {
					t.Fatal("nothing to take")
				}
			}
			if p.bytes >= resumeBelowBytes && c.valueBytes > 0 || len(p.queue) >= resumeBelowRecords {
				t.Errorf("fetching resumes with %d records and %d bytes queued", len(p.queue), p.bytes)
			}
		})
	}
}
