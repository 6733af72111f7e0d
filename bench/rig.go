package main

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/streaming-hub/streaming-hub/db"
	"github.com/streaming-hub/streaming-hub/dev/localpg"
	"github.com/streaming-hub/streaming-hub/hub"
	"github.com/streaming-hub/streaming-hub/hub/secret"
)

const (
	source = "bench"
	topic  = "lerian.streaming." + source
)

// rig is everything that a part runs on, each piece a process of its own.
type rig struct {
	o        options
	dir      string
	postgres *localpg.Server
	store    *db.DB
	look     *pgx.Conn // for the bench's own questions
	keyring  *secret.Keyring
	kek      string
	broker   *child
	receiver *child
	plane    *child
	planeURL string
	control  *child
	signing  string // one secret for all destinations: the receiver's look-up is not measured
}

// child is a process whose first line of output is an address.
type child struct {
	cmd  *exec.Cmd
	addr string
}

func (c *child) pid() int { return c.cmd.Process.Pid }

func (c *child) stop(sig syscall.Signal) {
	if c == nil || c.cmd.ProcessState != nil {
		return
	}
	_ = c.cmd.Process.Signal(sig)
	_ = c.cmd.Wait()
}

func startRole(ctx context.Context, args ...string) (*child, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, self, append([]string{"role"}, args...)...)
	cmd.Stderr = os.Stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the %s: %w", args[0], err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return nil, fmt.Errorf("the %s did not start: %w", args[0], err)
	}
	return &child{cmd: cmd, addr: strings.TrimSpace(line)}, nil
}

// newRig starts Postgres, the broker and the receiver, and makes the tenants,
// each with one subscription to everything and a destination of its own.
func newRig(ctx context.Context, o options, receiverArgs ...string) (r *rig, err error) {
	r = &rig{o: o}
	if r.dir, err = os.MkdirTemp("", "hub-bench-"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			r.close()
		}
	}()
	settings := map[string]string{
		"fsync": "on", "synchronous_commit": "on", "shared_buffers": "2GB", "max_wal_size": "8GB",
		"checkpoint_timeout": "15min", "wal_init_zero": "off", "autovacuum_naptime": "5s",
		"max_connections": "100",
	}
	if o.statements {
		settings["shared_preload_libraries"] = "pg_stat_statements"
	}
	if o.commitTimes {
		settings["track_commit_timestamp"] = "on"
	}
	r.postgres, err = localpg.Start(ctx, localpg.Options{Settings: settings})
	if err != nil {
		return nil, err
	}
	if err = db.Migrate(ctx, r.postgres.DSN()); err != nil {
		return nil, err
	}
	if r.store, err = db.Open(ctx, db.Config{DSN: r.postgres.DSN()}); err != nil {
		return nil, err
	}
	if r.look, err = pgx.Connect(ctx, r.postgres.DSN()); err != nil {
		return nil, err
	}
	if r.broker, err = startRole(ctx, "broker", "--dir", filepath.Join(r.dir, "kafka"),
		"--topic", topic, "--partitions", fmt.Sprint(o.partitions)); err != nil {
		return nil, err
	}
	if r.receiver, err = startRole(ctx, append([]string{"receiver"}, receiverArgs...)...); err != nil {
		return nil, err
	}
	key := make([]byte, 32)
	rand.Read(key)
	r.kek = "bench:" + base64.StdEncoding.EncodeToString(key)
	if r.keyring, err = secret.ParseKeyring(r.kek); err != nil {
		return nil, err
	}
	return r, r.seed(ctx)
}

func tenantName(i int) string { return fmt.Sprintf("tenant-%04d", i) }

