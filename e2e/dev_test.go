package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/streaming-hub/streaming-hub/dev/stack"
)

// TestDev runs `hub dev` as a person would, twice over the same state.
func TestDev(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	defer cancel()
	dir := stateDir(t)
	first := startDev(ctx, t, dir)
	hub := program(t, "hub")
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
		out, err := exec.CommandContext(ctx, hub, "dev", "--state-dir", dir, "--port-base=0").CombinedOutput()
		if err == nil || !bytes.Contains(out, []byte("another hub dev")) || bytes.Count(out, []byte("\n")) != 1 {
			t.Errorf("%v: %s", err, out)
		}
	})
	first.stop(t)
	if _, err := os.Stat(filepath.Join(dir, "dev.json")); !errors.Is(err, fs.ErrNotExist) {
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
