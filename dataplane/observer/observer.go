// Package observer reads the dead-letter topics that producers and consumers
// of facts write, and stores what it sees for people to look at. Nothing of it
// ever becomes an event or a delivery.
//
// It cannot disturb the facts: it has a Kafka client, a consumer group and a
// database connection of its own, works on one small batch at a time, and
// waits, for as long as it takes, when Kafka or Postgres is away. A record is
// stored before its offset is committed, and once however often it is read:
// the key of its place (topic id, partition, offset) is kept beside those of
// events.
package observer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/streaming-hub/streaming-hub/dataplane/outage"
	"github.com/streaming-hub/streaming-hub/db"
	"github.com/streaming-hub/streaming-hub/hub"
	"github.com/streaming-hub/streaming-hub/hub/wire"
)

const (
	// batchRecords are stored in one transaction.
	batchRecords = 200
	// What one fetch holds, in bytes, and a partition in it; a single batch of
	// a producer may be larger.
	fetchBytes, partitionBytes = 1 << 20, 256 << 10
	// storeTime bounds one transaction, commitTime one commit of offsets.
	storeTime, commitTime = 15 * time.Second, 10 * time.Second
	// Waits between tries while Postgres is away.
	firstBackoff, maxBackoff = 200 * time.Millisecond, 10 * time.Second
	// sessionTimeout is above the least that brokers allow, 6 s.
	sessionTimeout = 10 * time.Second
)

// Store keeps observations; it leaves out those it has already and returns how
// many were new.
type Store interface {
	StoreObservations(ctx context.Context, at time.Time, list []db.NewObservation) (stored int, err error)
}

// Deps are what an Observer works with.
type Deps struct {
	Kafka        []kgo.Opt // brokers and their security
	Group        string    // of the observer, not that of the facts
	TopicPrefix  string    // as of the facts: topics <prefix>.<source>.dlq
	HeaderPrefix string    // of the dead-letter headers: X-Lerian-
	Store        Store
	Now          func() time.Time
	Random       io.Reader
	Metrics      *Metrics
	Log          *slog.Logger
}

// Metrics of the observer. No label names a tenant, a topic or an id.
type Metrics struct {
	Observed    *prometheus.CounterVec // by writer
	StoreErrors prometheus.Counter
	FetchErrors prometheus.Counter
}

// NewMetrics registers the metrics.
func NewMetrics(r prometheus.Registerer) *Metrics {
	m := &Metrics{
		Observed: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "streaming_hub_dlq_records_total",
			Help: "Records read from dead-letter topics, by writer; repeats count again.",
		}, []string{"writer"}),
		StoreErrors: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "streaming_hub_dlq_store_errors_total", Help: "Batches of observations that could not be stored and were tried again.",
		}),
		FetchErrors: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "streaming_hub_dlq_fetch_errors_total", Help: "Errors from Kafka while fetching dead-letter topics.",
		}),
	}
	r.MustRegister(m.Observed, m.StoreErrors, m.FetchErrors)
	return m
}

// Observer reads the dead-letter topics as a member of its consumer group.
type Observer struct {
	deps    Deps
	outages *outage.Book
}

// New makes an observer; Run does the work.
func New(d Deps) *Observer { return &Observer{deps: d, outages: outage.New(d.Log)} }

