package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
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

// devTimeout bounds the whole test, a cold build of the programs included.
const devTimeout = 8 * time.Minute

// TestDev runs `hub dev` as a person would, twice over the same state.
func TestDev(t *testing.T) {
	if testing.Short() {
		t.Skip("builds and runs whole programs")
	}
	ctx, cancel := context.WithTimeout(t.Context(), devTimeout)
	defer cancel()
	dir, err := os.MkdirTemp("/var/tmp", "hub-dev-test-") // t.TempDir is out of reach for Postgres' user
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	build := exec.CommandContext(ctx, "go", "build", "-o", filepath.Join(dir, "bin")+"/", "./cmd/dataplane", "./cmd/controlplane", "./cmd/hub")
	build.Dir = "../.."
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}

	first := startDev(ctx, t, dir)
	hub := filepath.Join(dir, "bin", "hub")
	produce := func(st stack.State, subject, source string) {
		t.Helper()
		out, err := exec.CommandContext(ctx, hub, "produce", "--brokers", st.KafkaBrokers, "--tenant", st.TenantID,
			"--source", source, "--event", "loan.closed", "--subject", subject).CombinedOutput()
		if err != nil {
			t.Fatalf("produce: %v\n%s", err, out)
		}
	}
	// received waits until exactly these paths got the fact, signed.
	received := func(st stack.State, subject string, paths ...string) {
		t.Helper()
		var got []string
		eventually(ctx, t, func() bool {
			got = nil
			for _, r := range requests(ctx, t, st) {
				if r.Headers.Get("Ce-Subject") == subject && r.Verified {
					got = append(got, r.Path)
				}
			}
			return len(got) >= len(paths)
		}, func() string { return fmt.Sprintf("%s came to %v, want %v", subject, got, paths) })
		for _, path := range paths {
			if !strings.Contains(strings.Join(got, " "), path) {
				t.Errorf("%s came to %v, want %v", subject, got, paths)
			}
		}
	}

	produce(first.state, "one", "lender")
	received(first.state, "one", "/hooks/all", "/hooks/lender")
	produce(first.state, "two", "tracer")
	received(first.state, "two", "/hooks/all")

	t.Run("second_instance_is_refused_in_one_sentence", func(t *testing.T) {
		out, err := exec.CommandContext(ctx, hub, "dev", "--state-dir", filepath.Join(dir, "state"), "--port-base=0").CombinedOutput()
		if err == nil || !bytes.Contains(out, []byte("another hub dev")) || bytes.Count(out, []byte("\n")) != 1 {
			t.Errorf("%v: %s", err, out)
		}
	})
	first.stop(t)
	if _, err := os.Stat(filepath.Join(dir, "state", "dev.json")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("dev.json after the end: %v", err)
	}

	second := startDev(ctx, t, dir)
	if second.state.TenantToken != first.state.TenantToken || second.state.ReceiverURL != first.state.ReceiverURL {
		t.Errorf("the second run begins anew: %+v, before %+v", second.state, first.state)
	}
	produce(second.state, "three", "lender")
	received(second.state, "three", "/hooks/all", "/hooks/lender")
	second.stop(t)
}

// runningDev is a hub dev that is ready.
type runningDev struct {
	cmd   *exec.Cmd
	out   *safeBuffer
	state stack.State
	once  sync.Once
}

func startDev(ctx context.Context, t *testing.T, dir string) *runningDev {
	t.Helper()
	d := &runningDev{out: &safeBuffer{}}
	d.cmd = exec.Command(filepath.Join(dir, "bin", "hub"), "dev", "--no-traffic", "--state-dir", filepath.Join(dir, "state"), "--port-base=0")
	d.cmd.Stdout, d.cmd.Stderr = d.out, d.out
	if err := d.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.stop(t) })
	eventually(ctx, t, func() bool {
		text, err := os.ReadFile(filepath.Join(dir, "state", "dev.json"))
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
	Path     string      `json:"path"`
	Headers  http.Header `json:"headers"`
	Verified bool        `json:"verified"`
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
