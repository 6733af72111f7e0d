package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	mathrand "math/rand/v2"
	"os"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/time/rate"

	"github.com/streaming-hub/streaming-hub/cmd/internal/kafkaopt"
	"github.com/streaming-hub/streaming-hub/cmd/internal/settings"
	"github.com/streaming-hub/streaming-hub/dev/sample"
	"github.com/streaming-hub/streaming-hub/hub"
)

type produceCommand struct {
	Brokers string  `help:"Brokers; otherwise STREAMING_HUB_KAFKA_BROKERS, else those of the running hub dev."`
	N       int     `short:"n" default:"1" help:"How many facts."`
	Rate    float64 `help:"Facts per second; 0 is as fast as it goes."`
	Quiet   bool    `short:"q" help:"Show no line for each fact."`

	Event string `placeholder:"RESOURCE.EVENT" help:"Event type key, short for --resource-type and --event-type. Without it and them, facts are drawn from samples."`
	Data  string `help:"Body; - reads it from standard input, @FILE from a file. A sample body when absent."`

	ID            string            `help:"ce-id; a new one for each fact when absent."`
	Source        string            `help:"ce-source, the publishing application (lender)."`
	Tenant        string            `default:"acme" help:"ce-tenantid; empty leaves it out."`
	ResourceType  string            `help:"ce-resourcetype."`
	EventType     string            `help:"ce-eventtype."`
	SchemaVersion string            `default:"1.0.0" help:"ce-schemaversion."`
	Time          time.Time         `format:"2006-01-02T15:04:05Z07:00" help:"ce-time, RFC 3339; now when absent."`
	Subject       string            `help:"ce-subject."`
	ContentType   string            `default:"application/json" help:"ce-datacontenttype; empty leaves it out."`
	DataSchema    string            `help:"ce-dataschema."`
	System        bool              `help:"ce-systemevent: true; the hub skips such facts."`
	Extension     map[string]string `placeholder:"NAME=VALUE" help:"Further attribute, sent as ce-NAME; may be repeated."`
	Type          string            `help:"ce-type; derived from source, resource and event when absent."`
	Topic         string            `help:"Topic; derived from the source when absent."`
}

func (c *produceCommand) Run(ctx context.Context, out io.Writer) error {
	s, err := load()
	if err != nil {
		return err
	}
	if err := c.findBrokers(&s); err != nil {
		return err
	}
	next, err := c.facts()
	if err != nil {
		return err
	}
	client, err := kgo.NewClient(append(kafkaopt.Options(s), kgo.RecordDeliveryTimeout(15*time.Second))...)
	if err != nil {
		return fmt.Errorf("reach Kafka at %s: %w", strings.Join(s.KafkaBrokers, ","), err)
	}
	defer client.Close()

	// Without a rate the client's own buffer of 10 000 records is the limit.
	limit := rate.NewLimiter(rate.Inf, 1)
	if c.Rate > 0 {
		limit.SetLimit(rate.Limit(c.Rate))
	}
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	prefixes := sample.Prefixes{Topic: s.TopicPrefix, Type: s.TypePrefix}
	lines := bufio.NewWriter(out)
	for n := 0; n < c.N; n++ {
		if limit.Wait(ctx) != nil {
			break // the cause is read below
		}
		fact := next(time.Now())
		client.Produce(ctx, fact.Record(prefixes), func(r *kgo.Record, err error) {
			if err != nil {
				fail(fmt.Errorf("publish to %s: %w", r.Topic, err))
				return
			}
			if !c.Quiet {
				fmt.Fprintf(lines, "%s/%d@%d  %s  %s.%s\n", r.Topic, r.Partition, r.Offset, fact.ID, fact.ResourceType, fact.EventType)
				if c.Rate > 0 || c.N == 1 {
					lines.Flush()
				}
			}
		})
	}
	err = client.Flush(ctx)
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return errors.Join(err, lines.Flush())
}

// findBrokers puts the brokers to use into the settings.
func (c *produceCommand) findBrokers(s *settings.Settings) error {
	if c.Brokers != "" {
		s.KafkaBrokers = strings.Split(c.Brokers, ",")
	}
	if len(s.KafkaBrokers) > 0 {
		return nil
	}
	if text, err := os.ReadFile(".hub/dev.json"); err == nil {
		var dev struct {
			KafkaBrokers string `json:"kafkaBrokers"`
		}
		if json.Unmarshal(text, &dev) == nil && dev.KafkaBrokers != "" {
			s.KafkaBrokers = strings.Split(dev.KafkaBrokers, ",")
			return nil
		}
	}
	return errors.New("which Kafka? Give --brokers, set STREAMING_HUB_KAFKA_BROKERS, or start hub dev here")
}

// facts is a source of facts as the flags want them.
func (c *produceCommand) facts() (func(now time.Time) sample.Fact, error) {
	if c.Event != "" {
		var ok bool
		if c.ResourceType, c.EventType, ok = strings.Cut(c.Event, "."); !ok {
			return nil, fmt.Errorf("--event %q is not of the form RESOURCE.EVENT", c.Event)
		}
	}
	body, err := c.body()
	if err != nil {
		return nil, err
	}
	chosen := c.ResourceType != "" || c.EventType != "" || c.Source != ""
	random := mathrand.New(mathrand.NewPCG(mathrand.Uint64(), mathrand.Uint64()))
	return func(now time.Time) sample.Fact {
		f := sample.Next(c.Tenant, random, now)
		f.ID = hub.NewID(now, rand.Reader).String()
		if chosen {
			f.Source, f.ResourceType, f.EventType = or(c.Source, "lender"), or(c.ResourceType, "loan_application"), or(c.EventType, "approved")
			f.Body = []byte(fmt.Sprintf(`{"%sId":%q}`, f.ResourceType, f.Subject))
		}
		if body != nil {
			f.Body = body
		}
		f.ID, f.Subject = or(c.ID, f.ID), or(c.Subject, f.Subject)
		f.SchemaVersion, f.ContentType, f.DataSchema = c.SchemaVersion, c.ContentType, c.DataSchema
		f.System, f.Extensions, f.Type, f.Topic = c.System, c.Extension, c.Type, c.Topic
		if !c.Time.IsZero() {
			f.Time = c.Time
		}
		return f
	}, nil
}

// body is nil when a sample's is wanted.
func (c *produceCommand) body() ([]byte, error) {
	file, fromFile := strings.CutPrefix(c.Data, "@")
	switch {
	case c.Data == "":
		return nil, nil
	case c.Data == "-":
		var b bytes.Buffer
		if _, err := b.ReadFrom(os.Stdin); err != nil {
			return nil, fmt.Errorf("read the body: %w", err)
		}
		return b.Bytes(), nil
	case fromFile:
		b, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("read the body: %w", err)
		}
		return b, nil
	}
	return []byte(c.Data), nil
}

func or(v, otherwise string) string {
	if v == "" {
		return otherwise
	}
	return v
}
