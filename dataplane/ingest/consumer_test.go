package ingest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/goleak"

	"github.com/streaming-hub/streaming-hub/db"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestConsumer_poison_blocks_nothing(t *testing.T) {
	t.Parallel()
	d := newDesk(t, 1, lenderTopic)
	d.produce(
		fact(0, "a"), without(fact(0, "b"), "ce-type", ""), fact(0, "c"), without(fact(0, "d"), "ce-specversion", "9.9"), fact(0, "e"),
	)
	inbox := newInbox()
	first := d.consume(inbox)
	inbox.waitEvents(t, 3)
	first.end(t)
	d.wantCommitted(0, 5)
	var places []string
	for _, q := range inbox.quarantine {
		places = append(places, fmt.Sprint(q.Offset, " ", q.Reason))
	}
	if !slices.Equal(places, []string{"1 missing_attribute:type", "3 unsupported_specversion"}) {
		t.Errorf("quarantine = %v", places)
	}
	for i, e := range inbox.events {
		if want := "ace"[i : i+1]; e.CEID != want || e.Seq != int64(i+1) || e.Record.Offset != int64(2*i) || e.Record.Topic != lenderTopic {
			t.Errorf("event %d = %s with seq %d at %+v", i, e.CEID, e.Seq, e.Record)
		}
	}
	if p := first.pool; p.reserved != 3 || p.submitted != 3 || p.cancelled != 0 {
		t.Errorf("pool: %d reserved, %d submitted, %d cancelled", p.reserved, p.submitted, p.cancelled)
	}

	// A restart goes on behind what was committed: nothing is read again.
	inbox.asked = nil
	d.produce(fact(0, "f"))
	second := d.consume(inbox)
	inbox.waitEvents(t, 4)
	second.end(t)
	if !slices.Equal(inbox.asked, []int{1}) || len(inbox.events) != 4 || len(inbox.quarantine) != 2 {
		t.Errorf("batches of %v records were read again; %d events, %d in quarantine", inbox.asked, len(inbox.events), len(inbox.quarantine))
	}
	d.wantCommitted(0, 6)
}

func TestConsumer_commit_is_never_ahead_of_what_is_stored(t *testing.T) {
	t.Parallel()
	d := newDesk(t, 1, lenderTopic)
	inbox := newInbox()
	var failures atomic.Int32
	inbox.before = func(db.IngestWrites) error {
		if n := failures.Add(1); n <= 4 { // longer than the commit interval
			if at := d.committed(0); at > 0 {
				t.Errorf("offset %d is committed, nothing is stored", at)
			}
			return errors.New("the database is away")
		}
		return nil
	}
	d.produce(fact(0, "a"), fact(0, "b"), fact(0, "c"))
	r := d.consume(inbox)
	inbox.waitEvents(t, 3)
	r.end(t)
	d.wantCommitted(0, 3)
	if n := testutil.ToFloat64(r.deps.Metrics.CommitsAhead); n != 0 {
		t.Errorf("the ledger had to hold back %v commits", n)
	}
	if len(inbox.events) != 3 {
		t.Errorf("%d events, want 3", len(inbox.events))
	}
	if p := r.pool; p.submitted != 3 || p.reserved != p.submitted+p.cancelled || p.cancelled == 0 {
		t.Errorf("pool: %d reserved, %d submitted, %d cancelled", p.reserved, p.submitted, p.cancelled)
	}
}

func TestConsumer_offset_ahead_of_the_ledger_is_not_committed(t *testing.T) {
	t.Parallel()
	d := newDesk(t, 1, lenderTopic)
	inbox := newInbox()
	inbox.behind = 1 // as if the database had been set back
	d.produce(fact(0, "a"), fact(0, "b"))
	r := d.consume(inbox)
	inbox.waitEvents(t, 2)
	r.end(t)
	if at := d.committed(0); at > 1 {
		t.Errorf("offset %d is committed, the ledger says less", at)
	}
	if n := testutil.ToFloat64(r.deps.Metrics.CommitsAhead); n == 0 {
		t.Error("nobody counted it")
	}
}

