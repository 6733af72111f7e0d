// Package ingest brings Kafka records into the inbox. Each record ends in
// exactly one place: stored as an event, dropped as a duplicate, skipped as a
// system event, or kept in quarantine.
//
//	consumer.go   the consumer group: polls, hands over             (shell)
//	commit.go     commits what is stored                            (shell)
//	partition.go  one goroutine per partition: batch after batch    (shell)
//	store.go      one batch, one transaction                        (shell)
//	plan.go       what becomes of each record                       (pure)
//
// What must hold, and why:
//
//   - A committed offset is never ahead of what Postgres holds: only a stored
//     batch moves a partition's mark, and only marks are committed.
//   - One partition never waits for another: each has its own goroutine and
//     queue, and a full queue pauses only its own fetches.
//   - A rebalance waits for the transaction under way, so that two replicas
//     never work on one partition for longer than the broker allows; if they
//     do (a process that stood still), the dedup keys make the second harmless.
//   - A database or broker that is away is not a verdict on any record:
//     nothing is committed, the partition waits and goes on in order.
package ingest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/streaming-hub/streaming-hub/dataplane/outage"
	"github.com/streaming-hub/streaming-hub/dataplane/snapshot"
	"github.com/streaming-hub/streaming-hub/db"
	"github.com/streaming-hub/streaming-hub/hub"
	"github.com/streaming-hub/streaming-hub/hub/wire"
	"github.com/streaming-hub/streaming-hub/tracing"
)

const (
	// How often the broker is asked whether it is there, and how long it has.
	askEvery, askTimeout = 2 * time.Second, 2 * time.Second
	// fetchWait is how long the broker may hold a fetch that finds nothing. A
	// partition that resumes is fetched only when the fetch under way returns,
	// which may be for idle partitions only: so it is short, well below what a
	// resumed partition still has queued.
	fetchWait = 100 * time.Millisecond
	// sessionTimeout is above the least that brokers allow, 6 s.
	sessionTimeout = 10 * time.Second
	// rebalanceTimeout is how long a member may take to let go of partitions;
	// finishTime is how long the transactions under way have of it. A database
	// that hangs holds up neither the group nor a shutdown: what was not stored
	// is read again.
	rebalanceTimeout, finishTime = 15 * time.Second, 8 * time.Second
	// maxBatchBytes bounds the records of one transaction.
	maxBatchBytes = 4 << 20
	// A partition's queue pauses its fetches above the first mark and resumes
	// them below the second.
	pauseAboveBytes, resumeBelowBytes     = 4 << 20, 2 << 20
	pauseAboveRecords, resumeBelowRecords = 4000, 1000
	// smallWriters is how many small batches are stored at once: partitions
	// whose tenants are not locked do not wait for one whose tenant is.
	smallWriters = 4
	// maxQueuedBytes bounds all queues together: beyond it nothing is polled.
	maxQueuedBytes = 20 << 20
)

// Inbox stores batches.
type Inbox interface {
	Ingest(ctx context.Context, b db.IngestBatch, plan func(context.Context, db.IngestState) (db.IngestWrites, error)) error
}

// Ledger knows how far Postgres holds each partition.
type Ledger interface {
	StoredUpTo(ctx context.Context, partitions []db.Progress) (map[db.Progress]int64, error)
}

// Pool takes new deliveries straight to the workers of this process.
type Pool interface {
	// Reserve says which deliveries may be born claimed by giving them a lease
	// token other than 0. Each must be submitted or cancelled.
	Reserve(deliveries []db.NewDelivery)
	// Submit hands over what was reserved, and learns of the rest.
	Submit(deliveries []db.NewDelivery, events map[hub.EventID]*hub.Event, leasedAt time.Time)
	// Cancel gives reservations back: the batch was not stored.
	Cancel(deliveries []db.NewDelivery)
	// Lease is the time that a reserved delivery is leased for.
	Lease() time.Duration
	// AwaitRoom waits, for a short time at most, until the workers can take
	// that many more deliveries. taken is to be called once they are reserved,
	// or will not be.
	AwaitRoom(ctx context.Context, n int) (taken func())
}

// Deps are what a Consumer works with.
type Deps struct {
	Kafka        []kgo.Opt // brokers and their security
	Group        string
	Rules        wire.Rules
	Inbox        Inbox
	Ledger       Ledger
	Tenants      *snapshot.Cache
	Pool         Pool
	BatchRecords int // records per transaction, 500 by default
	Writers      int // large transactions at once, 2 by default; small ones have more
	Now          func() time.Time
	Random       io.Reader
	Jitter       func() float64
	Tracer       *tracing.Tracer // nil for no traces
	Metrics      *Metrics
	Log          *slog.Logger
}

