package e2e

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/streaming-hub/streaming-hub/dev/sample"
	"github.com/streaming-hub/streaming-hub/hub"
	"github.com/streaming-hub/streaming-hub/hub/secret"
)

const (
	// rewrapSecrets are moved by default, soakSecrets by make soak.
	rewrapSecrets = 2000
	soakSecrets   = 100_000
	// rewrapWanted is how many of the destinations have a subscription.
	rewrapWanted = 40
	// newerKEK is the key that replaces testKEK.
	newerKEK = "newer:AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE="
)

// TestRewrap moves many secrets to a new key-encryption key while deliveries
// go on to destinations among them, and then takes the old key away: every
// request is signed, and the old key wraps nothing any more.
func TestRewrap(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	defer cancel()
	n := rewrapSecrets
	if os.Getenv("STREAMING_HUB_TEST_SOAK") != "" {
		n = soakSecrets
	}
	rig := newKillRig(ctx, t)
	rig.sealedDestinations(ctx, t, n)
	signing := rig.count(ctx, t, "SELECT count(*) FROM destination_secrets")
	credentials := rig.count(ctx, t, "SELECT count(*) FROM destination_credentials")

	oldKEK := rig.kek
	rig.kek = newerKEK + "," + oldKEK
	plane := rig.startOn(t, rig.broker.Addrs()[0])
	plane.ready(ctx, t)
	if got := rig.keys(ctx, t, "status"); !strings.Contains(got, fmt.Sprintf("newer 0 0 encrypts and opens test %d %d opens", signing, credentials)) {
		t.Fatalf("before, hub keys status says %s", got)
	}

	// The deliveries begin before the first secret moves and go on behind the
	// last one.
	events := rig.steadily(ctx, t)
	events.reach(ctx, t, 20)
	began := time.Now()
	said := rig.keys(ctx, t, "rewrap", "--batch=20")
	took := time.Since(began)
	during := events.reach(ctx, t, 20)
	if want := fmt.Sprintf("%d secrets moved to key newer, 0 changed meanwhile, 0 that no configured key opens.", signing+credentials); said != want {
		t.Errorf("hub keys rewrap says %q, want %q", said, want)
	}
	if got := rig.keys(ctx, t, "status"); !strings.Contains(got, fmt.Sprintf("newer %d %d encrypts and opens test 0 0 opens", signing, credentials)) {
		t.Errorf("after, hub keys status says %s", got)
	}

	// Nothing remembers the old key.
	plane.stop(t)
	rig.kek = newerKEK
	rig.startOn(t, rig.broker.Addrs()[0]).ready(ctx, t)
	events.reach(ctx, t, 20)
	total := events.stop()
	rig.delivered(ctx, t, total)
	t.Logf("%d secrets moved in %s, beside %d events by then and %d deliveries in all", signing+credentials, took, during, rig.receiver.Counts().Distinct)
}

// keys runs hub keys with the rig's keys; its words are joined by one space.
func (r *killRig) keys(ctx context.Context, t *testing.T, command ...string) string {
	t.Helper()
	cmd := exec.CommandContext(ctx, program(t, "hub"), append([]string{"keys", "--postgres-dsn", r.dsn}, command...)...)
	cmd.Env = append(os.Environ(), "STREAMING_HUB_KEK_KEYS="+r.kek)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("hub keys %v: %v\n%s", command, err, out)
	}
	return strings.Join(strings.Fields(string(out)), " ")
}

