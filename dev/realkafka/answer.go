package realkafka

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// askEvery is how often a starting broker is asked whether it is there.
const askEvery = 100 * time.Millisecond

// awaitAnswer waits until the cluster names a controller. A closed ended says
// that waiting is of no use any more.
func (k *Kafka) awaitAnswer(ctx context.Context, ended <-chan struct{}) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(k.Brokers()...))
	if err != nil {
		return fmt.Errorf("set up a client: %w", err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	tick := time.NewTicker(askEvery)
	defer tick.Stop()
	admin := kadm.NewClient(client)
	for {
		asking, stop := context.WithTimeout(ctx, time.Second)
		meta, err := admin.BrokerMetadata(asking)
		stop()
		if err == nil && meta.Controller >= 0 && len(meta.Brokers) > 0 {
			return nil
		}
		select {
		case <-tick.C:
		case <-ended:
			return errors.New("it ended at once")
		case <-ctx.Done():
			return fmt.Errorf("no broker answers: %w", errors.Join(ctx.Err(), err))
		}
	}
}

// scramIterations is the least that Kafka takes: tests log in often.
const scramIterations = 4096

// addUsers lets each user log in by either mechanism, and returns when the
// broker knows them.
func (k *Kafka) addUsers(ctx context.Context, users map[string]string) error {
	if len(users) == 0 {
		return nil
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(k.Brokers()...))
	if err != nil {
		return fmt.Errorf("set up a client: %w", err)
	}
	defer client.Close()
	admin := kadm.NewClient(client)
	var names []string
	for name := range users {
		names = append(names, name)
	}
	// A request may name a user once.
	for _, mechanism := range []kadm.ScramMechanism{kadm.ScramSha256, kadm.ScramSha512} {
		var upserts []kadm.UpsertSCRAM
		for name, password := range users {
			upserts = append(upserts, kadm.UpsertSCRAM{User: name, Mechanism: mechanism, Iterations: scramIterations, Password: password})
		}
		altered, err := admin.AlterUserSCRAMs(ctx, nil, upserts)
		if err == nil {
			err = altered.Error()
		}
		if err != nil {
			return fmt.Errorf("add users: %w", err)
		}
	}
	tick := time.NewTicker(askEvery)
	defer tick.Stop()
	for {
		known, err := admin.DescribeUserSCRAMs(ctx, names...)
		if err == nil && len(known) == len(names) && known.Error() == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("add users: %w", errors.Join(ctx.Err(), err))
		}
	}
}
