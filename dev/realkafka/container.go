package realkafka

import (
	"context"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/network"
	"github.com/testcontainers/testcontainers-go"

	"github.com/streaming-hub/streaming-hub/dev/engine"
)

const (
	image = "apache/kafka:" + Version
	// containerTimeout covers the load of the image.
	containerTimeout = 2 * time.Minute
)

// startContainer runs Kafka in a container engine. It has the plain listener
// only, on a port of this machine that is the same inside and outside, since
// a broker tells its clients where to find it.
func startContainer(ctx context.Context, o Options) (*Kafka, error) {
	if !engine.Answers(ctx) {
		return nil, missing("no container engine answers")
	}
	ctx, cancel := context.WithTimeout(ctx, containerTimeout)
	defer cancel()
	p, err := freePorts()
	if err != nil {
		return nil, err
	}
	port, err := network.ParsePort(strconv.Itoa(p.plain) + "/tcp")
	if err != nil {
		return nil, fmt.Errorf("name the port of the Kafka container: %w", err)
	}
	c, err := testcontainers.Run(ctx, image,
		testcontainers.WithEnv(containerEnv(p, o)),
		testcontainers.WithExposedPorts(port.String()),
		testcontainers.WithHostConfigModifier(func(host *container.HostConfig) {
			host.PortBindings = network.PortMap{port: {{HostIP: netip.MustParseAddr("127.0.0.1"), HostPort: strconv.Itoa(p.plain)}}}
		}))
	if err != nil {
		return nil, missingf("the container %s does not start (%v)", image, err)
	}
	k := &Kafka{Origin: "Kafka from the image " + image, plain: fmt.Sprintf("127.0.0.1:%d", p.plain)}
	k.stop = func() error {
		ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
		defer cancel()
		return c.Terminate(ctx)
	}
	if err := k.awaitAnswer(ctx, nil); err != nil {
		return nil, fmt.Errorf("start Kafka in a container: %w (stopping it: %v)", err, k.Close())
	}
	return k, nil
}

// containerEnv are the settings in the image's spelling: KAFKA_ and the name
// in capitals, with underscores for dots.
func containerEnv(p ports, o Options) map[string]string {
	set := properties("/tmp", p, o)
	for name := range set {
		if strings.HasPrefix(name, "ssl.") || strings.HasPrefix(name, "sasl.") || strings.HasPrefix(name, "listener.name.") {
			delete(set, name)
		}
	}
	plain := fmt.Sprintf("PLAINTEXT://127.0.0.1:%d", p.plain)
	set["listeners"] = fmt.Sprintf("PLAINTEXT://0.0.0.0:%d,CONTROLLER://127.0.0.1:%d", p.plain, p.controller)
	set["advertised.listeners"] = plain
	set["listener.security.protocol.map"] = "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT"
	set["controller.quorum.voters"] = fmt.Sprintf("1@127.0.0.1:%d", p.controller)
	delete(set, "controller.quorum.bootstrap.servers")
	env := make(map[string]string, len(set))
	for name, value := range set {
		env["KAFKA_"+strings.ToUpper(strings.ReplaceAll(name, ".", "_"))] = value
	}
	return env
}