// Run observes until ctx ends, and leaves the group. The only error is a
// configuration that Kafka's client refuses.
func (o *Observer) Run(ctx context.Context) error {
	client, err := kgo.NewClient(append(append([]kgo.Opt{}, o.deps.Kafka...),
		kgo.ConsumerGroup(o.deps.Group),
		kgo.ConsumeRegex(),
		kgo.ConsumeTopics(wire.FollowDeadLetterTopics(o.deps.TopicPrefix)),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		// Rebalances are not waited for: a record that two members read is
		// stored once.
		kgo.DisableAutoCommit(),
		kgo.SessionTimeout(sessionTimeout),
		kgo.MetadataMaxAge(10*time.Second),
		kgo.MetadataMinAge(250*time.Millisecond),
		kgo.FetchMaxBytes(fetchBytes),
		kgo.FetchMaxPartitionBytes(partitionBytes),
		kgo.MaxConcurrentFetches(1),
	)...)
	if err != nil {
		return fmt.Errorf("set up the Kafka client of the dead-letter observer: %w", err)
	}
	defer client.Close()
	for ctx.Err() == nil {
		fetches := client.PollRecords(ctx, batchRecords)
		if fetches.IsClientClosed() {
			return nil
		}
		if gone := o.noteErrors(ctx, fetches); len(gone) > 0 {
			// The client keeps to the id of a topic until it is purged; one
			// that was made anew is then found like any new topic.
			client.PurgeTopicsFromClient(gone...)
			client.ForceMetadataRefresh()
		}
		batch := o.observe(fetches)
		if len(batch) == 0 {
			continue
		}
		if !o.storeUntilDone(ctx, batch) {
			return nil
		}
		o.commit(ctx, client, fetches.Records())
	}
	return nil
}

// noteErrors counts what could not be fetched and names the topics that were
// deleted.
func (o *Observer) noteErrors(ctx context.Context, fetches kgo.Fetches) (gone []string) {
	fetches.EachError(func(topic string, partition int32, err error) {
		if ctx.Err() != nil || errors.Is(err, context.Canceled) {
			return
		}
		o.deps.Metrics.FetchErrors.Inc()
		o.deps.Log.Debug("a fetch of dead letters failed", "topic", topic, "partition", partition, "error", err)
		if errors.Is(err, kerr.UnknownTopicID) && !slices.Contains(gone, topic) {
			gone = append(gone, topic)
		}
	})
	return gone
}

func (o *Observer) observe(fetches kgo.Fetches) []db.NewObservation {
	var batch []db.NewObservation
	now := o.deps.Now()
	fetches.EachTopic(func(t kgo.FetchTopic) {
		t.EachRecord(func(r *kgo.Record) {
			headers := make([]wire.Header, len(r.Headers))
			for i, h := range r.Headers {
				headers[i] = wire.Header{Key: h.Key, Value: h.Value}
			}
			one := db.NewObservation{
				Observation: wire.Observe(o.deps.HeaderPrefix, wire.Record{
					Topic: r.Topic, Partition: r.Partition, Offset: r.Offset, Headers: headers, Value: r.Value,
				}),
				Place: PlaceKey(t.TopicID, r.Partition, r.Offset),
			}
			one.ID = hub.NewID(now, o.deps.Random)
			one.Body = r.Value[:one.KeptBytes]
			o.deps.Metrics.Observed.WithLabelValues(string(one.Writer)).Inc()
			batch = append(batch, one)
		})
	})
	return batch
}

// storeUntilDone tries until the batch is stored; false when ctx ends first.
func (o *Observer) storeUntilDone(ctx context.Context, batch []db.NewObservation) bool {
	for wait := firstBackoff; ; wait = min(2*wait, maxBackoff) {
		storing, cancel := context.WithTimeout(ctx, storeTime)
		_, err := o.deps.Store.StoreObservations(storing, o.deps.Now(), batch)
		cancel()
		if !o.outages.Failed("store dead-letter observations", err) {
			return true
		}
		if ctx.Err() != nil {
			return false
		}
		o.deps.Metrics.StoreErrors.Inc()
		select {
		case <-ctx.Done():
			return false
		case <-time.After(wait):
		}
	}
}

// commit tells Kafka what is stored, and does so while the observer stops too.
// What fails is covered by the next commit, or read and left out once more.
func (o *Observer) commit(ctx context.Context, client *kgo.Client, records []*kgo.Record) {
	committing, cancel := context.WithTimeout(context.WithoutCancel(ctx), commitTime)
	defer cancel()
	o.outages.Failed("commit the offsets of dead letters", client.CommitRecords(committing, records...))
}

// PlaceKey is the dedup key of an observed record: it is stored once however
// often Kafka hands it out, and again when a topic was deleted and made anew.
func PlaceKey(topicID [16]byte, partition int32, offset int64) hub.ID {
	return wire.PlaceKey(wire.PlaceOfObservation, topicID, partition, offset)
}