// Consumer reads the fact topics as a member of the consumer group.
type Consumer struct {
	deps    Deps
	outages *outage.Book
	hard    context.Context // of Run: behind it nothing is waited for
	bulk    chan struct{}   // one token per large transaction at once
	single  chan struct{}   // one token for small ones, which never wait for large ones
	budget  *byteBudget

	mu         sync.Mutex
	partitions map[topicPartition]*partition
	assigned   bool
	topics     bool  // some topic matches
	away       error // why the broker does not answer
}

type topicPartition struct {
	topic     string
	partition int32
}

// NewConsumer makes a consumer; Run does the work.
func NewConsumer(d Deps) *Consumer {
	if d.BatchRecords <= 0 {
		d.BatchRecords = 500
	}
	if d.Writers <= 0 {
		d.Writers = 2
	}
	return &Consumer{
		deps: d, outages: outage.New(d.Log), hard: context.Background(), bulk: make(chan struct{}, d.Writers), single: make(chan struct{}, smallWriters), budget: newByteBudget(maxQueuedBytes),
		partitions: map[topicPartition]*partition{}, away: errors.New("the brokers were not asked yet"),
	}
}

// Ready reports whether the broker answers, the group has given this process
// its partitions, and each of them gets on. No matching topic is not an error:
// the group is joined when there is one.
func (c *Consumer) Ready() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.away != nil {
		return fmt.Errorf("Kafka: %w", c.away)
	}
	if c.topics && !c.assigned {
		return errors.New("Kafka: the consumer group has not assigned partitions yet")
	}
	for _, p := range c.partitions {
		if err := p.failing(); err != nil {
			return err
		}
	}
	return nil
}

// Run consumes until ctx ends, then finishes the transactions under way,
// commits and leaves the group, all of it within hard. It returns when that is
// done; the only error is a configuration that Kafka's client refuses.
func (c *Consumer) Run(ctx, hard context.Context) error {
	c.hard = hard
	client, err := kgo.NewClient(append(append([]kgo.Opt{}, c.deps.Kafka...),
		kgo.ConsumerGroup(c.deps.Group),
		kgo.ConsumeRegex(),
		kgo.ConsumeTopics(wire.FollowTopics(c.deps.Rules.TopicPrefix)),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.DisableAutoCommit(),
		kgo.BlockRebalanceOnPoll(),
		kgo.OnPartitionsAssigned(c.onAssigned),
		kgo.OnPartitionsRevoked(c.onRevoked),
		kgo.OnPartitionsLost(c.onLost),
		// A member that was killed is noticed within this time, and its
		// partitions go to the others.
		kgo.SessionTimeout(sessionTimeout),
		kgo.RebalanceTimeout(rebalanceTimeout),
		// New topics are found within seconds instead of five minutes.
		kgo.MetadataMaxAge(10*time.Second),
		kgo.MetadataMinAge(250*time.Millisecond),
		kgo.FetchMaxBytes(8<<20),
		kgo.FetchMaxPartitionBytes(2<<20),
		kgo.FetchMaxWait(fetchWait),
	)...)
	if err != nil {
		return fmt.Errorf("set up the Kafka client: %w", err)
	}
	var beside sync.WaitGroup
	besides, stopBesides := context.WithCancel(context.WithoutCancel(ctx))
	beside.Go(func() { c.commitLoop(besides, client) })
	beside.Go(func() { c.askLoop(besides, client) })

	c.pollLoop(ctx, client)

	stopBesides()
	beside.Wait()
	client.CloseAllowingRebalance() // leaves the group: onRevoked finishes and commits
	return nil
}

func (c *Consumer) pollLoop(ctx context.Context, client *kgo.Client) {
	for ctx.Err() == nil {
		if !c.budget.wait(ctx) {
			return
		}
		fetches := client.PollRecords(ctx, 4*c.deps.BatchRecords*c.deps.Writers)
		if fetches.IsClientClosed() {
			return
		}
		gone := c.noteErrors(ctx, fetches)
		fetches.EachTopic(func(t kgo.FetchTopic) {
			t.EachPartition(func(fp kgo.FetchPartition) {
				if len(fp.Records) > 0 {
					c.handOver(client, t.TopicID, fp)
				}
			})
		})
		if len(gone) > 0 {
			c.forget(client, gone)
		}
		client.AllowRebalance()
	}
}

