package observer_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/goleak"

	"github.com/streaming-hub/streaming-hub/dataplane/ingest"
	"github.com/streaming-hub/streaming-hub/dataplane/observer"
	"github.com/streaming-hub/streaming-hub/db"
	"github.com/streaming-hub/streaming-hub/db/dbtest"
	"github.com/streaming-hub/streaming-hub/dev/broker"
)

const (
	topic = "lerian.streaming.lender.dlq"
	group = "hub-dlq"
)

// flaky is a store that can be away.
type flaky struct {
	observer.Store
	mu    sync.Mutex
	away  bool
	tries chan struct{} // takes one for each try that failed
}

func (f *flaky) StoreObservations(ctx context.Context, at time.Time, list []db.NewObservation) (int, error) {
	f.mu.Lock()
	away := f.away
	f.mu.Unlock()
	if away {
		f.tries <- struct{}{}
		return 0, errors.New("the database is away")
	}
	return f.Store.StoreObservations(ctx, at, list)
}

func (f *flaky) set(away bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.away = away
}

type lab struct {
	*testing.T
	kafka *kgo.Client
	admin *kadm.Client
	addrs []string
	store *flaky
	raw   *pgxpool.Pool
}

func newLab(t *testing.T, topics ...string) *lab {
	t.Helper()
	b, err := broker.Start(broker.Options{Partitions: 1, Topics: topics})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	l := &lab{T: t, addrs: b.Addrs()}
	if l.kafka, err = kgo.NewClient(kgo.SeedBrokers(l.addrs...), kgo.AllowAutoTopicCreation()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.kafka.Close)
	l.admin = kadm.NewClient(l.kafka)
	dsn := dbtest.New(t)
	d, err := db.Open(t.Context(), db.Config{DSN: dsn, MaxConns: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	l.store = &flaky{Store: d, tries: make(chan struct{}, 100)}
	if l.raw, err = pgxpool.New(t.Context(), dsn); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.raw.Close)
	return l
}

// observe runs an observer until stop is called.
func (l *lab) observe() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	o := observer.New(observer.Deps{
		Kafka: []kgo.Opt{kgo.SeedBrokers(l.addrs...)}, Group: group, TopicPrefix: "lerian.streaming", HeaderPrefix: "X-Lerian-",
		Store: l.store, Now: time.Now, Random: rand.Reader, Metrics: observer.NewMetrics(prometheus.NewRegistry()),
		Log: slog.New(slog.DiscardHandler),
	})
	done := make(chan error, 1)
	go func() { done <- o.Run(ctx) }()
	var once sync.Once
	stop = func() {
		once.Do(func() {
			cancel()
			if err := <-done; err != nil {
				l.Error(err)
			}
		})
	}
	l.Cleanup(stop)
	return stop
}

func (l *lab) produce(records ...*kgo.Record) {
	l.Helper()
	for _, r := range records {
		if r.Topic == "" {
			r.Topic = topic
		}
	}
	if err := l.kafka.ProduceSync(l.Context(), records...).FirstErr(); err != nil {
		l.Fatal(err)
	}
}

// await waits until a query has the wanted number as its answer.
func (l *lab) await(want int, sql string) {
	l.Helper()
	ctx, cancel := context.WithTimeout(l.Context(), 20*time.Second)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for got := -1; ; {
		if err := l.raw.QueryRow(ctx, sql).Scan(&got); err == nil && got == want {
			return
		}
		select {
		case <-ctx.Done():
			l.Fatalf("%s is %d, want %d", sql, got, want)
		case <-tick.C:
		}
	}
}

func (l *lab) committed() int64 {
	l.Helper()
	offsets, err := l.admin.FetchOffsets(l.Context(), group)
	if err != nil {
		l.Fatal(err)
	}
	at, ok := offsets.Lookup(topic, 0)
	if !ok {
		return -1
	}
	return at.At
}

