// Package broker runs a Kafka-protocol broker inside the process, for
// development, tests and benchmarks: consumer groups, transactions and data on
// disk that survives a kill. The two planes never link it; they speak to it
// over TCP as to any Kafka.
package broker

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
)

// DefaultPartitions is the number of partitions of a topic made without one.
const DefaultPartitions = 4

// Options say which broker is wanted.
type Options struct {
	// Dir keeps topics, records and group offsets; they survive a restart,
	// and memory stays flat because records are read from disk. "" makes a
	// throw-away folder that Close removes.
	Dir string
	// Port on 127.0.0.1; 0 takes a free one.
	Port int
	// Topics are created when they are not there, with Partitions each.
	Topics []string
	// Partitions of a new topic; 0 means DefaultPartitions.
	Partitions int32
	// RefuseNewTopics makes a produce to an unknown topic fail, as careful
	// clusters do; otherwise the topic is created.
	RefuseNewTopics bool
}

// ErrPortTaken is returned when the wanted port is in use.
var ErrPortTaken = errors.New("port is taken")

// Broker is a running broker.
type Broker struct {
	cluster *kfake.Cluster
	remove  string // the throw-away folder
}

// Start runs a broker and returns when it accepts connections.
func Start(o Options) (*Broker, error) {
	b := &Broker{}
	dir := o.Dir
	if dir == "" {
		var err error
		if dir, err = os.MkdirTemp("", "hub-kafka-"); err != nil {
			return nil, fmt.Errorf("make a folder for the broker: %w", err)
		}
		b.remove = dir
	}
	partitions := o.Partitions
	if partitions <= 0 {
		partitions = DefaultPartitions
	}
	opts := []kfake.Opt{
		kfake.NumBrokers(1),
		kfake.ClusterID("streaming-hub-dev"),
		kfake.DataDir(dir),
		kfake.DefaultNumPartitions(int(partitions)),
		// A test restarts its consumers often; the default lower bound of 6 s
		// would make each wait for the last one's session.
		kfake.GroupMinSessionTimeout(100 * time.Millisecond),
	}
	if o.Port != 0 {
		opts = append(opts, kfake.Ports(o.Port))
	}
	if len(o.Topics) > 0 {
		opts = append(opts, kfake.SeedTopics(partitions, o.Topics...))
	}
	if !o.RefuseNewTopics {
		opts = append(opts, kfake.AllowAutoTopicCreation())
	}
	cluster, err := kfake.NewCluster(opts...)
	if err != nil {
		if b.remove != "" {
			os.RemoveAll(b.remove)
		}
		if errors.Is(err, syscall.EADDRINUSE) {
			return nil, fmt.Errorf("start the broker on 127.0.0.1:%d: %w", o.Port, ErrPortTaken)
		}
		return nil, fmt.Errorf("start the broker: %w", err)
	}
	b.cluster = cluster
	return b, nil
}

// Addrs are the broker's host:port addresses.
func (b *Broker) Addrs() []string { return b.cluster.ListenAddrs() }

// Brokers is Addrs as a comma-separated list, the form of a setting.
func (b *Broker) Brokers() string { return strings.Join(b.Addrs(), ",") }

// Port is the broker's port.
func (b *Broker) Port() int {
	addr := b.Addrs()[0]
	port, _ := strconv.Atoi(addr[strings.LastIndexByte(addr, ':')+1:]) // our own listener's
	return port
}

// Close writes what is not yet on disk and stops the broker.
func (b *Broker) Close() error {
	b.cluster.Close()
	if b.remove != "" {
		return os.RemoveAll(b.remove)
	}
	return nil
}
