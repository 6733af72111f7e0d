package ingest

import (
	"context"
	"crypto/rand"
	"log/slog"
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
	"github.com/streaming-hub/streaming-hub/tracing"
)

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

func (p *countingPool) Lease() time.Duration                  { return time.Minute }
func (p *countingPool) AwaitRoom(context.Context, int) func() { return func() {} }

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
	tracer *tracing.Tracer // of consumers made later
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

func (d *desk) consume(inbox interface {
	Inbox
	Ledger
}) *running {
	d.Helper()
	keyring, err := secret.ParseKeyring("k:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=")
	if err != nil {
		d.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	r := &running{pool: &countingPool{}, done: make(chan error, 1)}
	r.Consumer = NewConsumer(Deps{
		Kafka: []kgo.Opt{kgo.SeedBrokers(d.broker.Addrs()...), kgo.HeartbeatInterval(50 * time.Millisecond)},
		Group: "hub", Rules: wire.DefaultRules(), Inbox: inbox, Ledger: inbox, Pool: r.pool,
		Tenants: snapshot.New(snapshot.Deps{Store: oneWish{}, Keyring: keyring, Now: time.Now, Log: log}),
		Now:     time.Now, Random: rand.Reader, Jitter: func() float64 { return 0 },
		Tracer: d.tracer, Metrics: NewMetrics(prometheus.NewRegistry()), Log: log,
	})
	ctx, stop := context.WithCancel(context.Background())
	r.stop = stop
	go func() { r.done <- r.Run(ctx, context.Background()) }()
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

// waitPaused returns once so many partitions have stopped fetching.
func (r *running) waitPaused(t *testing.T, n int) {
	t.Helper()
	limit, tick := time.After(30*time.Second), time.NewTicker(5*time.Millisecond)
	defer tick.Stop()
	for {
		paused := 0
		r.mu.Lock()
		for _, p := range r.partitions {
			p.mu.Lock()
			if p.paused {
				paused++
			}
			p.mu.Unlock()
		}
		r.mu.Unlock()
		if paused == n {
			return
		}
		select {
		case <-tick.C:
		case <-limit:
			t.Fatalf("%d partitions are paused, want %d", paused, n)
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
