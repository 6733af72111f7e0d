// Command withpostgres runs a command with a throw-away Postgres that all its
// test processes share:
//
//	go run ./dev/withpostgres go test ./...
//
// The server's DSN is in STREAMING_HUB_TEST_POSTGRES_DSN; when that is set
// already, the command runs as it is.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"

	"github.com/streaming-hub/streaming-hub/dev/localpg"
	"github.com/streaming-hub/streaming-hub/dev/localpg/dockerpg"
)

const serverEnv = "STREAMING_HUB_TEST_POSTGRES_DSN"

func main() {
	code, err := run(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "withpostgres:", err)
		code = 1
	}
	os.Exit(code)
}

func run(args []string) (code int, err error) {
	if len(args) == 0 {
		return 0, errors.New("name a command to run")
	}
	// A terminal sends Ctrl-C to the command too; we end after it.
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	server, err := localpg.Start(context.Background(), localpg.Options{
		DSN: os.Getenv(serverEnv), Unsafe: true, Docker: dockerpg.Start,
		Settings: map[string]string{"shared_buffers": "256MB"},
	})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, server.Close()) }()
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), serverEnv+"="+server.DSN())
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	go func() {
		for s := range signals {
			if s == syscall.SIGTERM {
				_ = cmd.Process.Signal(s) // it may have ended just now
			}
		}
	}()
	err = cmd.Wait()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exit.ExitCode(), nil
	}
	return 0, err
}