func (r *rig) seed(ctx context.Context) error {
	text, key := secret.NewSigning(rand.Reader)
	r.signing = text
	for i := range r.o.tenants {
		now := time.Now()
		tenant := hub.TenantID(tenantName(i))
		_, _, err := r.store.CreateSubscription(ctx, db.NewSubscription{
			Subscription: hub.EventSubscription{
				ID: hub.SubscriptionID{ID: hub.NewID(now, rand.Reader)}, Tenant: tenant, Name: "bench",
				EventTypes: []string{"*"}, Kind: hub.SinkWebhook, Enabled: true,
				VerificationState: hub.VerificationActive, Timeout: hub.DefaultTimeout, CreatedAt: now,
				RetryPolicy: hub.RetryPolicy{Kind: hub.RetryCurve},
			},
			Destination: hub.Destination{
				ID: hub.DestinationID{ID: hub.NewID(now, rand.Reader)}, Tenant: tenant, Kind: hub.SinkWebhook,
				URL: fmt.Sprintf("http://%s/hooks/%d", r.receiver.addr, i), CreatedAt: now,
			},
			Seal:     func(b secret.Binding) (secret.Sealed, error) { return r.keyring.Seal(rand.Reader, key, b) },
			SecretID: hub.NewID(now, rand.Reader),
		})
		if err != nil {
			return err
		}
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPut, "http://"+r.receiver.addr+"/secrets",
		strings.NewReader(fmt.Sprintf(`{"path":"","secret":%q}`, text)))
	if err != nil {
		return err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	res.Body.Close()
	if res.StatusCode >= 300 {
		return fmt.Errorf("the receiver did not take the secret: %s", res.Status)
	}
	return nil
}

// startPlane starts the data plane with the given role and workers and waits
// until it is ready.
func (r *rig) startPlane(ctx context.Context, role string, workers int) error {
	if err := r.spawnPlane(ctx, role, workers); err != nil {
		return err
	}
	return r.awaitReady(ctx, "the data plane", r.planeURL)
}

// spawnPlane is startPlane without the wait.
func (r *rig) spawnPlane(ctx context.Context, role string, workers int) (err error) {
	r.plane, err = r.spawn(ctx, r.o.dataplane,
		"STREAMING_HUB_KAFKA_BROKERS="+r.broker.addr,
		"STREAMING_HUB_ROLE="+role,
		"STREAMING_HUB_PROFILES_ENABLED=true",
		fmt.Sprintf("STREAMING_HUB_DISPATCH_WORKERS=%d", workers),
	)
	if err == nil {
		r.planeURL = "http://" + r.plane.addr
	}
	return err
}

// spawn starts one of the hub's programs on a free port.
func (r *rig) spawn(ctx context.Context, program string, environ ...string) (*child, error) {
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	addr := free.Addr().String()
	free.Close()
	cmd := exec.CommandContext(ctx, program)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.Env = append(append(os.Environ(),
		"STREAMING_HUB_POSTGRES_DSN="+r.postgres.DSN(),
		"STREAMING_HUB_KEK_KEYS="+r.kek,
		"STREAMING_HUB_HTTP_LISTEN_ADDR="+addr,
		"STREAMING_HUB_ALLOW_PRIVATE_SINKS=true",
	), environ...)
	cmd.Stdout, cmd.Stderr = io.Discard, io.Discard
	if r.o.keepLogs != "" {
		file, err := os.OpenFile(r.o.keepLogs, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			return nil, err
		}
		defer file.Close()
		cmd.Stderr = file
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", program, err)
	}
	return &child{cmd: cmd, addr: addr}, nil
}

func (r *rig) awaitReady(ctx context.Context, what, url string) error {
	return r.poll(ctx, 30*time.Second, what+" to be ready", func() (bool, error) { return ready(url), nil })
}

func ready(url string) bool {
	res, err := http.Get(url + "/readyz")
	if err != nil {
		return false
	}
	res.Body.Close()
	return res.StatusCode == http.StatusOK
}

// poll asks until done; an error, or the end of the time, fails.
func (r *rig) poll(ctx context.Context, limit time.Duration, what string, done func() (bool, error)) error {
	ok, err := r.pollUntil(ctx, limit, done)
	if !ok && err == nil {
		return fmt.Errorf("waited %s for %s", limit, what)
	}
	return err
}

// pollUntil asks until done, an error, or the time is over; ok says whether it
// was done.
func (r *rig) pollUntil(ctx context.Context, limit time.Duration, done func() (bool, error)) (ok bool, err error) {
	waiting, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		if ok, err := done(); ok || err != nil {
			return ok, err
		}
		select {
		case <-waiting.Done():
			return false, ctx.Err()
		case <-tick.C:
		}
	}
}

// counts are what the receiver saw.
type counts struct {
	Requests, Distinct, Repeats, Unverified int
}

func (r *rig) get(path string, into any) error {
	res, err := http.Get("http://" + r.receiver.addr + path)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	return json.NewDecoder(res.Body).Decode(into)
}

// check fails unless the receiver saw each event once, signed, and Postgres
// says the same.
func (r *rig) check(ctx context.Context, events int) error {
	var c counts
	if err := r.get("/counts", &c); err != nil {
		return err
	}
	if c.Distinct != events || c.Repeats != 0 || c.Unverified != 0 {
		return fmt.Errorf("of %d events %d arrived, %d a second time, %d not verified", events, c.Distinct, c.Repeats, c.Unverified)
	}
	return nil
}

func (r *rig) pids() map[string]int {
	return map[string]int{
		"broker": r.broker.pid(), "postgres": r.postgres.PID(), "dataplane": r.plane.pid(), "receiver": r.receiver.pid(),
	}
}

func (r *rig) close() {
	r.control.stop(syscall.SIGTERM)
	r.plane.stop(syscall.SIGTERM)
	r.receiver.stop(syscall.SIGTERM)
	r.broker.stop(syscall.SIGTERM)
	if r.look != nil {
		_ = r.look.Close(context.Background())
	}
	if r.store != nil {
		r.store.Close()
	}
	if r.postgres != nil {
		_ = r.postgres.Close()
	}
	_ = os.RemoveAll(r.dir)
}
