package localpg

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/streaming-hub/streaming-hub/dev/leash"
)

const (
	// user and database that a started server has.
	superuser = "hub"
	database  = "hub"

	startTimeout = 60 * time.Second
	// stopTimeout is how long a fast shutdown may take; its checkpoint writes
	// at most shared_buffers.
	stopTimeout = 30 * time.Second
	// quitTimeout is how long an immediate one may take then; a server that is
	// stopped by a signal hears of neither, and is killed.
	quitTimeout = 5 * time.Second
	poll        = 10 * time.Millisecond
	// portTries is how often a free port is drawn anew when another process
	// took it between our look and the server's bind.
	portTries = 5
)

// Server is a Postgres that accepts connections.
type Server struct {
	// Origin says in a few words where the server comes from.
	Origin string

	dsn       string
	stop      func() error
	closeOnce sync.Once
	closeErr  error

	dir     string
	sockets string
	port    int
	proc    *exec.Cmd
	leash   *leash.Leash
}

// DSN connects over TCP as a superuser.
func (s *Server) DSN() string { return s.dsn }

// SocketDSN connects over the server's Unix socket, which costs less CPU than
// TCP; it is DSN for a server that was not started by us.
func (s *Server) SocketDSN() string {
	if s.sockets == "" {
		return s.dsn
	}
	q := url.Values{"host": {s.sockets}, "port": {strconv.Itoa(s.port)}, "sslmode": {"disable"}}
	return fmt.Sprintf("postgres://%s@/%s?%s", superuser, database, q.Encode())
}

// Dir is the data folder, "" for a server that was not started by us.
func (s *Server) Dir() string { return s.dir }

// PID of the server process, 0 for a server that was not started by us.
func (s *Server) PID() int {
	if s.proc == nil {
		return 0
	}
	return s.proc.Process.Pid
}

// Close stops a server that Start started: sessions are cut, the data is left
// consistent, and throw-away data is removed. Further calls do nothing.
func (s *Server) Close() error {
	s.closeOnce.Do(func() {
		if s.stop != nil {
			s.closeErr = s.stop()
		}
	})
	return s.closeErr
}

func startPrograms(ctx context.Context, found []serverPrograms, o Options) (*Server, error) {
	owner, err := ownerFor(o.Dir)
	if err != nil {
		return nil, err
	}
	found = slices.DeleteFunc(found, func(p serverPrograms) bool {
		return !owner.runs(ctx, filepath.Join(p.dir, "postgres"))
	})
	if len(found) == 0 {
		return nil, fmt.Errorf("the Postgres programs found cannot be run by user %s, under whom root must start them", owner.name)
	}
	root, throwAway, err := rootFor(ctx, owner, o.Dir)
	if err != nil {
		return nil, err
	}
	s, err := startIn(ctx, found, owner, root, throwAway, o)
	if err != nil && throwAway {
		os.RemoveAll(root)
	}
	return s, err
}