func header(key, value string) kgo.RecordHeader {
	return kgo.RecordHeader{Key: key, Value: []byte(value)}
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const count = `SELECT count(*) FROM dlq_observations`

func TestObserver_stores_what_producers_and_consumers_wrote(t *testing.T) {
	l := newLab(t, "lerian.streaming.lender", topic)
	l.observe()
	l.produce(
		&kgo.Record{Value: []byte(`{"a":1}`), Headers: []kgo.RecordHeader{
			header("ce-id", "1"), header("ce-tenantid", "acme"), header("x-lerian-dlq-error-class", "BROKER"), header("x-lerian-dlq-error-message", "a\x00b"),
		}},
		&kgo.Record{Headers: []kgo.RecordHeader{
			header("x-lerian-dlq-source-partition", "0"), header("x-lerian-dlq-source-offset", "7"), header("x-lerian-dlq-cause-kind", "codec"),
		}},
		&kgo.Record{Value: make([]byte, 100_000)},
		&kgo.Record{Topic: "lerian.streaming.lender", Value: []byte("a fact is none of its business")},
	)
	l.await(3, count)
	l.await(1, `SELECT count(*) FROM dlq_observations WHERE writer = 'PRODUCER' AND tenant_id = 'acme' AND error_class = 'BROKER'
		AND detail->>'error_message' = 'a`+"\uFFFD"+`b' AND body = '{"a":1}' AND topic = '`+topic+`' AND kafka_offset = 0`)
	l.await(1, `SELECT count(*) FROM dlq_observations WHERE writer = 'CONSUMER' AND tenant_id IS NULL AND cause_kind = 'codec' AND detail->>'source_offset' = '7' AND body = ''`)
	l.await(1, `SELECT count(*) FROM dlq_observations WHERE body_bytes = 100000 AND octet_length(body) = 65536`)
}

func TestObserver_finds_a_new_topic(t *testing.T) {
	l := newLab(t)
	l.observe()
	l.produce(&kgo.Record{Topic: "lerian.streaming.tracer.dlq"})
	l.await(1, count)
}

func TestObserver_topic_made_anew_is_read_from_its_start(t *testing.T) {
	l := newLab(t, topic)
	l.produce(&kgo.Record{Value: []byte("a")}, &kgo.Record{Value: []byte("b")})
	l.observe()
	l.await(2, count)
	if _, err := l.admin.DeleteTopic(t.Context(), topic); err != nil {
		t.Fatal(err)
	}
	if _, err := l.admin.CreateTopic(t.Context(), 1, 1, nil, topic); err != nil {
		t.Fatal(err)
	}
	l.kafka.PurgeTopicsFromClient(topic)
	l.produce(&kgo.Record{Value: []byte("c")})
	l.await(3, count)
}

func TestObserver_commits_only_what_is_stored_and_stores_once(t *testing.T) {
	l := newLab(t, topic)
	l.store.set(true)
	stop := l.observe()
	l.produce(&kgo.Record{Value: []byte("1")}, &kgo.Record{Value: []byte("2")})
	<-l.store.tries
	<-l.store.tries // it waited and tried again
	if at := l.committed(); at > 0 {
		t.Errorf("committed %d while nothing is stored", at)
	}
	l.store.set(false)
	l.await(2, count)
	stop()
	if at := l.committed(); at != 2 {
		t.Errorf("committed %d after the stop, want 2", at)
	}
	// The group's offsets are lost: everything is read again and left out.
	if _, err := l.admin.DeleteGroups(t.Context(), group); err != nil {
		t.Fatal(err)
	}
	stop = l.observe()
	l.produce(&kgo.Record{Value: []byte("3")})
	l.await(3, count)
	stop()
	l.await(3, `SELECT count(DISTINCT (topic, kafka_partition, kafka_offset)) FROM dlq_observations`)
}

func TestObserver_stops_while_the_database_is_away(t *testing.T) {
	l := newLab(t, topic)
	l.store.set(true)
	stop := l.observe()
	l.produce(&kgo.Record{})
	<-l.store.tries
	stop()
	if at := l.committed(); at > 0 {
		t.Errorf("committed %d", at)
	}
}

func TestPlaceKey_differs_by_each_part_and_from_quarantine(t *testing.T) {
	seen := map[string]bool{ingest.PlaceKey([16]byte{1}, 2, 3).String(): true}
	for _, key := range []fmt.Stringer{
		observer.PlaceKey([16]byte{1}, 2, 3), observer.PlaceKey([16]byte{2}, 2, 3),
		observer.PlaceKey([16]byte{1}, 3, 3), observer.PlaceKey([16]byte{1}, 2, 4),
	} {
		if seen[key.String()] {
			t.Errorf("%s twice", key)
		}
		seen[key.String()] = true
	}
}
