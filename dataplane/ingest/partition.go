package ingest

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

type (
	commitRequest  = kmsg.OffsetCommitRequest
	commitResponse = kmsg.OffsetCommitResponse
)

// Waits between tries while Postgres is away.
const (
	firstBackoff = 100 * time.Millisecond
	maxBackoff   = 5 * time.Second
)

// partition works off one Kafka partition, batch after batch, in order.
type partition struct {
	consumer *Consumer
	client   *kgo.Client
	topic    string
	id       int32

	cancel context.CancelFunc // ends a wait or a transaction
	done   chan struct{}

	mu       sync.Mutex
	arrived  *sync.Cond
	topicID  [16]byte
	queue    []*kgo.Record
	bytes    int
	paused   bool
	stopping bool
	mark     kgo.EpochOffset // next offset to read: everything below is stored
	marked   bool
	first    int64 // first offset that was fetched
	end      int64 // of the partition, at the last fetch
	saved    int64 // offset of the last commit
	problem  error // why the current batch does not get through
}

func (c *Consumer) startPartition(client *kgo.Client, topic string, id int32) *partition {
	ctx, cancel := context.WithCancel(context.Background())
	p := &partition{
		consumer: c, client: client, topic: topic, id: id,
		cancel: cancel, done: make(chan struct{}), saved: -1,
	}
	p.arrived = sync.NewCond(&p.mu)
	go p.run(ctx)
	return p
}

// push queues records and reports whether fetching should pause. end is the
// offset behind the partition's last record.
func (p *partition) push(topicID [16]byte, records []*kgo.Record, end int64) (pause bool) {
	bytes := sizeOf(records)
	p.consumer.budget.add(bytes)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.end == 0 {
		p.first = records[0].Offset
	}
	p.topicID, p.end = topicID, end
	p.queue = append(p.queue, records...)
	p.bytes += bytes
	p.arrived.Signal()
	if !p.paused && (p.bytes > pauseAboveBytes || len(p.queue) > pauseAboveRecords) {
		p.paused = true
		return true
	}
	return false
}

// take waits for records and removes the next batch from the queue; false
// means that the partition is to stop.
func (p *partition) take() (batch []*kgo.Record, topicID [16]byte, ok bool) {
	p.mu.Lock()
	for len(p.queue) == 0 && !p.stopping {
		p.arrived.Wait()
	}
	if p.stopping {
		p.mu.Unlock()
		return nil, topicID, false
	}
	bytes, n := 0, 0
	for n < len(p.queue) && n < p.consumer.deps.BatchRecords && (n == 0 || bytes+size(p.queue[n]) <= maxBatchBytes) {
		bytes += size(p.queue[n])
		n++
	}
	batch = p.queue[:n:n]
	if p.queue = p.queue[n:]; len(p.queue) == 0 {
		p.queue = nil // lets go of the records
	}
	p.bytes -= bytes
	resume := p.paused && p.bytes < resumeBelowBytes && len(p.queue) < resumeBelowRecords
	if resume {
		p.paused = false
	}
	topicID = p.topicID
	p.mu.Unlock()
	if resume {
		p.client.ResumeFetchPartitions(map[string][]int32{p.topic: {p.id}})
	}
	return batch, topicID, true
}

// size is what a record takes in memory, in bytes: nothing but the broker's own
// limit keeps a record's key and headers smaller than its value.
func size(r *kgo.Record) int {
	n := len(r.Key) + len(r.Value)
	for i := range r.Headers {
		n += len(r.Headers[i].Key) + len(r.Headers[i].Value)
	}
	return n
}

func sizeOf(records []*kgo.Record) (n int) {
	for _, r := range records {
		n += size(r)
	}
	return n
}

func (p *partition) run(ctx context.Context) {
	defer close(p.done)
	for {
		batch, topicID, ok := p.take()
		if !ok {
			return
		}
		stored := p.storeUntilDone(ctx, topicID, batch)
		p.consumer.budget.add(-sizeOf(batch))
		if !stored {
			return
		}
		last := batch[len(batch)-1]
		p.mu.Lock()
		p.mark, p.marked = kgo.EpochOffset{Epoch: last.LeaderEpoch, Offset: last.Offset + 1}, true
		p.mu.Unlock()
	}
}

// storeUntilDone tries until the batch is stored, or the partition is gone.
func (p *partition) storeUntilDone(ctx context.Context, topicID [16]byte, batch []*kgo.Record) bool {
	for wait := firstBackoff; ; wait = min(2*wait, maxBackoff) {
		err := p.consumer.store(ctx, topicID, batch)
		p.note(err)
		if err == nil {
			return true
		}
		p.consumer.deps.Metrics.BatchErrors.Inc()
		select {
		case <-ctx.Done():
			return false
		case <-time.After(wait):
		}
		if p.isStopping() {
			return false
		}
	}
}

func (p *partition) note(err error) {
	p.mu.Lock()
	before := p.problem
	p.problem = err
	stopping := p.stopping
	p.mu.Unlock()
	log := p.consumer.deps.Log.With("topic", p.topic, "partition", p.id)
	switch {
	case err != nil && before == nil && !stopping:
		log.Warn("cannot store a batch; the partition waits and tries again", "error", err)
	case err == nil && before != nil:
		log.Info("batches are stored again")
	}
}

// failing says why the partition does not get on, if so.
func (p *partition) failing() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.problem == nil {
		return nil
	}
	return fmt.Errorf("%s/%d waits: %w", p.topic, p.id, p.problem)
}

func (p *partition) isStopping() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stopping
}

// stop ends the partition after the batch under way, or at once when its work
// is no longer ours. Queued records are left to the next owner.
func (p *partition) stop(finish bool) {
	p.mu.Lock()
	p.stopping = true
	queued, failing := p.bytes, p.problem != nil
	p.queue, p.bytes = nil, 0
	p.mu.Unlock()
	p.consumer.budget.add(-queued)
	p.arrived.Broadcast()
	if !finish || failing {
		p.cancel()
	}
}

// uncommitted is the mark to commit, if it moved since the last time, with the
// topic that it belongs to.
func (p *partition) uncommitted() (mark kgo.EpochOffset, topicID [16]byte, moved bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mark, p.topicID, p.marked && p.mark.Offset != p.saved
}

// lag is how many offsets are in Kafka and not yet stored, as far as the last
// fetch knew.
func (p *partition) lag() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	next := p.mark.Offset
	if !p.marked {
		next = p.first
	}
	return max(0, p.end-next)
}

func (p *partition) committed(mark kgo.EpochOffset) {
	p.mu.Lock()
	p.saved = mark.Offset
	p.mu.Unlock()
}