// sealedDestinations stores n destinations with a signing secret each, and
// every tenth with a credential, sealed as the API does it. Some of them, spread
// over all, get every event of their tenant.
func (r *killRig) sealedDestinations(ctx context.Context, t *testing.T, n int) {
	t.Helper()
	ring, err := secret.ParseKeyring(r.kek)
	if err != nil {
		t.Fatal(err)
	}
	seal := func(plain secret.Secret, tenant hub.TenantID, row hub.ID) secret.Sealed {
		s, err := ring.Seal(rand.Reader, plain, secret.Binding{Tenant: tenant, Row: row, Version: 1})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	now := time.Now()
	var destinations, secrets, credentials, subscriptions [][]any
	for i := range n {
		tenant := hub.TenantID(fmt.Sprintf("bulk%d", i%100))
		id, row := hub.NewID(now, rand.Reader), hub.NewID(now, rand.Reader)
		wanted := i%(n/rewrapWanted) == 0
		if wanted {
			tenant = hub.TenantID(fmt.Sprintf("t%d", len(subscriptions)%4))
			subscriptions = append(subscriptions, []any{[16]byte(hub.NewID(now, rand.Reader)), string(tenant), "rewrap", []string{"*"}, [16]byte(id), "WEBHOOK", "ACTIVE", hub.MinTimeout.Milliseconds(), now, now})
		}
		destinations = append(destinations, []any{[16]byte(id), string(tenant), "WEBHOOK", fmt.Sprintf("http://%s/rewrap/%d", r.receiverAddr, i), now})
		s := seal(r.signing, tenant, row)
		secrets = append(secrets, []any{[16]byte(row), string(tenant), [16]byte(id), 1, s.KeyID, s.WrappedKey, s.Ciphertext, now})
		if i%10 == 0 {
			row := hub.NewID(now, rand.Reader)
			s := seal(secret.New([]byte("token")), tenant, row)
			credentials = append(credentials, []any{[16]byte(row), string(tenant), [16]byte(id), "AUTHORIZATION", "BEARER", 1, s.KeyID, s.WrappedKey, s.Ciphertext, now})
		}
	}
	if _, err := r.pool.Exec(ctx, "INSERT INTO tenant_counters (tenant_id) SELECT 'bulk' || i FROM generate_series(0, 99) i"); err != nil {
		t.Fatal(err)
	}
	for _, table := range []struct {
		name    string
		columns []string
		rows    [][]any
	}{
		{"destinations", []string{"id", "tenant_id", "kind", "url", "created_at"}, destinations},
		{"destination_secrets", []string{"id", "tenant_id", "destination_id", "version", "key_id", "wrapped_key", "ciphertext", "created_at"}, secrets},
		{"destination_credentials", []string{"id", "tenant_id", "destination_id", "slot", "kind", "version", "key_id", "wrapped_key", "ciphertext", "created_at"}, credentials},
		{"event_subscriptions", []string{"id", "tenant_id", "name", "event_types", "destination_id", "kind", "verification_state", "timeout_ms", "created_at", "updated_at"}, subscriptions},
	} {
		if _, err := r.pool.CopyFrom(ctx, pgx.Identifier{table.name}, table.columns, pgx.CopyFromRows(table.rows)); err != nil {
			t.Fatalf("fill %s: %v", table.name, err)
		}
	}
}

// delivered waits until each of n events went to each subscription of its
// tenant, and wants every attempt to have been right.
func (r *killRig) delivered(ctx context.Context, t *testing.T, events int) {
	t.Helper()
	// The rig's own subscription of each tenant, and a quarter of the others.
	want := events * (1 + rewrapWanted/4)
	eventually(ctx, t, func() bool { return r.finished(ctx, t) == want },
		func() string {
			return fmt.Sprintf("%d of %d deliveries are finished; %d were made, %d wait", r.finished(ctx, t), want,
				r.count(ctx, t, "SELECT count(*) FROM deliveries"), r.count(ctx, t, "SELECT count(*) FROM delivery_queue"))
		})
	if c := r.receiver.Counts(); c.Unverified != 0 || c.Distinct != int64(want) || c.Requests != int64(want) {
		t.Errorf("%d deliveries came in %d requests, %d of them with a wrong signature; want %d", c.Distinct, c.Requests, c.Unverified, want)
	}
	if failed := r.count(ctx, t, "SELECT count(*) FROM attempts WHERE state <> 'DELIVERED'"); failed != 0 {
		t.Errorf("%d attempts failed", failed)
	}
}

// stream publishes an event of each tenant in turn, about fifty a second. Each
// makes the data plane read the tenant's secrets anew, at whatever stage the
// rewrapping is.
type stream struct {
	count atomic.Int64
	end   context.CancelFunc
	done  chan struct{}
}

func (r *killRig) steadily(ctx context.Context, t *testing.T) *stream {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(r.broker.Addrs()...))
	if err != nil {
		t.Fatal(err)
	}
	s := &stream{done: make(chan struct{})}
	ctx, s.end = context.WithCancel(ctx)
	go func() {
		defer close(s.done)
		defer client.Close()
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for i := 0; ctx.Err() == nil; i++ {
			f := sample.Fact{ID: fmt.Sprintf("rewrap-%d", i), Source: "lender", ResourceType: "loan", EventType: "closed", SchemaVersion: "1",
				TenantID: fmt.Sprintf("t%d", i%4), Time: time.Now(), Body: []byte(fmt.Sprintf(`{"n":%d}`, i))}
			if _, err := r.pool.Exec(context.WithoutCancel(ctx), "UPDATE tenant_counters SET config_version = config_version + 1 WHERE tenant_id = $1", f.TenantID); err != nil {
				t.Errorf("make the secrets of %s be read anew: %v", f.TenantID, err)
				return
			}
			record := f.Record(sample.Prefixes{Topic: "lerian.streaming", Type: "studio.lerian"})
			// Not cut off in the middle: what is published has to be counted.
			if err := client.ProduceSync(context.WithoutCancel(ctx), record).FirstErr(); err != nil {
				t.Errorf("publish: %v", err)
				return
			}
			s.count.Add(1)
			select {
			case <-tick.C:
			case <-ctx.Done():
			}
		}
	}()
	t.Cleanup(func() { s.stop() })
	return s
}

// reach waits for n further events and says how many there were before.
func (s *stream) reach(ctx context.Context, t *testing.T, n int) (before int) {
	t.Helper()
	before = int(s.count.Load())
	eventually(ctx, t, func() bool { return int(s.count.Load()) >= before+n },
		func() string { return fmt.Sprintf("%d events are published, want %d", s.count.Load(), before+n) })
	return before
}

// stop ends it and says how many events there were.
func (s *stream) stop() int {
	s.end()
	<-s.done
	return int(s.count.Load())
}
