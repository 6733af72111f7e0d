package ingest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/streaming-hub/streaming-hub/dataplane/snapshot"
	"github.com/streaming-hub/streaming-hub/db"
	"github.com/streaming-hub/streaming-hub/dev/broker"
	"github.com/streaming-hub/streaming-hub/dev/sample"
	"github.com/streaming-hub/streaming-hub/hub"
	"github.com/streaming-hub/streaming-hub/hub/secret"
	"github.com/streaming-hub/streaming-hub/hub/wire"
)

// memoryInbox stores batches as the database does, and fails when told to.
type memoryInbox struct {
	// before, if any, is asked before a batch is stored, outside the lock.
	before func(w db.IngestWrites) error

	mu         sync.Mutex
	changed    chan struct{} // closed and made anew with every change
	next       map[hub.TenantID]int64
	keys       map[hub.ID]hub.ID
	events     []hub.Event
	quarantine []db.QuarantinedRecord
	deliveries []db.NewDelivery
	asked      []int // keys of each batch
}

func newInbox() *memoryInbox {
	return &memoryInbox{changed: make(chan struct{}), next: map[hub.TenantID]int64{}, keys: map[hub.ID]hub.ID{}}
}

func (m *memoryInbox) Ingest(ctx context.Context, b db.IngestBatch, plan func(context.Context, db.IngestState) (db.IngestWrites, error)) error {
	m.mu.Lock()
	state := db.IngestState{Tenants: map[hub.TenantID]db.TenantCounter{}, Known: map[hub.ID]hub.ID{}, Asked: map[hub.ID]struct{}{}}
	for _, t := range b.Tenants {
		state.Tenants[t] = db.TenantCounter{NextSeq: max(1, m.next[t]), ConfigVersion: 1}
	}
	for _, k := range b.Keys {
		state.Asked[k] = struct{}{}
		if content, ok := m.keys[k]; ok {
			state.Known[k] = content
		}
	}
	m.mu.Unlock()
	w, err := plan(ctx, state)
	if err != nil {
		return err
	}
	if m.before != nil {
		if err := m.before(w); err != nil {
			return err
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, k := range w.Keys {
		if _, ok := m.keys[k.Key]; ok {
			return errors.New("the key is there already") // two partitions at once: tried again
		}
	}
	for _, k := range w.Keys {
		m.keys[k.Key] = k.ContentHash
	}
	maps.Copy(m.next, w.NextSeqs)
	for _, e := range w.Events {
		e.Record.Topic, e.Record.Partition = w.Record.Topic, w.Record.Partition
		m.events = append(m.events, e)
	}
	m.quarantine = append(m.quarantine, w.Quarantine...)
	m.deliveries = append(m.deliveries, w.Deliveries...)
	m.asked = append(m.asked, len(b.Keys))
	m.note()
	return nil
}

// note wakes those who wait; the lock is held.
func (m *memoryInbox) note() {
	close(m.changed)
	m.changed = make(chan struct{})
}

// member is one process's way to an inbox; seen are the events it stored.
type member struct {
	*memoryInbox
	seen int
}

func (m *member) Ingest(ctx context.Context, b db.IngestBatch, plan func(context.Context, db.IngestState) (db.IngestWrites, error)) error {
	stored := 0
	err := m.memoryInbox.Ingest(ctx, b, func(ctx context.Context, s db.IngestState) (db.IngestWrites, error) {
		w, err := plan(ctx, s)
		stored = len(w.Events)
		return w, err
	})
	if err == nil {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.seen += stored
		m.note()
	}
	return err
}

// wait returns once done says so of what is stored.
func (m *memoryInbox) wait(t *testing.T, what string, done func() bool) {
	t.Helper()
	limit := time.After(40 * time.Second)
	for {
		m.mu.Lock()
		ok, changed := done(), m.changed
		m.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-changed:
		case <-limit:
			t.Fatalf("waited too long for %s", what)
		}
	}
}

func (m *memoryInbox) waitEvents(t *testing.T, n int) {
	t.Helper()
	m.wait(t, fmt.Sprint(n, " events"), func() bool { return len(m.events) >= n })
}

// countingPool reserves everything and keeps the books.
type countingPool struct {
	mu                             sync.Mutex
	reserved, submitted, cancelled int
}

func (p *countingPool) Reserve(list []db.NewDelivery) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range list {
		p.reserved++
		list[i].LeaseToken = int64(p.reserved)
	}
}

func (p *countingPool) Submit(list []db.NewDelivery, events map[hub.EventID]*hub.Event, _ time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, d := range list {
		if d.LeaseToken != 0 && events[d.Delivery.Event] != nil {
			p.submitted++
		}
	}
}

func (p *countingPool) Cancel(list []db.NewDelivery) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cancelled += len(list)
}

func (p *countingPool) Lease() time.Duration           { return time.Minute }
func (p *countingPool) AwaitRoom(context.Context, int) {}

// oneWish is a configuration in which every tenant wants everything, once.
type oneWish struct{}

