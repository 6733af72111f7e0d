package stack

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sync/errgroup"

	"github.com/streaming-hub/streaming-hub/dev/broker"
	"github.com/streaming-hub/streaming-hub/dev/localpg"
	"github.com/streaming-hub/streaming-hub/dev/receiver"
	"github.com/streaming-hub/streaming-hub/dev/sample"
)

func (s *Stack) startPostgres(ctx context.Context) (stop func() error, err error) {
	server, err := localpg.Start(ctx, localpg.Options{
		DSN:    s.o.PostgresDSN,
		Dir:    filepath.Join(s.o.StateDir, "postgres"),
		Port:   s.ports.postgres,
		Docker: s.o.Docker,
	})
	if err != nil {
		return nil, err
	}
	s.state.PostgresDSN = server.DSN()
	s.screen.line("Postgres: %s", server.Origin)
	return server.Close, nil
}

func (s *Stack) startKafka(ctx context.Context) (stop func() error, err error) {
	if s.o.KafkaBrokers != "" {
		s.state.KafkaBrokers = s.o.KafkaBrokers
		s.screen.line("Kafka: the brokers given, %s", s.o.KafkaBrokers)
		return func() error { return nil }, s.createTopics(ctx)
	}
	b, err := broker.Start(broker.Options{
		Dir: filepath.Join(s.o.StateDir, "kafka"), Port: s.ports.kafka, Topics: s.topics(),
	})
	if err != nil {
		return nil, err
	}
	s.state.KafkaBrokers = b.Brokers()
	s.screen.line("Kafka: a development broker inside this process")
	return b.Close, nil
}

// topics of the sample applications, with those for their dead letters.
func (s *Stack) topics() []string {
	var list []string
	for _, source := range sample.Sources {
		topic := s.o.Prefixes.Topic + "." + source
		list = append(list, topic, topic+".dlq")
	}
	return list
}

// createTopics makes the sample topics on brokers that are not ours.
func (s *Stack) createTopics(ctx context.Context) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(strings.Split(s.o.KafkaBrokers, ",")...))
	if err != nil {
		return fmt.Errorf("reach Kafka at %s: %w", s.o.KafkaBrokers, err)
	}
	defer client.Close()
	made, err := kadm.NewClient(client).CreateTopics(ctx, broker.DefaultPartitions, -1, nil, s.topics()...)
	if err != nil {
		return fmt.Errorf("create the sample topics on %s: %w", s.o.KafkaBrokers, err)
	}
	for _, t := range made {
		if t.Err != nil && !errors.Is(t.Err, kerr.TopicAlreadyExists) {
			return fmt.Errorf("create topic %s on %s: %w", t.Topic, s.o.KafkaBrokers, t.Err)
		}
	}
	return nil
}

func (s *Stack) startReceiver(ctx context.Context, group *errgroup.Group) error {
	secrets := map[string]string{}
	if err := readJSON(filepath.Join(s.o.StateDir, secretsFile), &secrets); err != nil {
		return err
	}
	byPath := map[string][]string{}
	for path, secret := range secrets {
		byPath[path] = []string{secret}
	}
	r, err := receiver.New(receiver.Options{Secrets: byPath, HeaderPrefix: s.o.HeaderPrefix, Observe: s.screen.attempt})
	if err != nil {
		return fmt.Errorf("read %s (remove it to begin anew): %w", secretsFile, err)
	}
	l, err := net.Listen("tcp", local(s.ports.receiver))
	if err != nil {
		return fmt.Errorf("start the receiver: %w", err)
	}
	s.receiver = r
	s.state.ReceiverURL = "http://" + l.Addr().String()
	group.Go(func() error { return r.Serve(ctx, l) })
	return nil
}

// keepSecret remembers a signing secret, which the API shows only once.
func (s *Stack) keepSecret(path, secret string) error {
	file := filepath.Join(s.o.StateDir, secretsFile)
	secrets := map[string]string{}
	if err := readJSON(file, &secrets); err != nil {
		return err
	}
	secrets[path] = secret
	if err := writeJSON(file, secrets); err != nil {
		return err
	}
	return s.receiver.AddSecret(path, secret)
}
