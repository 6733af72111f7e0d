package broker_test

import (
	"errors"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/streaming-hub/streaming-hub/dev/broker"
)

const topic = "lerian.streaming.lender"

func start(t *testing.T, o broker.Options) *broker.Broker {
	t.Helper()
	b, err := broker.Start(o)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func client(t *testing.T, b *broker.Broker, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	c, err := kgo.NewClient(append(opts, kgo.SeedBrokers(b.Addrs()...))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func TestBroker(t *testing.T) {
	t.Run("records_and_group_offsets_survive_a_restart", func(t *testing.T) {
		o := broker.Options{Dir: t.TempDir(), Topics: []string{topic}, Partitions: 1}
		first := start(t, o)
		ctx := t.Context()
		for _, v := range []string{"a", "b"} {
			if err := client(t, first).ProduceSync(ctx, &kgo.Record{Topic: topic, Value: []byte(v)}).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
		group := []kgo.Opt{kgo.ConsumerGroup("g"), kgo.ConsumeTopics(topic), kgo.DisableAutoCommit()}
		c := client(t, first, group...)
		read := c.PollRecords(ctx, 1).Records()
		if err := c.CommitRecords(ctx, read...); err != nil {
			t.Fatal(err)
		}
		c.Close()
		if err := first.Close(); err != nil {
			t.Fatal(err)
		}
		second := start(t, o)
		defer second.Close()
		c = client(t, second, group...)
		for {
			read = c.PollRecords(ctx, 1).Records()
			if len(read) > 0 {
				break
			}
		}
		if got := string(read[0].Value); got != "b" {
			t.Errorf("the group goes on at %q, want b", got)
		}
	})
	t.Run("taken_port_is_said", func(t *testing.T) {
		b := start(t, broker.Options{})
		defer b.Close()
		if _, err := broker.Start(broker.Options{Port: b.Port()}); !errors.Is(err, broker.ErrPortTaken) {
			t.Errorf("error = %v", err)
		}
	})
	t.Run("unknown_topic_is_refused_on_request", func(t *testing.T) {
		b := start(t, broker.Options{RefuseNewTopics: true})
		defer b.Close()
		c := client(t, b, kgo.UnknownTopicRetries(0), kgo.AllowAutoTopicCreation())
		if err := c.ProduceSync(t.Context(), &kgo.Record{Topic: topic, Value: []byte("x")}).FirstErr(); err == nil {
			t.Error("a produce to an unknown topic was accepted")
		}
	})
}
