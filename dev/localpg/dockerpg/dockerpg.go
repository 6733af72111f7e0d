// Package dockerpg starts Postgres in a container, for machines that have a
// container engine and no server programs. It is apart from package localpg so
// that only the programs that want this way link testcontainers.
package dockerpg

import (
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/modules/postgres"

	"github.com/streaming-hub/streaming-hub/dev/localpg"

	"github.com/streaming-hub/streaming-hub/dev/engine"
)

const (
	image       = "postgres:17-alpine"
	stopTimeout = 30 * time.Second
)

// Start is a localpg.Container. Data that is to be kept lives in a named
// volume of the engine, one per Options.Dir.
func Start(ctx context.Context, o localpg.Options) (string, func() error, error) {
	if !engine.Answers(ctx) {
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
