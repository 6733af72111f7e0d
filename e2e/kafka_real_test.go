package e2e

import (
	"context"
	"errors"
	"os"
	"testing"

	"github.com/streaming-hub/streaming-hub/dev/realkafka"
)

// kafkaEnv asks for the tests against a real Apache Kafka; `make test-kafka`
// sets it.
const kafkaEnv = "STREAMING_HUB_TEST_KAFKA"

// The user that may log in.
const (
	scramUser     = "hub"
	scramPassword = "open, sesame"
)

// TestRealKafka runs the data plane against a real Apache Kafka. One broker
// serves all parts; each has topics, a consumer group and a database of its
// own, so they run beside each other.
func TestRealKafka(t *testing.T) {
	if os.Getenv(kafkaEnv) == "" {
		t.Skip("a real Kafka costs some seconds and up to 45 MiB to fetch: make test-kafka runs this")
	}
	kafka, err := realkafka.Start(t.Context(), realkafka.Options{Users: map[string]string{scramUser: scramPassword}})
	if errors.Is(err, realkafka.ErrNotToBeHad) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := kafka.Close(); err != nil {
			t.Error(err)
		}
	})
	t.Logf("%s, at %v", kafka.Origin, kafka.Brokers())
	for _, part := range []struct {
		rule string
		show func(context.Context, *testing.T, *kafkaRig)
	}{
		{"facts_of_each_codec_arrive_once", eachCodec},
		{"aborted_transactions_are_unseen", transactions},
		{"large_records_block_nothing", largeRecords},
		{"a_new_topic_is_picked_up", newTopic},
		{"a_topic_made_anew_is_read_from_its_start", topicMadeAnew},
		{"a_restart_goes_on_where_it_was", restart},
		{"a_killed_replica_is_replaced", killedReplica},
		{"committed_is_never_ahead_of_stored", commitsTrail},
		{"log_in_by_password", logIn},
	} {
		t.Run(part.rule, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
			defer cancel()
			part.show(ctx, t, newKafkaRig(ctx, t, kafka))
		})
	}
}
