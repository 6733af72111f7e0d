package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/streaming-hub/streaming-hub/db"
	"github.com/streaming-hub/streaming-hub/dev/localpg/dockerpg"
	"github.com/streaming-hub/streaming-hub/dev/sample"
	"github.com/streaming-hub/streaming-hub/dev/stack"
	"github.com/streaming-hub/streaming-hub/hub"
)

type devCommand struct {
	Traffic bool `default:"true" negatable:"" help:"Publish about one sample fact a second."`
	Verbose bool `short:"v" help:"Show what the planes log at level info too."`

	StateDir string `default:".hub" type:"path" help:"Folder that keeps everything from run to run."`
	BinDir   string `type:"path" help:"Folder of the programs dataplane and controlplane; the one of this program by default."`

	PostgresDSN  string `help:"Use this Postgres; otherwise STREAMING_HUB_POSTGRES_DSN, else one is started."`
	KafkaBrokers string `help:"Use these brokers; otherwise STREAMING_HUB_KAFKA_BROKERS, else one is started."`

	PortBase      *int `help:"Take this port for the console and the four after it for the rest; 0 takes any free ports."`
	ConsolePort   *int `help:"Port of console and GraphQL (8080, or the next free one)."`
	DataPlanePort *int `help:"Port of the data plane (8081, or the next free one)."`
	ReceiverPort  *int `help:"Port of the receiver (8082, or the next free one)."`
	KafkaPort     *int `help:"Port of the broker (9092, or the next free one)."`
	PostgresPort  *int `help:"Port of Postgres (5442, or the next free one)."`
}

func (c *devCommand) Run(ctx context.Context, out io.Writer) error {
	s, err := load()
	if err != nil {
		return err
	}
	dsn, brokers, bin := c.PostgresDSN, c.KafkaBrokers, c.BinDir
	if dsn == "" {
		dsn = string(s.PostgresDSN.Reveal())
	}
	if brokers == "" {
		brokers = strings.Join(s.KafkaBrokers, ",")
	}
	if bin == "" {
		self, err := os.Executable()
		if err != nil {
			return fmt.Errorf("find the programs dataplane and controlplane: %w", err)
		}
		bin = filepath.Dir(self)
	}
	return stack.Run(ctx, stack.Options{
		StateDir: c.StateDir, BinDir: bin,
		PostgresDSN: dsn, KafkaBrokers: brokers,
		Ports: stack.Ports{
			Base: c.PortBase, Console: c.ConsolePort, DataPlane: c.DataPlanePort,
			Receiver: c.ReceiverPort, Kafka: c.KafkaPort, Postgres: c.PostgresPort,
		},
		Prefixes:     sample.Prefixes{Topic: s.TopicPrefix, Type: s.TypePrefix},
		HeaderPrefix: s.HeaderPrefix,
		Traffic:      c.Traffic, Verbose: c.Verbose,
		Environ: os.Environ(), Out: out,
		Docker: dockerpg.Start,
		NewToken: func(ctx context.Context, d *db.DB, tenant hub.TenantID, name string, role hub.Role) (string, error) {
			return makeToken(ctx, d, tenant, name, role, 0)
		},
	})
}
