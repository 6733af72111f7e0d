package localpg_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/streaming-hub/streaming-hub/dev/localpg"
)

// folder is one that an unprivileged user can reach; t.TempDir is not, its
// parent has mode 0700.
func folder(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/var/tmp", "localpg-test-")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func start(t *testing.T, o localpg.Options) *localpg.Server {
	t.Helper()
	s, err := localpg.Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func query(t *testing.T, dsn, sql string) string {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	var out string
	if err := conn.QueryRow(t.Context(), sql).Scan(&out); err != nil {
		t.Fatal(err)
	}
	return out
}

// keep leaves something to find.
func keep(t *testing.T, dsn string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	if _, err := conn.Exec(t.Context(), "CREATE TABLE kept AS SELECT 'x'::text AS v"); err != nil {
		t.Fatal(err)
	}
}

func TestStart(t *testing.T) {
	t.Run("throw_away_server_leaves_nothing", func(t *testing.T) {
		s := start(t, localpg.Options{Unsafe: true})
		for _, dsn := range []string{s.DSN(), s.SocketDSN()} {
			if got := query(t, dsn, "SELECT current_database()::text"); got != "hub" {
				t.Errorf("database over %s is %q", dsn, got)
			}
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(s.Dir()); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("data folder after Close: %v", err)
		}
	})
	t.Run("durable_unless_asked_otherwise_and_takes_settings", func(t *testing.T) {
		s := start(t, localpg.Options{Settings: map[string]string{"shared_buffers": "64MB"}})
		for setting, want := range map[string]string{"fsync": "on", "synchronous_commit": "on", "shared_buffers": "64MB", "autovacuum_naptime": "5s"} {
			if got := query(t, s.DSN(), "SHOW "+setting); got != want {
				t.Errorf("%s = %s, want %s", setting, got, want)
			}
		}
	})
	t.Run("second_start_finds_the_data", func(t *testing.T) {
		o := localpg.Options{Dir: filepath.Join(folder(t), "pg"), Unsafe: true}
		first := start(t, o)
		keep(t, first.DSN())
		if err := first.Close(); err != nil {
			t.Fatal(err)
		}
		if got := query(t, start(t, o).DSN(), "SELECT v FROM kept"); got != "x" {
			t.Errorf("kept = %q", got)
		}
	})
	t.Run("folder_out_of_reach_is_kept_elsewhere_behind_a_link", func(t *testing.T) {
		if os.Geteuid() != 0 {
			t.Skip("only root lends another user's credentials")
		}
		dir := filepath.Join(t.TempDir(), "pg")
		o := localpg.Options{Dir: dir, Unsafe: true}
		first := start(t, o)
		keep(t, first.DSN())
		if err := first.Close(); err != nil {
			t.Fatal(err)
		}
		target, err := os.Readlink(dir)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { os.RemoveAll(target) })
		if got := query(t, start(t, o).DSN(), "SELECT v FROM kept"); got != "x" {
			t.Errorf("kept = %q", got)
		}
	})
	t.Run("stale_lock_of_another_program_is_taken_over", func(t *testing.T) {
		o := localpg.Options{Dir: filepath.Join(folder(t), "pg"), Unsafe: true}
		first := start(t, o)
		data := first.Dir()
		if err := first.Close(); err != nil {
			t.Fatal(err)
		}
		// Our parent is alive and no Postgres: what a reused pid looks like.
		lock := fmt.Sprintf("%d\n%s\n0\n5432\n/tmp\nlocalhost\n0 0\nready\n", os.Getppid(), data)
		if err := os.WriteFile(filepath.Join(data, "postmaster.pid"), []byte(lock), 0o644); err != nil {
			t.Fatal(err)
		}
		start(t, o)
	})
	t.Run("taken_port_is_said", func(t *testing.T) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		_, err = localpg.Start(t.Context(), localpg.Options{Port: l.Addr().(*net.TCPAddr).Port, Unsafe: true})
		if !errors.Is(err, localpg.ErrPortTaken) {
			t.Errorf("error = %v", err)
		}
	})
	t.Run("given_DSN_is_used_as_it_is", func(t *testing.T) {
		s := start(t, localpg.Options{DSN: "postgres://elsewhere/x"})
		if s.DSN() != "postgres://elsewhere/x" {
			t.Errorf("DSN = %s", s.DSN())
		}
	})
	t.Run("container_comes_after_programs", func(t *testing.T) {
		container := func(context.Context, localpg.Options) (string, func() error, error) {
			return "postgres://container/hub", func() error { return nil }, nil
		}
		s := start(t, localpg.Options{ProgramDirs: []string{}, Docker: container})
		if s.DSN() != "postgres://container/hub" {
			t.Errorf("DSN = %s", s.DSN())
		}
	})
	t.Run("nothing_found_lists_the_ways", func(t *testing.T) {
		container := func(context.Context, localpg.Options) (string, func() error, error) {
			return "", nil, localpg.ErrNoEngine
		}
		_, err := localpg.Start(t.Context(), localpg.Options{ProgramDirs: []string{}, Docker: container})
		for _, way := range []string{"--postgres-dsn", "apt-get install postgresql", "brew install postgresql", "@embedded-postgres", "Docker"} {
			if err == nil || !strings.Contains(err.Error(), way) {
				t.Errorf("error %v does not name %s", err, way)
			}
		}
	})
}

// TestOwnerKilled runs itself as a child that starts a server and is killed:
// the server and its data must go too.
func TestOwnerKilled(t *testing.T) {
	if os.Getenv("LOCALPG_CHILD") != "" {
		s, err := localpg.Start(t.Context(), localpg.Options{Unsafe: true})
		if err != nil {
			t.Fatal(err)
		}
		fmt.Printf("\n%d %s\n", s.PID(), s.Dir())
		select {}
	}
	child := exec.Command(os.Args[0], "-test.run=^TestOwnerKilled$", "-test.v")
	child.Env = append(os.Environ(), "LOCALPG_CHILD=1")
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	var pid int
	var dir string
	for dir == "" {
		var line string
		buf := make([]byte, 4096)
		n, err := out.Read(buf)
		if err != nil {
			t.Fatal(err)
		}
		for line = range strings.Lines(string(buf[:n])) {
			fmt.Sscanf(line, "%d %s", &pid, &dir)
		}
	}
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	child.Wait()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		_, statErr := os.Stat(dir)
		if errors.Is(statErr, os.ErrNotExist) && ended(pid) {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("server %d or its data %s is still there: %v", pid, dir, statErr)
		case <-tick.C:
		}
	}
}

// ended reports whether the process is gone or a zombie that nobody reaps.
func ended(pid int) bool {
	if err := syscall.Kill(pid, 0); errors.Is(err, syscall.ESRCH) {
		return true
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && strings.Contains(string(stat), ") Z ")
}
