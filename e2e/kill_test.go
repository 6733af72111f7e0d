package e2e

import (
	"context"
	"crypto/rand"
	"fmt"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/streaming-hub/streaming-hub/db"
	"github.com/streaming-hub/streaming-hub/db/dbtest"
	"github.com/streaming-hub/streaming-hub/dev/broker"
	"github.com/streaming-hub/streaming-hub/dev/receiver"
	"github.com/streaming-hub/streaming-hub/dev/sample"
	"github.com/streaming-hub/streaming-hub/hub"
	"github.com/streaming-hub/streaming-hub/hub/secret"
)

const (
	killEvents    = 2000
	killWorkers   = 8
	killUnwritten = 64
)

// TestKill ends the data plane by SIGKILL in the middle of its work and starts
// it again. Nothing may be lost; a second request is allowed only for a
// delivery whose attempt was under way, or sent and not yet written.
func TestKill(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	defer cancel()
	rig := newKillRig(ctx, t)
	rig.produce(ctx, t, 0, killEvents)

	plane := rig.startOn(t, rig.broker.Addrs()[0])
	// The kill comes while there is work in every stage.
	eventually(ctx, t, func() bool { return rig.receiver.Counts().Distinct >= killEvents/4 }, rig.say)
	if err := plane.cmd.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_ = plane.cmd.Wait() // "signal: killed" is what we want
	before := rig.receiver.Counts()
	if before.Distinct >= killEvents {
		t.Fatalf("the kill came too late: %d events had arrived", before.Distinct)
	}
	leased := rig.leased(ctx, t)

	rig.startOn(t, rig.broker.Addrs()[0])
	eventually(ctx, t, func() bool { return rig.finished(ctx, t) == killEvents }, rig.say)

	after := rig.receiver.Counts()
	if after.Distinct != killEvents || after.Unverified != 0 {
		t.Errorf("of %d events %d arrived, %d unverified", killEvents, after.Distinct, after.Unverified)
	}
	repeated := 0
	for id := range rig.deliveries(ctx, t) {
		times := rig.receiver.Times(id)
		if times > 1 {
			repeated++
			if !leased[id] {
				t.Errorf("delivery %s came %d times, though its outcome was written before the kill or its first attempt came after it", id, times)
			}
		}
		if times > 2 {
			t.Errorf("delivery %s came %d times after one kill", id, times)
		}
	}
	if repeated > killWorkers+killUnwritten {
		t.Errorf("%d deliveries came twice, allowed are %d workers + %d unwritten outcomes", repeated, killWorkers, killUnwritten)
	}
	t.Logf("killed after %d of %d events; %d leases were open, %d deliveries came twice", before.Distinct, killEvents, len(leased), repeated)
}

// killRig is the data plane's surroundings inside the test.
type killRig struct {
	dsn    string
	pool   *pgxpool.Pool
	broker *broker.Broker
	kek    string

	receiver     *receiver.Receiver
	receiverAddr string
	signing      secret.Secret
}

// testKEK encrypts the secrets of tests.
const testKEK = "test:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="

func newKillRig(ctx context.Context, t *testing.T) *killRig {
	t.Helper()
	r := newRig(ctx, t)
	var err error
	if r.broker, err = broker.Start(broker.Options{Topics: []string{"lerian.streaming.lender"}, Partitions: replicaPartitions}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.broker.Close() })
	return r
}

// newRig has everything but a broker.
func newRig(ctx context.Context, t *testing.T) *killRig {
	t.Helper()
	r := &killRig{dsn: dbtest.New(t), kek: testKEK}
	var err error
	if r.pool, err = pgxpool.New(ctx, r.dsn); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.pool.Close)
	r.startReceiver(ctx, t)
	r.subscribe(ctx, t)
	return r
}

