// Package dockerpg starts Postgres in a container, for machines that have a
// container engine and no server programs. It is apart from package localpg so
// that only the programs that want this way link testcontainers.
package dockerpg

import (
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"
	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/modules/postgres"

	"github.com/streaming-hub/streaming-hub/dev/localpg"
)

const (
	image = "postgres:17-alpine"
	// engineTimeout bounds the question whether an engine is there: a client
	// without an engine is common and must not cost the start of each run.
	engineTimeout = time.Second
	stopTimeout   = 30 * time.Second
)

// Start is a localpg.Container. Data that is to be kept lives in a named
// volume of the engine, one per Options.Dir.
func Start(ctx context.Context, o localpg.Options) (string, func() error, error) {
	if !engineAnswers(ctx) {
		return "", nil, localpg.ErrNoEngine
	}
	args := []string{"postgres"}
	set := map[string]string{"max_connections": "300", "autovacuum_naptime": "5s", "timezone": "UTC", "max_wal_size": "2GB"}
	if o.Unsafe {
		maps.Copy(set, map[string]string{"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"})
	}
	maps.Copy(set, o.Settings)
	for _, name := range slices.Sorted(maps.Keys(set)) {
		args = append(args, "-c", name+"="+set[name])
	}
	c, err := postgres.Run(ctx, image,
		postgres.WithDatabase("hub"), postgres.WithUsername("hub"), postgres.WithPassword("hub"),
		postgres.BasicWaitStrategies(),
		testcontainers.WithCmd(args...),
		testcontainers.WithHostConfigModifier(func(host *container.HostConfig) {
			if o.Dir != "" {
				host.Binds = append(host.Binds, volume(o.Dir)+":/var/lib/postgresql/data")
			}
		}))
	if err != nil {
		return "", nil, err
	}
	stop := func() error {
		ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
		defer cancel()
		return c.Terminate(ctx)
	}
	dsn, err := c.ConnectionString(ctx, "sslmode=disable")
	if err != nil {
		return "", nil, fmt.Errorf("%w (and stopping it: %v)", err, stop())
	}
	return dsn, stop, nil
}

// volume names the engine's volume for a data folder.
func volume(dir string) string {
	if abs, err := filepath.Abs(dir); err == nil {
		dir = abs
	}
	return fmt.Sprintf("streaming-hub-%x", sha256.Sum256([]byte(dir)))[:26]
}

// engineAnswers pings the engine named by the environment, else the usual
// sockets.
func engineAnswers(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, engineTimeout)
	defer cancel()
	hosts := []string{"unix:///var/run/docker.sock"}
	if home, err := os.UserHomeDir(); err == nil {
		hosts = append(hosts, "unix://"+filepath.Join(home, ".docker/run/docker.sock"))
	}
	if h := os.Getenv("DOCKER_HOST"); h != "" {
		hosts = []string{h}
	}
	for _, host := range hosts {
		if pings(ctx, host) {
			return true
		}
	}
	return false
}

func pings(ctx context.Context, host string) bool {
	c, err := client.New(client.WithHost(host))
	if err != nil {
		return false
	}
	defer c.Close()
	_, err = c.Ping(ctx, client.PingOptions{})
	return err == nil
}
