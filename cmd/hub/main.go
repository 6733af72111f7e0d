// Command hub is the tool of a Streaming Hub: it runs a whole one for
// development, migrates the schema, makes API tokens, and stands in for a
// producer or a receiver.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/alecthomas/kong"

	"github.com/streaming-hub/streaming-hub/cmd/internal/settings"
)

type commands struct {
	Dev      devCommand      `cmd:"" help:"Run a whole hub on this machine, with a sample tenant."`
	Keys     keysCommand     `cmd:"" help:"Show what the key-encryption keys wrap, or move secrets to a new one."`
	Migrate  migrateCommand  `cmd:"" help:"Bring the database schema up to date, or show where it stands."`
	Produce  produceCommand  `cmd:"" help:"Publish facts to Kafka as an application would."`
	Receive  receiveCommand  `cmd:"" help:"Run a webhook receiver that verifies signatures."`
	Token    tokenCommand    `cmd:"" help:"Create, list and revoke API tokens."`
	Settings settingsCommand `cmd:"" help:"List every setting with its value, default and meaning."`
	Version  versionCommand  `cmd:"" help:"Show the version."`
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// A second signal ends the process at once.
	context.AfterFunc(ctx, stop)
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "hub:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	parser, err := kong.New(&commands{},
		kong.Name("hub"),
		kong.Description("Streaming Hub: facts from Kafka to webhooks, signed and at least once."),
		kong.UsageOnError(),
		kong.Writers(out, os.Stderr),
		kong.BindTo(ctx, (*context.Context)(nil)),
		kong.BindTo(out, (*io.Writer)(nil)),
	)
	if err != nil {
		return err
	}
	if len(args) == 0 {
		args = []string{"--help"}
	}
	command, err := parser.Parse(args)
	if err != nil {
		return err
	}
	return command.Run()
}

// load reads the settings that a command shares with the planes.
func load() (settings.Settings, error) {
	return settings.Load(settings.Program{}, os.Environ())
}
