package stack

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/streaming-hub/streaming-hub/dev/leash"
)

const (
	// readyTimeout covers a slow machine's first start.
	readyTimeout = 60 * time.Second
	readyPoll    = 50 * time.Millisecond
	// stopTimeout is a little more than the planes' own SHUTDOWN_TIMEOUT.
	stopTimeout = 35 * time.Second
)

// plane is one of the two programs as a child process.
type plane struct {
	name  string
	addr  string
	log   string
	cmd   *exec.Cmd
	leash *leash.Leash
	done  chan struct{} // closed when the process has ended
	err   error         // how, valid once done is closed
	last  atomic.Pointer[string]
}

func (s *Stack) startPlanes() error {
	for _, p := range []*plane{
		{name: "dataplane", addr: local(s.ports.dataPlane)},
		{name: "controlplane", addr: local(s.ports.console)},
	} {
		if err := s.startPlane(p); err != nil {
			return err
		}
		s.planes = append(s.planes, p)
	}
	return nil
}

func (s *Stack) startPlane(p *plane) error {
	p.log = s.logFile(p.name)
	file, err := os.Create(p.log)
	if err != nil {
		return fmt.Errorf("open the log of the %s: %w", p.name, err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		file.Close()
		return fmt.Errorf("start the %s: %w", p.name, err)
	}
	defer w.Close()
	program := filepath.Join(s.o.BinDir, p.name)
	p.cmd = exec.Command(program)
	p.cmd.Env = s.environ(p.addr)
	p.cmd.Stdout, p.cmd.Stderr = w, w
	// Ctrl-C in a terminal must not reach it: we stop it, in order.
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := p.cmd.Start(); err != nil {
		r.Close()
		file.Close()
		return fmt.Errorf("start the %s (make build makes it): %w", p.name, err)
	}
	if p.leash, err = leash.Tie(p.cmd.Process.Pid, syscall.SIGTERM); err != nil {
		r.Close()
		file.Close()
		return errors.Join(err, p.cmd.Process.Kill(), p.cmd.Wait())
	}
	p.done = make(chan struct{})
	go func() {
		defer close(p.done)
		s.follow(p, r, file)
		p.err = p.cmd.Wait()
		p.leash.Keep()
	}()
	return nil
}

// environ is the planes' environment: the caller's, and above it what makes
// them work together. A name that we set must not also come as its _FILE form,
// nor the other way round.
func (s *Stack) environ(addr string) []string {
	ours := []string{
		"STREAMING_HUB_HTTP_LISTEN_ADDR=" + addr,
		"STREAMING_HUB_POSTGRES_DSN=" + s.state.PostgresDSN,
		"STREAMING_HUB_KAFKA_BROKERS=" + s.state.KafkaBrokers,
		"STREAMING_HUB_KEK_KEYS_FILE=" + s.kekFile(),
		"STREAMING_HUB_ALLOW_PRIVATE_SINKS=true",
		"STREAMING_HUB_LOG_FORMAT=json",
	}
	stem := func(pair string) string {
		name, _, _ := strings.Cut(pair, "=")
		return strings.TrimSuffix(name, "_FILE")
	}
	env := slices.DeleteFunc(slices.Clone(s.o.Environ), func(pair string) bool {
		return slices.ContainsFunc(ours, func(o string) bool { return stem(o) == stem(pair) })
	})
	return append(env, ours...)
}

// follow copies the plane's output to its log and shows what matters.
func (s *Stack) follow(p *plane, r io.ReadCloser, file io.WriteCloser) {
	defer r.Close()
	defer file.Close()
	lines := bufio.NewReaderSize(r, 64<<10)
	for {
		line, err := lines.ReadString('\n')
		if line != "" {
			_, _ = io.WriteString(file, line) // a full disk must not stop the plane
			e := readEntry(line)
			if e.level >= levelWarn {
				text := e.text
				p.last.Store(&text)
			}
			if e.level >= levelWarn || s.o.Verbose && e.level >= levelInfo {
				s.screen.line("%-12s  %s", p.name, e.text)
			}
		}
		if err != nil {
			return
		}
	}
}

// awaitReady waits until both planes say that they can work.
func (s *Stack) awaitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	for _, p := range s.planes {
		if err := p.awaitReady(ctx); err != nil {
			return err
		}
	}
	s.screen.line("Data plane and control plane: ready")
	return nil
}

func (p *plane) awaitReady(ctx context.Context) error {
	tick := time.NewTicker(readyPoll)
	defer tick.Stop()
	said := "it does not answer"
	for {
		if ready, text := p.ready(ctx); ready {
			return nil
		} else if text != "" {
			said = text
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the %s is not ready after %s: %s; its log is %s", p.name, readyTimeout, said, relative(p.log))
		case <-p.done:
			return p.ended()
		case <-tick.C:
		}
	}
}

// ready asks /readyz; text is what it says when it is not.
func (p *plane) ready(ctx context.Context) (ok bool, text string) {
	req, err := http.NewRequestWithContext(ctx, "GET", "http://"+p.addr+"/readyz", nil)
	if err != nil {
		return false, err.Error()
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return false, ""
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<10)) // a part is enough for the message
	return resp.StatusCode == http.StatusOK, strings.TrimSpace(string(body))
}

// ended says that the process ended by itself, with its last warning.
func (p *plane) ended() error {
	how := "it ended"
	if p.err != nil {
		how = p.err.Error()
	}
	if last := p.last.Load(); last != nil {
		how += ": " + *last
	}
	return fmt.Errorf("the %s stopped by itself (%s); its log is %s", p.name, how, relative(p.log))
}

// stopPlanes asks both to finish and waits; one that does not is killed.
func (s *Stack) stopPlanes() error {
	for _, p := range s.planes {
		_ = p.cmd.Process.Signal(syscall.SIGTERM) // it may have ended already
	}
	timer := time.NewTimer(stopTimeout)
	defer timer.Stop()
	var errs []error
	for _, p := range s.planes {
		select {
		case <-p.done:
		case <-timer.C:
			errs = append(errs, fmt.Errorf("the %s did not stop within %s and was killed", p.name, stopTimeout), p.cmd.Process.Kill())
			timer.Reset(0)
			<-p.done
		}
	}
	return errors.Join(errs...)
}
