package e2e

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/streaming-hub/streaming-hub/db"
	"github.com/streaming-hub/streaming-hub/dev/broker"
	"github.com/streaming-hub/streaming-hub/dev/localpg"
)

// TestServersAway starts the data plane with neither database nor broker, lets
// both come, go and come again, and sees that it waits, says so and goes on by
// itself each time, with nothing lost.
func TestServersAway(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	defer cancel()
	dir := stateDir(t)
	pgPort, kafkaPort := freePort(t), freePort(t)
	startPostgres := func() *localpg.Server {
		t.Helper()
		s, err := localpg.Start(ctx, localpg.Options{Dir: filepath.Join(dir, "postgres"), Port: pgPort, Unsafe: true})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	startBroker := func() *broker.Broker {
		t.Helper()
		b, err := broker.Start(broker.Options{Dir: filepath.Join(dir, "kafka"), Port: kafkaPort, Topics: []string{"lerian.streaming.lender"}})
		if err != nil {
			t.Fatal(err)
		}
		return b
	}

	postgres := startPostgres()
	rig := &killRig{dsn: postgres.DSN(), kek: testKEK}
	if err := postgres.Close(); err != nil {
		t.Fatal(err)
	}
	rig.startReceiver(ctx, t)
	plane := rig.startOn(t, fmt.Sprintf("127.0.0.1:%d", kafkaPort))

	plane.unready(ctx, t, "Postgres")
	postgres = startPostgres()
	plane.unready(ctx, t, "hub migrate up")
	if err := db.Migrate(ctx, rig.dsn); err != nil {
		t.Fatal(err)
	}
	plane.unready(ctx, t, "Kafka")
	rig.subscribe(ctx, t)
	rig.broker = startBroker()
	plane.ready(ctx, t)
	rig.produce(ctx, t, 0, 20)
	eventually(ctx, t, func() bool { return rig.receiver.Counts().Distinct == 20 }, rig.say)

	// The database goes while events come in, and returns.
	if err := postgres.Close(); err != nil {
		t.Fatal(err)
	}
	rig.produce(ctx, t, 20, 40)
	plane.unready(ctx, t, "Postgres")
	postgres = startPostgres()
	t.Cleanup(func() { postgres.Close() })
	plane.ready(ctx, t)
	eventually(ctx, t, func() bool { return rig.receiver.Counts().Distinct == 40 }, rig.say)

	// So does the broker.
	rig.broker.Close()
	plane.unready(ctx, t, "Kafka")
	rig.broker = startBroker()
	t.Cleanup(func() { rig.broker.Close() })
	plane.ready(ctx, t)
	rig.produce(ctx, t, 40, 60)
	eventually(ctx, t, func() bool { return rig.receiver.Counts().Distinct == 60 }, rig.say)

	var err error
	if rig.pool, err = pgxpool.New(ctx, rig.dsn); err != nil {
		t.Fatal(err)
	}
	defer rig.pool.Close()
	eventually(ctx, t, func() bool { return rig.finished(ctx, t) == 60 }, rig.say)
}

func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// planeProcess is a data plane that runs.
type planeProcess struct {
	cmd  *exec.Cmd
	addr string
}

func (p *planeProcess) readyz() (status int, text string) {
	res, err := http.Get("http://" + p.addr + "/readyz")
	if err != nil {
		return 0, err.Error()
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return 0, err.Error()
	}
	return res.StatusCode, string(body)
}

// metric is the value of a metric without labels.
func (p *planeProcess) metric(t *testing.T, name string) string {
	t.Helper()
	res, err := http.Get("http://" + p.addr + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(body)) {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			return strings.TrimSpace(value)
		}
	}
	t.Fatalf("there is no metric %s", name)
	return ""
}

func (p *planeProcess) ready(ctx context.Context, t *testing.T) {
	t.Helper()
	var status int
	var text string
	eventually(ctx, t, func() bool {
		status, text = p.readyz()
		return status == http.StatusOK
	}, func() string { return fmt.Sprintf("/readyz says %d %s", status, text) })
}

// unready waits until /readyz says no, with the word in its reason.
func (p *planeProcess) unready(ctx context.Context, t *testing.T, word string) {
	t.Helper()
	var status int
	var text string
	eventually(ctx, t, func() bool {
		status, text = p.readyz()
		return status == http.StatusServiceUnavailable && strings.Contains(text, word)
	}, func() string { return fmt.Sprintf("/readyz says %d %s; want a reason with %q", status, text, word) })
}

// startOn runs the data plane against a broker's address; its leases are
// short, so that a test need not wait a minute for those that a kill leaves.
func (r *killRig) startOn(t *testing.T, brokerAddr string, environ ...string) *planeProcess {
	t.Helper()
	p := &planeProcess{addr: fmt.Sprintf("127.0.0.1:%d", freePort(t))}
	p.cmd = exec.Command(program(t, "dataplane"))
	p.cmd.Env = append(os.Environ(),
		"STREAMING_HUB_POSTGRES_DSN="+r.dsn,
		"STREAMING_HUB_KAFKA_BROKERS="+brokerAddr,
		"STREAMING_HUB_KEK_KEYS="+r.kek,
		"STREAMING_HUB_HTTP_LISTEN_ADDR="+p.addr,
		"STREAMING_HUB_ALLOW_PRIVATE_SINKS=true",
		"STREAMING_HUB_DISPATCH_LEASE=5s",
		fmt.Sprintf("STREAMING_HUB_DISPATCH_WORKERS=%d", killWorkers),
		fmt.Sprintf("STREAMING_HUB_DISPATCH_UNWRITTEN_OUTCOMES=%d", killUnwritten),
	)
	p.cmd.Env = append(p.cmd.Env, environ...)
	p.cmd.Stdout, p.cmd.Stderr = io.Discard, t.Output()
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.stop(t) })
	return p
}

// stop ends it in order, if it still runs.
func (p *planeProcess) stop(t *testing.T) {
	t.Helper()
	if p.cmd.ProcessState != nil {
		return
	}
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	if err := p.cmd.Wait(); err != nil {
		t.Errorf("the data plane ended with %v", err)
	}
}