func TestConsumer_null_and_empty_values_are_events(t *testing.T) {
	t.Parallel()
	d := newDesk(t, 1, lenderTopic)
	null, empty := fact(0, "null"), fact(0, "empty")
	null.Value, empty.Value = nil, []byte{}
	d.produce(null, empty)
	inbox := newInbox()
	r := d.consume(inbox)
	inbox.waitEvents(t, 2)
	r.end(t)
	for _, e := range inbox.events {
		if e.Body == nil || len(e.Body) != 0 {
			t.Errorf("body of %s = %q", e.CEID, e.Body)
		}
	}
	d.wantCommitted(0, 2)
}

func TestConsumer_conflict_is_quarantined_once(t *testing.T) {
	t.Parallel()
	d := newDesk(t, 1, lenderTopic)
	other := fact(0, "a")
	other.Value = []byte("other")
	d.produce(fact(0, "a"), other, fact(0, "a"), fact(0, "b"))
	inbox := newInbox()
	r := d.consume(inbox)
	inbox.waitEvents(t, 2)
	r.end(t)
	if len(inbox.quarantine) != 1 || inbox.quarantine[0].Reason != "duplicate_conflict" || inbox.quarantine[0].Offset != 1 || len(inbox.events) != 2 {
		t.Errorf("%d events, quarantine %+v", len(inbox.events), inbox.quarantine)
	}
}

func TestConsumer_failing_partition_does_not_stop_the_other(t *testing.T) {
	t.Parallel()
	d := newDesk(t, 2, lenderTopic)
	inbox := newInbox()
	var healed atomic.Bool
	inbox.before = func(w db.IngestWrites) error {
		if w.Record.Partition == 0 && !healed.Load() {
			return errors.New("no room on this page")
		}
		return nil
	}
	d.produce(fact(0, "stuck"))
	r := d.consume(inbox)
	r.waitAssigned(t, 2)
	for n := range 5 {
		d.produce(fact(1, fmt.Sprint(n)))
		inbox.waitEvents(t, n+1)
	}
	if err := r.Ready(); err == nil || !strings.Contains(err.Error(), lenderTopic+"/0 waits: no room on this page") {
		t.Errorf("Ready = %v", err)
	}
	healed.Store(true)
	inbox.waitEvents(t, 6)
	r.end(t)
	d.wantCommitted(0, 1)
	d.wantCommitted(1, 5)
}