func startIn(ctx context.Context, found []serverPrograms, owner owner, root string, throwAway bool, o Options) (*Server, error) {
	data := filepath.Join(root, "data")
	chosen, err := prepare(ctx, found, owner, root, data)
	if err != nil {
		return nil, err
	}
	if err := clearStale(ctx, data); err != nil {
		return nil, err
	}
	// A socket's path may have 107 bytes at most, so it does not live in root.
	sockets, err := os.MkdirTemp("/tmp", "hubpg-")
	if err != nil {
		return nil, fmt.Errorf("make a folder for the Postgres socket: %w", err)
	}
	remove := []string{sockets}
	if throwAway {
		remove = append(remove, root)
	}
	if err := errors.Join(owner.give(sockets), os.Chmod(sockets, 0o755)); err != nil {
		return nil, fmt.Errorf("hand the Postgres socket folder to user %s: %w", owner.name, err)
	}
	s := &Server{dir: data, sockets: sockets, Origin: fmt.Sprintf("Postgres %d from %s", chosen.major, chosen.dir)}
	if err := s.launch(ctx, chosen, owner, root, remove, o); err != nil {
		os.RemoveAll(sockets)
		return nil, err
	}
	s.stop = s.shutdown
	if err := s.createDatabase(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// settings of the server, lowest rank first.
func (o Options) settings(sockets string, port int) map[string]string {
	set := map[string]string{
		"listen_addresses":        "127.0.0.1",
		"port":                    strconv.Itoa(port),
		"unix_socket_directories": sockets,
		"max_connections":         "300",
		"shared_buffers":          "128MB",
		"timezone":                "UTC",
		"log_timezone":            "UTC",
		// The queue's rows live for milliseconds; at the default of a minute
		// it bloats to hundreds of megabytes under load.
		"autovacuum_naptime": "5s",
		// Bulk ingest would otherwise checkpoint every few seconds.
		"max_wal_size": "2GB",
	}
	if o.Unsafe {
		maps.Copy(set, map[string]string{
			"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off", "wal_level": "minimal", "max_wal_senders": "0",
		})
	}
	maps.Copy(set, o.Settings)
	return set
}

// launch starts the server and waits until it is ready.
func (s *Server) launch(ctx context.Context, p serverPrograms, owner owner, root string, remove []string, o Options) error {
	for range portTries {
		port := o.Port
		if port == 0 {
			var err error
			if port, err = freePort(); err != nil {
				return err
			}
		}
		err := s.launchOn(ctx, port, p, owner, root, remove, o)
		if errors.Is(err, ErrPortTaken) && o.Port == 0 {
			continue
		}
		return err
	}
	return fmt.Errorf("start Postgres: %d free ports in a row were taken by others before it could listen", portTries)
}

func (s *Server) launchOn(ctx context.Context, port int, p serverPrograms, owner owner, root string, remove []string, o Options) error {
	logPath := filepath.Join(root, "postgres.log")
	logFile, err := os.Create(logPath)
	if err != nil {
		return fmt.Errorf("open the Postgres log: %w", err)
	}
	defer logFile.Close()
	args := []string{"-D", s.dir}
	set := o.settings(s.sockets, port)
	for _, name := range slices.Sorted(maps.Keys(set)) {
		args = append(args, "-c", name+"="+set[name])
	}
	// The server must survive ctx, which only bounds the start.
	cmd := owner.command(context.WithoutCancel(ctx), root, filepath.Join(p.dir, "postgres"), args...)
	cmd.Stdout, cmd.Stderr = logFile, logFile
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start Postgres under user %s: %w", owner.name, err)
	}
	l, err := leash.Tie(cmd.Process.Pid, syscall.SIGINT, remove...)
	if err != nil {
		return errors.Join(err, cmd.Process.Kill(), cmd.Wait())
	}
	s.proc, s.leash, s.port = cmd, l, port
	s.dsn = fmt.Sprintf("postgres://%s@127.0.0.1:%d/%s?sslmode=disable", superuser, port, database)
	if err := s.awaitReady(ctx); err != nil {
		text, _ := os.ReadFile(logPath)
		s.leash.Keep()
		if bytes.Contains(text, []byte("could not bind")) {
			return fmt.Errorf("start Postgres on 127.0.0.1:%d: %w", port, ErrPortTaken)
		}
		return fmt.Errorf("start Postgres: %w: %s", err, lastLine(text))
	}
	return nil
}

// awaitReady reads the server's own word in its pid file, since a probe of the
// port could be answered by somebody else's server.
func (s *Server) awaitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	tick := time.NewTicker(poll)
	defer tick.Stop()
	for {
		if pid, status := readPidFile(s.dir); pid == s.proc.Process.Pid && status == "ready" {
			return nil
		}
		var ws syscall.WaitStatus
		if pid, _ := syscall.Wait4(s.proc.Process.Pid, &ws, syscall.WNOHANG, nil); pid == s.proc.Process.Pid {
			s.proc.Process.Release()
			return errors.New("it ended at once")
		}
		select {
		case <-ctx.Done():
			return errors.Join(ctx.Err(), s.proc.Process.Kill(), s.proc.Wait())
		case <-tick.C:
		}
	}
}

func (s *Server) createDatabase(ctx context.Context) error {
	maintenance := fmt.Sprintf("postgres://%s@127.0.0.1:%d/postgres?sslmode=disable", superuser, s.port)
	conn, err := pgx.Connect(ctx, maintenance)
	if err != nil {
		return fmt.Errorf("connect to the new Postgres: %w", err)
	}
	defer conn.Close(ctx)
	var there bool
	if err := conn.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)", database).Scan(&there); err != nil {
		return fmt.Errorf("look for the database %s: %w", database, err)
	}
	if there {
		return nil
	}
	if _, err := conn.Exec(ctx, "CREATE DATABASE "+database); err != nil {
		return fmt.Errorf("create the database %s: %w", database, err)
	}
	return nil
}

// shutdown asks for a fast shutdown (SIGINT: cut sessions, checkpoint, end),
// for an immediate one when that takes too long, and then kills.
func (s *Server) shutdown() error {
	if err := s.proc.Process.Signal(syscall.SIGINT); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stop Postgres (pid %d): %w", s.PID(), err)
	}
	quit := time.AfterFunc(stopTimeout, func() { s.proc.Process.Signal(syscall.SIGQUIT) })
	kill := time.AfterFunc(stopTimeout+quitTimeout, func() { s.proc.Process.Kill() })
	err := s.proc.Wait()
	quit.Stop()
	kill.Stop()
	s.leash.Remove()
	if err != nil {
		return fmt.Errorf("stop Postgres: %w", err)
	}
	return nil
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("find a free port: %w", err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

func lastLine(text []byte) string {
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return lines[len(lines)-1]
}