func (c *Consumer) handOver(client *kgo.Client, topicID [16]byte, fp kgo.FetchPartition) {
	c.mu.Lock()
	p := c.partitions[topicPartition{fp.Records[0].Topic, fp.Partition}]
	c.mu.Unlock()
	if p == nil {
		return // revoked meanwhile; the next owner reads it
	}
	if p.push(topicID, fp.Records, fp.HighWatermark) {
		client.PauseFetchPartitions(map[string][]int32{p.topic: {p.id}})
	}
}

// noteErrors counts what the client could not fetch; it goes on by itself,
// except with topics that are gone, which it returns.
func (c *Consumer) noteErrors(ctx context.Context, fetches kgo.Fetches) (gone []string) {
	fetches.EachError(func(topic string, partition int32, err error) {
		if ctx.Err() != nil || errors.Is(err, context.Canceled) {
			return
		}
		c.deps.Metrics.FetchErrors.Inc()
		c.deps.Log.Debug("a fetch failed", "topic", topic, "partition", partition, "error", err)
		if errors.Is(err, kerr.UnknownTopicID) && !slices.Contains(gone, topic) {
			gone = append(gone, topic)
		}
	})
	return gone
}

// forget lets go of topics that were deleted. The client keeps to the topic
// that it saw first: one that was made anew under the same name is read only
// once the old one is forgotten. The marks of the old one are not committed
// any more, since they mean nothing in the new one.
func (c *Consumer) forget(client *kgo.Client, topics []string) {
	gone := map[string][]int32{}
	c.mu.Lock()
	for key := range c.partitions {
		if slices.Contains(topics, key.topic) {
			gone[key.topic] = append(gone[key.topic], key.partition)
		}
	}
	c.mu.Unlock()
	c.stop(gone, true)
	c.deps.Log.Warn("topics were deleted; they are read from their start if they were made anew", "topics", topics)
	client.PurgeTopicsFromClient(topics...)
	client.ForceMetadataRefresh()
}

// askLoop asks the broker now and then whether it is there, says once that it
// is away and once that it is back.
func (c *Consumer) askLoop(ctx context.Context, client *kgo.Client) {
	tick := time.NewTicker(askEvery)
	defer tick.Stop()
	told := false
	for {
		asking, cancel := context.WithTimeout(ctx, askTimeout)
		err := client.Ping(asking)
		cancel()
		topics := len(client.GetConsumeTopics()) > 0
		if ctx.Err() != nil {
			return
		}
		c.mu.Lock()
		c.away, c.topics = err, topics
		c.mu.Unlock()
		switch {
		case err != nil && !told:
			c.deps.Log.Warn("Kafka is away; waiting for it", "error", err)
		case err == nil && told:
			c.deps.Log.Info("Kafka is back")
		}
		told = err != nil
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (c *Consumer) onAssigned(_ context.Context, client *kgo.Client, assigned map[string][]int32) {
	// A pause outlives the assignment in which it was made.
	client.ResumeFetchPartitions(assigned)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.assigned = true
	for topic, ids := range assigned {
		for _, id := range ids {
			c.partitions[topicPartition{topic, id}] = c.startPartition(client, topic, id)
		}
	}
}

// onRevoked finishes the batch under way of each partition and commits what
// was stored, before another member may take over.
func (c *Consumer) onRevoked(ctx context.Context, client *kgo.Client, revoked map[string][]int32) {
	stopped := c.stop(revoked, true)
	c.commit(ctx, client, stopped)
}

// onLost drops the partitions: another member has them already.
func (c *Consumer) onLost(_ context.Context, _ *kgo.Client, lost map[string][]int32) {
	c.mu.Lock()
	c.assigned = false
	c.mu.Unlock()
	c.stop(lost, false)
}

// stop ends partitions that are no longer ours and returns when they have
// ended. With finish the batch under way is stored, unless the database takes
// too long for it.
func (c *Consumer) stop(gone map[string][]int32, finish bool) []*partition {
	var stopped []*partition
	c.mu.Lock()
	for topic, ids := range gone {
		for _, id := range ids {
			key := topicPartition{topic, id}
			if p := c.partitions[key]; p != nil {
				stopped = append(stopped, p)
				delete(c.partitions, key)
			}
		}
	}
	c.mu.Unlock()
	for _, p := range stopped {
		p.stop(finish)
	}
	finishing, cancel := context.WithTimeout(c.hard, finishTime)
	defer cancel()
	defer context.AfterFunc(finishing, func() {
		for _, p := range stopped {
			p.cancel()
		}
	})()
	for _, p := range stopped {
		<-p.done
	}
	return stopped
}
