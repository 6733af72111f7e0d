// Package stack runs a whole Streaming Hub on one machine for development:
// Postgres and a Kafka-protocol broker found or started, the schema migrated,
// both planes as child processes, a sample tenant with a signed receiver, and
// a trickle of events. State lives in one folder and survives a restart.
package stack

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/streaming-hub/streaming-hub/db"
	"github.com/streaming-hub/streaming-hub/dev/localpg"
	"github.com/streaming-hub/streaming-hub/dev/receiver"
	"github.com/streaming-hub/streaming-hub/dev/sample"
	"github.com/streaming-hub/streaming-hub/hub"
)

// Tenant is the sample tenant.
const Tenant hub.TenantID = "acme"

// Options of a stack.
type Options struct {
	// StateDir keeps everything from run to run, .hub by default.
	StateDir string
	// BinDir holds the programs dataplane and controlplane.
	BinDir string
	// PostgresDSN and KafkaBrokers name servers to use; "" starts them.
	PostgresDSN  string
	KafkaBrokers string
	Ports        Ports
	Prefixes     sample.Prefixes
	HeaderPrefix string // of the hub's own HTTP headers
	// Traffic publishes about one sample fact a second.
	Traffic bool
	// Verbose shows what the planes log at level info too.
	Verbose bool
	// Environ is handed to the planes beneath what the stack sets.
	Environ []string
	Out     io.Writer
	// Docker starts Postgres in a container where no programs are found.
	Docker localpg.Container
	// NewToken makes an API token of a tenant, "" for all tenants.
	NewToken func(ctx context.Context, d *db.DB, tenant hub.TenantID, name string, role hub.Role) (string, error)
}

// Stack is a running hub.
type Stack struct {
	o      Options
	screen *screen
	state  State // of the last run, then of this one
	ports  chosenPorts

	receiver *receiver.Receiver
	planes   []*plane
}

// Run starts everything, in the order in which one thing needs the other,
// waits until ctx ends or a part fails, and stops everything in the opposite
// order.
func Run(ctx context.Context, o Options) (err error) {
	defer func() {
		if ctx.Err() != nil && errors.Is(err, context.Canceled) {
			err = nil // the caller ended a start that was under way
		}
	}()
	if o.StateDir, err = filepath.Abs(o.StateDir); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(o.StateDir, "logs"), 0o755); err != nil {
		return fmt.Errorf("make the state folder: %w", err)
	}
	unlock, err := lockDir(o.StateDir)
	if err != nil {
		return err
	}
	defer unlock()

	s := &Stack{o: o, screen: newScreen(o.Out, o.HeaderPrefix)}
	if s.state, err = lastState(o.StateDir); err != nil {
		return err
	}
	if s.ports, err = choosePorts(o.Ports, s.state, o.PostgresDSN == "", o.KafkaBrokers == ""); err != nil {
		return err
	}

	stopPostgres, err := s.startPostgres(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stopPostgres()) }()
	stopKafka, err := s.startKafka(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stopKafka()) }()
	if err := db.Migrate(ctx, s.state.PostgresDSN); err != nil {
		return err
	}
	if err := ensureKEK(s.kekFile()); err != nil {
		return err
	}

	// The receiver goes last, so that the planes' last deliveries arrive.
	group := &errgroup.Group{}
	receiving, stopReceiver := context.WithCancel(context.WithoutCancel(ctx))
	defer func() {
		stopReceiver()
		err = errors.Join(err, group.Wait())
	}()
	if err := s.startReceiver(receiving, group); err != nil {
		return err
	}

	defer func() { err = errors.Join(err, s.stopPlanes()) }()
	if err := s.startPlanes(); err != nil {
		return err
	}
	if err := s.awaitReady(ctx); err != nil {
		return err
	}
	if err := s.setUpTenant(ctx); err != nil {
		return err
	}
	if err := s.state.save(o.StateDir); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, putAside(o.StateDir)) }()
	s.screen.ready(s)
	return s.live(ctx)
}

// live publishes facts until ctx ends or a part fails.
func (s *Stack) live(ctx context.Context) error {
	parts, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	group := &errgroup.Group{}
	if s.o.Traffic {
		group.Go(func() error {
			if err := s.trickle(parts); err != nil {
				fail(err)
			}
			return nil
		})
	}
	for _, p := range s.planes {
		group.Go(func() error {
			select {
			case <-parts.Done():
			case <-p.done:
				fail(p.ended())
			}
			return nil
		})
	}
	_ = group.Wait() // the parts report by fail
	s.screen.line("Stopping: attempts under way end first. Ctrl-C again ends everything at once.")
	if ctx.Err() != nil {
		return nil
	}
	return context.Cause(parts)
}

func (s *Stack) kekFile() string { return filepath.Join(s.o.StateDir, "kek") }

func (s *Stack) logFile(name string) string {
	return filepath.Join(s.o.StateDir, "logs", name+".log")
}

// relative is a path as a person in this folder would write it.
func relative(path string) string {
	wd, err := os.Getwd()
	if err != nil {
		return path
	}
	rel, err := filepath.Rel(wd, path)
	if err != nil || strings.HasPrefix(rel, "..") {
		return path
	}
	return rel
}