// startReceiver counts what arrives; it verifies with one secret of all
// destinations.
func (r *killRig) startReceiver(ctx context.Context, t *testing.T) {
	t.Helper()
	var text string
	text, r.signing = secret.NewSigning(rand.Reader)
	var err error
	if r.receiver, err = receiver.New(receiver.Options{CountOnly: true, Secrets: map[string][]string{"": {text}}}); err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r.receiverAddr = listener.Addr().String()
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	served := make(chan error, 1)
	go func() { served <- r.receiver.Serve(serving, listener) }()
	t.Cleanup(func() { stop(); <-served })
}

// subscribe makes four tenants, each with a destination of its own.
func (r *killRig) subscribe(ctx context.Context, t *testing.T) {
	t.Helper()
	keyring, err := secret.ParseKeyring(r.kek)
	if err != nil {
		t.Fatal(err)
	}
	store, err := db.Open(ctx, db.Config{DSN: r.dsn})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	for i := range 4 {
		now, tenant := time.Now(), hub.TenantID(fmt.Sprintf("t%d", i))
		_, _, err := store.CreateSubscription(ctx, db.NewSubscription{
			Subscription: hub.EventSubscription{
				ID: hub.SubscriptionID{ID: hub.NewID(now, rand.Reader)}, Tenant: tenant, Name: "kill",
				EventTypes: []string{"*"}, Kind: hub.SinkWebhook, Enabled: true, CreatedAt: now,
				VerificationState: hub.VerificationActive, Timeout: hub.MinTimeout, RetryPolicy: hub.RetryPolicy{Kind: hub.RetryCurve},
			},
			Destination: hub.Destination{
				ID: hub.DestinationID{ID: hub.NewID(now, rand.Reader)}, Tenant: tenant, Kind: hub.SinkWebhook,
				URL: "http://" + r.receiverAddr + "/" + string(tenant), CreatedAt: now,
			},
			Seal:     func(b secret.Binding) (secret.Sealed, error) { return keyring.Seal(rand.Reader, r.signing, b) },
			SecretID: hub.NewID(now, rand.Reader),
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// produce publishes the facts from number first to before last.
func (r *killRig) produce(ctx context.Context, t *testing.T, first, last int) {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(r.broker.Addrs()...))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	var records []*kgo.Record
	for i := first; i < last; i++ {
		records = append(records, sample.Fact{
			ID: fmt.Sprintf("kill-%d", i), Source: "lender", ResourceType: "loan", EventType: "closed", SchemaVersion: "1",
			TenantID: fmt.Sprintf("t%d", i%4), Time: time.Now(), Body: []byte(fmt.Sprintf(`{"n":%d}`, i)),
		}.Record(sample.Prefixes{Topic: "lerian.streaming", Type: "studio.lerian"}))
	}
	if err := client.ProduceSync(ctx, records...).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

// leased are the deliveries that a worker held at the kill.
func (r *killRig) leased(ctx context.Context, t *testing.T) map[hub.ID]bool {
	t.Helper()
	return r.ids(ctx, t, "SELECT id FROM delivery_queue WHERE lease_token IS NOT NULL")
}

func (r *killRig) deliveries(ctx context.Context, t *testing.T) map[hub.ID]bool {
	t.Helper()
	return r.ids(ctx, t, "SELECT id FROM deliveries")
}

func (r *killRig) ids(ctx context.Context, t *testing.T, query string) map[hub.ID]bool {
	t.Helper()
	rows, err := r.pool.Query(ctx, query)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	ids := map[hub.ID]bool{}
	for rows.Next() {
		var id [16]byte
		if err := rows.Scan(&id); err != nil {
			t.Fatal(err)
		}
		ids[hub.ID(id)] = true
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return ids
}

// finished counts the deliveries that are delivered according to Postgres.
func (r *killRig) finished(ctx context.Context, t *testing.T) (n int) {
	t.Helper()
	err := r.pool.QueryRow(ctx, "SELECT count(DISTINCT delivery_id) FROM attempts WHERE state = 'DELIVERED'").Scan(&n)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func (r *killRig) say() string {
	c := r.receiver.Counts()
	return fmt.Sprintf("%d of %d events arrived, %d requests", c.Distinct, killEvents, c.Requests)
}
