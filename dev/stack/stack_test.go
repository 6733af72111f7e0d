package stack

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func listen(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l.Addr().(*net.TCPAddr).Port
}

func TestChoosePorts(t *testing.T) {
	zero := 0
	t.Run("given_port_that_is_taken_is_said_with_its_flag", func(t *testing.T) {
		busy := listen(t)
		_, err := choosePorts(Ports{Base: &zero, Console: &busy}, State{}, true, true)
		if err == nil || !strings.Contains(err.Error(), "--console-port") {
			t.Errorf("error = %v", err)
		}
	})
	t.Run("base_0_takes_free_ones_all_different", func(t *testing.T) {
		c, err := choosePorts(Ports{Base: &zero}, State{}, true, true)
		if err != nil {
			t.Fatal(err)
		}
		seen := map[int]bool{c.console: true, c.dataPlane: true, c.receiver: true, c.kafka: true, c.postgres: true}
		if len(seen) != 5 || seen[0] {
			t.Errorf("ports %+v", c)
		}
	})
	t.Run("last_runs_ports_are_taken_again", func(t *testing.T) {
		first, err := choosePorts(Ports{Base: &zero}, State{}, true, true)
		if err != nil {
			t.Fatal(err)
		}
		last := State{
			ConsoleURL: "http://" + local(first.console) + "/", PullURL: "http://" + local(first.dataPlane) + "/v1/events",
			ReceiverURL: "http://" + local(first.receiver), KafkaBrokers: local(first.kafka), PostgresDSN: "postgres://hub@" + local(first.postgres) + "/hub",
		}
		for _, p := range []Ports{{Base: &zero}, {}} {
			again, err := choosePorts(p, last, true, true)
			if err != nil {
				t.Fatal(err)
			}
			if again != first {
				t.Errorf("%+v, want %+v", again, first)
			}
		}
	})
	t.Run("servers_of_others_need_no_port", func(t *testing.T) {
		c, err := choosePorts(Ports{Base: &zero}, State{}, false, false)
		if err != nil {
			t.Fatal(err)
		}
		if c.kafka != 0 || c.postgres != 0 {
			t.Errorf("ports %+v", c)
		}
	})
}

func TestPreferred(t *testing.T) {
	busy := listen(t)
	got, err := preferred(map[int]bool{}, 0, busy)
	if err != nil {
		t.Fatal(err)
	}
	if got <= busy {
		t.Errorf("port %d, want one after the taken default %d", got, busy)
	}
}

func TestLockDir(t *testing.T) {
	dir := t.TempDir()
	// What a killed run leaves behind.
	if err := os.WriteFile(filepath.Join(dir, "dev.lock"), []byte("1\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	unlock, err := lockDir(dir)
	if err != nil {
		t.Fatalf("a stale lock is not taken over: %v", err)
	}
	if _, err := lockDir(dir); err == nil || !strings.Contains(err.Error(), "another hub dev") {
		t.Errorf("second lock: %v", err)
	}
	unlock()
	unlock, err = lockDir(dir)
	if err != nil {
		t.Fatalf("lock after unlock: %v", err)
	}
	unlock()
}

func TestState(t *testing.T) {
	dir := t.TempDir()
	want := State{TenantID: "acme", TenantToken: "t"}
	if err := want.save(dir); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(filepath.Join(dir, stateFile))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode of %s: %v %v", stateFile, info.Mode(), err)
	}
	for range 2 { // the second time as after a start that failed
		got, err := lastState(dir)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
		if _, err := os.Stat(filepath.Join(dir, stateFile)); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is there before the hub is ready: %v", stateFile, err)
		}
	}
}

func TestEnviron(t *testing.T) {
	s := &Stack{o: Options{StateDir: "/s", Environ: []string{
		"PATH=/bin", "STREAMING_HUB_KEK_KEYS=x", "STREAMING_HUB_POSTGRES_DSN_FILE=/y", "STREAMING_HUB_DISPATCH_WORKERS=4",
	}}, state: State{PostgresDSN: "dsn", KafkaBrokers: "b:1"}}
	want := []string{
		"PATH=/bin", "STREAMING_HUB_DISPATCH_WORKERS=4",
		"STREAMING_HUB_HTTP_LISTEN_ADDR=a:1", "STREAMING_HUB_POSTGRES_DSN=dsn", "STREAMING_HUB_KAFKA_BROKERS=b:1",
		"STREAMING_HUB_KEK_KEYS_FILE=/s/kek", "STREAMING_HUB_ALLOW_PRIVATE_SINKS=true", "STREAMING_HUB_LOG_FORMAT=json",
	}
	if diff := cmp.Diff(want, s.environ("a:1")); diff != "" {
		t.Error(diff)
	}
}

func TestReadEntry(t *testing.T) {
	for name, c := range map[string]struct {
		line string
		want entry
	}{
		"json_becomes_a_sentence": {
			`{"time":"2026-01-01T00:00:00Z","level":"WARN","msg":"claim failed","tenant":"acme","n":3}`,
			entry{levelWarn, "WARN claim failed  n=3  tenant=acme"},
		},
		"info_is_less":           {`{"level":"INFO","msg":"up"}`, entry{levelInfo, "INFO up"}},
		"other_text_is_an_error": {"panic: oh\n", entry{levelError, "panic: oh"}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := readEntry(c.line); got != c.want {
				t.Errorf("got %+v", got)
			}
		})
	}
}