func TestConsumer_aborted_records_are_unseen(t *testing.T) {
	t.Parallel()
	d := newDesk(t, 1, lenderTopic)
	producer, err := kgo.NewClient(kgo.SeedBrokers(d.broker.Addrs()...), kgo.TransactionalID("tx"), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	defer producer.Close()
	transaction := func(end kgo.TransactionEndTry, ids ...string) {
		t.Helper()
		if err := producer.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		for _, id := range ids {
			if err := producer.ProduceSync(t.Context(), fact(0, id)).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
		if err := producer.EndTransaction(t.Context(), end); err != nil {
			t.Fatal(err)
		}
	}
	transaction(kgo.TryAbort, "aborted1", "aborted2")
	transaction(kgo.TryCommit, "committed")
	d.produce(fact(0, "plain"))
	inbox := newInbox()
	r := d.consume(inbox)
	inbox.waitEvents(t, 2)
	r.end(t)
	var ids []string
	for _, e := range inbox.events {
		ids = append(ids, e.CEID)
	}
	if !slices.Equal(ids, []string{"committed", "plain"}) {
		t.Errorf("events = %v", ids)
	}
	d.wantCommitted(0, 6) // three records, two markers, one record
}

func TestConsumer_stop_finishes_the_batch_under_way(t *testing.T) {
	t.Parallel()
	d := newDesk(t, 1, lenderTopic)
	inbox := newInbox()
	entered, release := make(chan struct{}), make(chan struct{})
	var once sync.Once
	inbox.before = func(db.IngestWrites) error {
		once.Do(func() { close(entered); <-release })
		return nil
	}
	d.produce(fact(0, "a"), fact(0, "b"))
	r := d.consume(inbox)
	<-entered
	r.stop()
	select {
	case err := <-r.done:
		t.Fatalf("Run returned %v in the middle of a batch", err)
	case <-time.After(300 * time.Millisecond):
	}
	close(release)
	r.end(t)
	if got, want := d.committed(0), int64(len(inbox.events)); got != want || want == 0 {
		t.Errorf("committed %d, stored %d", got, want)
	}
}

func TestConsumer_stop_does_not_wait_for_a_database_that_is_away(t *testing.T) {
	t.Parallel()
	d := newDesk(t, 1, lenderTopic)
	inbox := newInbox()
	tried := make(chan struct{}, 1000)
	inbox.before = func(db.IngestWrites) error {
		tried <- struct{}{}
		return errors.New("away")
	}
	d.produce(fact(0, "a"))
	r := d.consume(inbox)
	for range 3 {
		<-tried
	}
	begun := time.Now()
	r.end(t)
	if took := time.Since(begun); took > 5*time.Second {
		t.Errorf("the stop took %s", took)
	}
	if at := d.committed(0); at > 0 {
		t.Errorf("offset %d is committed, nothing is stored", at)
	}
}

func TestConsumer_new_topic_is_picked_up(t *testing.T) {
	t.Parallel()
	d := newDesk(t, 1)
	inbox := newInbox()
	r := d.consume(inbox)
	names := []string{"lerian.streaming.fresh", "lerian.streaming.fresh.dlq", "lerian.streaming", "lerian.streaming.a.b", "xlerian.streaming.fresh", "orders"}
	if _, err := d.admin.CreateTopics(t.Context(), 1, 1, nil, names...); err != nil {
		t.Fatal(err)
	}
	for _, name := range append(names[1:], names[0]) { // the one to follow last
		record := fact(0, name)
		record.Topic = name
		for i, h := range record.Headers {
			switch h.Key {
			case "ce-source":
				record.Headers[i].Value = []byte("fresh")
			case "ce-type":
				record.Headers[i].Value = []byte("studio.lerian.fresh.loan.approved")
			}
		}
		d.produce(record)
	}
	inbox.waitEvents(t, 1)
	if err := r.Ready(); err != nil {
		t.Errorf("Ready = %v", err)
	}
	r.end(t)
	if len(inbox.events) != 1 || inbox.events[0].CEID != names[0] || len(inbox.quarantine) != 0 {
		t.Errorf("events %+v, quarantine %+v", inbox.events, inbox.quarantine)
	}
}

func TestConsumer_two_members_see_everything_together(t *testing.T) {
	t.Parallel()
	d := newDesk(t, 4, lenderTopic)
	inbox := newInbox()
	total := 0
	produce := func(n int) {
		var records []*kgo.Record
		for range n {
			records = append(records, fact(int32(total%4), fmt.Sprint(total)))
			total++
		}
		d.produce(records...)
	}
	one, two := &member{memoryInbox: inbox}, &member{memoryInbox: inbox}
	first := d.consume(one)
	first.waitAssigned(t, 4)
	produce(100)
	second := d.consume(two) // joins while the first works
	produce(100)
	first.waitAssigned(t, 2)
	second.waitAssigned(t, 2)
	produce(200)
	inbox.waitEvents(t, total)
	inbox.wait(t, "both members to store", func() bool { return one.seen > 0 && two.seen > 0 })
	first.end(t)
	second.waitAssigned(t, 4)
	produce(40)
	inbox.waitEvents(t, total)
	second.end(t)
	seen := map[string]bool{}
	for _, e := range inbox.events {
		seen[e.CEID] = true
	}
	if len(seen) != total || len(inbox.events) != total {
		t.Errorf("%d ids in %d events, want %d once each", len(seen), len(inbox.events), total)
	}
	for partition := range int32(4) {
		d.wantCommitted(partition, int64(total/4))
	}
}
