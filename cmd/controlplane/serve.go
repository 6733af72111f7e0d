package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/streaming-hub/streaming-hub/graph"
)

// serve answers until the context ends, and then lets what is running finish:
// live connections are closed, WebSockets with 1001, so that clients come back
// to another process at once.
func serve(ctx context.Context, l net.Listener, h http.Handler, api *graph.Server, patience time.Duration) error {
	server := &http.Server{
		Handler: h, ReadHeaderTimeout: 5 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10,
		ConnContext: graph.ConnContext,
		// No write timeout: streams last. Each write to one has its own.
	}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(l) }()
	select {
	case err := <-failed:
		return fmt.Errorf("serve the API: %w", err)
	case <-ctx.Done():
	}
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	api.Close(closing)
	if err := server.Shutdown(closing); err != nil {
		return errors.Join(fmt.Errorf("requests were cut off after %s: %w", patience, err), server.Close())
	}
	return nil
}
