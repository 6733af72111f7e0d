package e2e

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/streaming-hub/streaming-hub/dev/realkafka"
	"github.com/streaming-hub/streaming-hub/dev/sample"
)

// kafkaPartitions of a topic.
const kafkaPartitions = 4

// kafkaRig is the data plane's surroundings with a real Kafka in them.
type kafkaRig struct {
	*killRig
	kafka  *realkafka.Kafka
	admin  *kadm.Client
	prefix string // of the topics of this part alone
	group  string
	// environ are the settings of its data planes.
	environ []string
	sent    int // facts published so far
}

func newKafkaRig(ctx context.Context, t *testing.T, kafka *realkafka.Kafka) *kafkaRig {
	t.Helper()
	r := &kafkaRig{killRig: newRig(ctx, t), kafka: kafka, prefix: "test." + uuid.NewString()}
	r.group = r.prefix
	r.environ = []string{
		"STREAMING_HUB_TOPIC_PREFIX=" + r.prefix, "STREAMING_HUB_CONSUMER_GROUP=" + r.group,
		"STREAMING_HUB_LOG_FORMAT=text", "STREAMING_HUB_LOG_LEVEL=warn",
	}
	r.admin = kadm.NewClient(r.connect(t))
	return r
}

// connect is a client of the plain listener.
func (r *kafkaRig) connect(t *testing.T, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	client, err := kgo.NewClient(append([]kgo.Opt{
		kgo.SeedBrokers(r.kafka.Brokers()...), kgo.MetadataMinAge(50 * time.Millisecond),
		kgo.UnknownTopicRetries(100), // a topic made just now need not be known to the broker yet
	}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

// start runs a data plane and waits until it is ready.
func (r *kafkaRig) start(ctx context.Context, t *testing.T) *planeProcess {
	t.Helper()
	plane := r.startOn(t, r.kafka.Brokers()[0], r.environ...)
	plane.ready(ctx, t)
	return plane
}

func (r *kafkaRig) topic(source string) string { return r.prefix + "." + source }

func (r *kafkaRig) createTopic(ctx context.Context, t *testing.T, source string, partitions int32, settings map[string]*string) {
	t.Helper()
	if _, err := r.admin.CreateTopic(ctx, partitions, 1, settings, r.topic(source)); err != nil {
		t.Fatalf("create topic %s: %v", r.topic(source), err)
	}
}

// facts are the next n, in turn for each tenant; size 0 makes a short body.
func (r *kafkaRig) facts(source string, n, size int) (records []*kgo.Record) {
	for range n {
		r.sent++
		body := []byte(fmt.Sprintf(`{"n":%d}`, r.sent))
		for len(body) < size {
			body = append(body, ' ')
		}
		records = append(records, sample.Fact{
			ID: fmt.Sprintf("fact-%d", r.sent), Source: source, ResourceType: "loan", EventType: "closed", SchemaVersion: "1",
			TenantID: fmt.Sprintf("t%d", r.sent%4), Time: time.Now(), Body: body,
		}.Record(sample.Prefixes{Topic: r.prefix, Type: "studio.lerian"}))
	}
	return records
}

func publish(ctx context.Context, t *testing.T, client *kgo.Client, records ...*kgo.Record) {
	t.Helper()
	if err := client.ProduceSync(ctx, records...).FirstErr(); err != nil {
		t.Fatalf("publish: %v", err)
	}
}

// arrived waits until n deliveries are finished and says what came otherwise
// than once, or unsigned.
func (r *kafkaRig) arrived(ctx context.Context, t *testing.T, n int) {
	t.Helper()
	eventually(ctx, t, func() bool { return r.finished(ctx, t) == n }, func() string {
		return fmt.Sprintf("%d facts were delivered, want %d; %d are stored, %d are in quarantine",
			r.finished(ctx, t), n, r.count(ctx, t, "SELECT count(*) FROM events"), r.count(ctx, t, "SELECT count(*) FROM quarantined_records"))
	})
	if c := r.receiver.Counts(); c.Distinct != int64(n) || c.Requests != int64(n) || c.Unverified != 0 {
		t.Errorf("%d facts came in %d requests, %d of them unverified; want %d", c.Distinct, c.Requests, c.Unverified, n)
	}
}

func (r *kafkaRig) count(ctx context.Context, t *testing.T, query string, args ...any) (n int) {
	t.Helper()
	if err := r.pool.QueryRow(ctx, query, args...).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// committed are the group's offsets by topic and partition.
func (r *kafkaRig) committed(ctx context.Context, t *testing.T) kadm.Offsets {
	t.Helper()
	all, err := r.admin.FetchOffsets(ctx, r.group)
	if err != nil {
		t.Fatalf("fetch committed offsets: %v", err)
	}
	return all.Offsets()
}

// committedSum adds them up: where each offset holds a record, it is the
// number of records that need not be read again.
func (r *kafkaRig) committedSum(ctx context.Context, t *testing.T) (sum int64) {
	t.Helper()
	r.committed(ctx, t).Each(func(o kadm.Offset) { sum += o.At })
	return sum
}

var ingested = regexp.MustCompile(`(?m)^streaming_hub_ingest_records_total\{place="(\w+)"\} (\d+)`)

// ingested are the records that this process took, by where they ended.
func (p *planeProcess) ingested(t *testing.T) map[string]int {
	t.Helper()
	res, err := http.Get("http://" + p.addr + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	places := map[string]int{}
	for _, m := range ingested.FindAllStringSubmatch(string(text), -1) {
		if n, _ := strconv.Atoi(m[2]); n > 0 { // digits
			places[m[1]] = n
		}
	}
	return places
}
