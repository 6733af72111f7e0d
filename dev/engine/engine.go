// Package engine says whether a container engine is there to start servers in.
package engine

import (
	"context"
	"os"
	"path/filepath"
	"time"

	"github.com/moby/moby/client"
)

// patience bounds the question: a client without an engine is common and must
// not cost the start of each run.
const patience = time.Second

// Answers pings the engine named by the environment, else the usual sockets.
func Answers(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, patience)
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