func (oneWish) TenantConfigs(_ context.Context, ids []hub.TenantID) (map[hub.TenantID]*db.TenantConfig, error) {
	configs := map[hub.TenantID]*db.TenantConfig{}
	for _, id := range ids {
		dest := hub.DestinationID{ID: hub.ID{1}}
		configs[id] = &db.TenantConfig{Tenant: id, Version: 1, Subscriptions: []hub.EventSubscription{{
			ID: hub.SubscriptionID{ID: hub.ID{2}}, Tenant: id, Destination: dest, Kind: hub.SinkWebhook, Enabled: true,
			VerificationState: hub.VerificationActive, EventTypes: []string{"*"},
		}}}
	}
	return configs, nil
}

func (oneWish) ConfigVersions(context.Context, []hub.TenantID) (map[hub.TenantID]int64, error) {
	return nil, nil
}

// desk is a broker with what reads from it.
type desk struct {
	*testing.T
	broker *broker.Broker
	client *kgo.Client
	admin  *kadm.Client
}

const lenderTopic = "lerian.streaming.lender"

func newDesk(t *testing.T, partitions int32, topics ...string) *desk {
	t.Helper()
	b, err := broker.Start(broker.Options{Topics: topics, Partitions: partitions})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	client, err := kgo.NewClient(kgo.SeedBrokers(b.Addrs()...), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return &desk{T: t, broker: b, client: client, admin: kadm.NewClient(client)}
}

// running is a consumer at work.
type running struct {
	*Consumer
	pool *countingPool
	stop context.CancelFunc
	done chan error
}

func (d *desk) consume(inbox Inbox) *running {
	d.Helper()
	keyring, err := secret.ParseKeyring("k:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=")
	if err != nil {
		d.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	r := &running{pool: &countingPool{}, done: make(chan error, 1)}
	r.Consumer = NewConsumer(Deps{
		Kafka: []kgo.Opt{kgo.SeedBrokers(d.broker.Addrs()...), kgo.HeartbeatInterval(50 * time.Millisecond)},
		Group: "hub", Rules: wire.DefaultRules(), Inbox: inbox, Pool: r.pool,
		Tenants: snapshot.New(snapshot.Deps{Store: oneWish{}, Keyring: keyring, Now: time.Now, Log: log}),
		Now:     time.Now, Random: rand.Reader, Jitter: func() float64 { return 0 },
		Metrics: NewMetrics(prometheus.NewRegistry()), Log: log,
	})
	ctx, stop := context.WithCancel(context.Background())
	r.stop = stop
	go func() { r.done <- r.Run(ctx) }()
	d.Cleanup(func() { r.end(d.T) })
	return r
}

// end stops the consumer and waits for it.
func (r *running) end(t *testing.T) {
	t.Helper()
	r.stop()
	select {
	case err := <-r.done:
		r.done <- err // for the next one who asks
		if err != nil {
			t.Errorf("Run = %v", err)
		}
	case <-time.After(30 * time.Second):
		t.Fatal("the consumer does not end")
	}
}

// waitAssigned returns once the consumer has so many partitions.
func (r *running) waitAssigned(t *testing.T, n int) {
	t.Helper()
	limit, tick := time.After(30*time.Second), time.NewTicker(5*time.Millisecond)
	defer tick.Stop()
	for {
		r.mu.Lock()
		have := len(r.partitions)
		r.mu.Unlock()
		if have == n {
			return
		}
		select {
		case <-tick.C:
		case <-limit:
			t.Fatalf("the consumer has %d partitions, want %d", have, n)
		}
	}
}

// fact is a well-formed record for a partition of the lender's topic.
func fact(partition int32, id string) *kgo.Record {
	r := sample.Fact{
		ID: id, Source: "lender", ResourceType: "loan", EventType: "approved", SchemaVersion: "1.0.0", TenantID: "acme",
		Time: time.Now(), ContentType: "application/json", Body: []byte(`{"n":1}`),
	}.Record(sample.Prefixes{Topic: "lerian.streaming", Type: "studio.lerian"})
	r.Partition = partition
	return r
}

// without is a record that lacks a header, or has another value in it.
func without(r *kgo.Record, name, value string) *kgo.Record {
	for i, h := range r.Headers {
		if h.Key == name {
			r.Headers[i].Value = []byte(value)
		}
	}
	return r
}

func (d *desk) produce(records ...*kgo.Record) {
	d.Helper()
	if err := d.client.ProduceSync(d.Context(), records...).FirstErr(); err != nil {
		d.Fatal(err)
	}
}

// committed is the group's offset of a partition, -1 without one.
func (d *desk) committed(partition int32) int64 {
	d.Helper()
	offsets, err := d.admin.FetchOffsets(context.Background(), "hub")
	if err != nil {
		d.Fatal(err)
	}
	if o, ok := offsets.Lookup(lenderTopic, partition); ok {
		return o.At
	}
	return -1
}

func (d *desk) wantCommitted(partition int32, want int64) {
	d.Helper()
	if got := d.committed(partition); got != want {
		d.Errorf("committed offset of partition %d is %d, want %d", partition, got, want)
	}
}
