package ingest

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/streaming-hub/streaming-hub/db"
)

// A pause belongs to the client, not to the assignment: a partition that was
// paused, went to another member and came back must be read again.
func TestConsumer_paused_partition_that_comes_back_is_read(t *testing.T) {
	t.Parallel()
	const each = pauseAboveRecords + 2000 // more than a queue takes
	d := newDesk(t, 2, lenderTopic)
	inbox := newInbox()
	var healed atomic.Bool
	inbox.before = func(db.IngestWrites) error {
		if !healed.Load() {
			return errors.New("the database is away")
		}
		return nil
	}
	var records []*kgo.Record
	for i := range 2 * each {
		records = append(records, fact(int32(i%2), fmt.Sprint(i)))
	}
	d.produce(records...)
	first := d.consume(inbox)
	first.waitAssigned(t, 2)
	first.waitPaused(t, 2)
	second := d.consume(inbox)
	second.waitAssigned(t, 1)
	second.end(t)
	first.waitAssigned(t, 2)
	healed.Store(true)
	inbox.waitEvents(t, 2*each)
	first.end(t)
	d.wantCommitted(0, each)
	d.wantCommitted(1, each)
}

// A topic that was deleted and made anew has other records at the same
// offsets, good ones and broken ones.
func TestConsumer_topic_made_anew_is_read_from_its_start(t *testing.T) {
	t.Parallel()
	d := newDesk(t, 1, lenderTopic)
	inbox := newInbox()
	broken := func(id string) *kgo.Record { return without(fact(0, id), "ce-type", "") }
	d.produce(broken("a"), fact(0, "b"))
	r := d.consume(inbox)
	inbox.waitEvents(t, 1)
	if _, err := d.admin.DeleteTopic(t.Context(), lenderTopic); err != nil {
		t.Fatal(err)
	}
	if _, err := d.admin.CreateTopic(t.Context(), 1, 1, nil, lenderTopic); err != nil {
		t.Fatal(err)
	}
	d.client.PurgeTopicsFromClient(lenderTopic)
	d.produce(broken("c"), fact(0, "d"), fact(0, "e"), fact(0, "f"))
	inbox.waitEvents(t, 4)
	r.end(t)
	if len(inbox.events) != 4 || len(inbox.quarantine) != 2 {
		t.Errorf("%d events and %d quarantined records, want 4 and 2", len(inbox.events), len(inbox.quarantine))
	}
	d.wantCommitted(0, 4)
}
