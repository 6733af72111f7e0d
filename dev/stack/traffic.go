package stack

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/streaming-hub/streaming-hub/dev/sample"
)

// trickle publishes about one sample fact a second until ctx ends.
func (s *Stack) trickle(ctx context.Context) error {
	client, err := kgo.NewClient(
		kgo.SeedBrokers(strings.Split(s.state.KafkaBrokers, ",")...),
		kgo.RecordDeliveryTimeout(10*time.Second),
	)
	if err != nil {
		return fmt.Errorf("publish sample facts: %w", err)
	}
	defer client.Close()
	r := rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))
	for {
		fact := sample.Next(string(Tenant), r, time.Now())
		err := client.ProduceSync(ctx, fact.Record(s.o.Prefixes)).FirstErr()
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			s.screen.line("A sample fact could not be published: %v", err)
		}
		timer := time.NewTimer(500*time.Millisecond + rand.N(time.Second))
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-timer.C:
		}
	}
}
