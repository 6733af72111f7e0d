// Package e2e runs the real programs, as an operator would, and looks at them
// from outside only: Kafka clients, webhooks, GraphQL, signals. Each test takes
// free ports and a state folder of its own.
package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/streaming-hub/streaming-hub/dev/stack"
)

// testTimeout bounds a test, a cold build of the programs included.
const testTimeout = 8 * time.Minute

// binDir holds the programs, built once.
var binDir string

func TestMain(m *testing.M) {
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "hub-e2e-bin-")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(dir)
		build := exec.Command("go", "build", "-o", dir+"/", "./cmd/dataplane", "./cmd/controlplane", "./cmd/hub")
		build.Dir = ".."
		if out, err := build.CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "build the programs: %v\n%s", err, out)
			return 1
		}
		binDir = dir
		return m.Run()
	}())
}

func program(t *testing.T, name string) string {
	t.Helper()
	return filepath.Join(binDir, name)
}

// stateDir is a folder that the user of a started Postgres can reach, which
// t.TempDir is not.
func stateDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/var/tmp", "hub-e2e-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// runningDev is a hub dev that is ready.
type runningDev struct {
	cmd   *exec.Cmd
	out   *safeBuffer
	state stack.State
	once  sync.Once
}

func startDev(ctx context.Context, t *testing.T, dir string, environ ...string) *runningDev {
	t.Helper()
	d := &runningDev{out: &safeBuffer{}}
	d.cmd = exec.Command(program(t, "hub"), "dev", "--no-traffic", "--state-dir", dir, "--port-base=0")
	d.cmd.Env = append(os.Environ(), environ...)
	d.cmd.Stdout, d.cmd.Stderr = d.out, d.out
	if err := d.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.stop(t) })
	eventually(ctx, t, func() bool {
		text, err := os.ReadFile(filepath.Join(dir, "dev.json"))
		return err == nil && json.Unmarshal(text, &d.state) == nil || strings.Contains(d.out.String(), "\nhub: ")
	}, d.out.String)
	if d.state.ReceiverURL == "" {
		t.Fatalf("hub dev did not start:\n%s", d.out)
	}
	return d
}

// stop ends it as Ctrl-C does.
func (d *runningDev) stop(t *testing.T) {
	t.Helper()
	d.once.Do(func() {
		if err := d.cmd.Process.Signal(syscall.SIGINT); err != nil {
			t.Errorf("stop hub dev: %v", err)
		}
		if err := d.cmd.Wait(); err != nil {
			t.Errorf("hub dev ended with %v:\n%s", err, d.out)
		}
	})
}

// received is what the test reads of the receiver's list.
type received struct {
	Path      string      `json:"path"`
	Headers   http.Header `json:"headers"`
	Body      []byte      `json:"bodyBase64"`
	WebhookID string      `json:"webhookId"`
	Status    int         `json:"status"`
	Verified  bool        `json:"verified"`

	ReceivedAt time.Time `json:"receivedAt"`
}

func requests(ctx context.Context, t *testing.T, st stack.State) (list []received) {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, "GET", st.ReceiverURL+"/requests", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(&list); err != nil {
		t.Fatal(err)
	}
	return list
}

// eventually asks until it is so; say describes what is there when time is up.
func eventually(ctx context.Context, t *testing.T, so func() bool, say func() string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !so() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatal(say())
		}
	}
}

// safeBuffer is written by the process and read by the test at once.
type safeBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *safeBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *safeBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}
