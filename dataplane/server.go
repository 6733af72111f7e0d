package dataplane

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/pprof"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/streaming-hub/streaming-hub/dataplane/dispatch"
	"github.com/streaming-hub/streaming-hub/dataplane/ingest"
	"github.com/streaming-hub/streaming-hub/dataplane/pull"
	"github.com/streaming-hub/streaming-hub/dataplane/upkeep"
)

// maxOldestDue is how long a due delivery may wait for a worker before the
// process calls itself unready.
const maxOldestDue = 5 * time.Minute

// server answers the pull API, /healthz, /readyz and /metrics.
type server struct {
	config Config
	http   *http.Server
}

func newServer(c Config, r *prometheus.Registry, keeper *upkeep.Upkeep, consumer *ingest.Consumer, pool *dispatch.Pool, reads *pull.API) *server {
	mux := http.NewServeMux()
	mux.Handle("/v1/events", reads)
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(w, "ok")
	})
	if c.Profiles {
		mux.HandleFunc("GET /debug/pprof/", pprof.Index)
		mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	}
	mux.Handle("GET /metrics", promhttp.HandlerFor(r, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		oldest, err := keeper.Database()
		problems := []error{err}
		if err == nil && oldest > maxOldestDue {
			problems = append(problems, fmt.Errorf("the oldest due delivery has waited %s for a worker", oldest.Round(time.Second)))
		}
		if c.Ingest {
			problems = append(problems, consumer.Ready())
		}
		if c.Deliver {
			problems = append(problems, pool.Ready())
		}
		answerReady(w, errors.Join(problems...))
	})
	return &server{config: c, http: &http.Server{
		Handler: mux, ReadHeaderTimeout: 5 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10,
	}}
}

// answerReady says ready, or in one line each what is not.
func answerReady(w http.ResponseWriter, problem error) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	if problem == nil {
		fmt.Fprintln(w, "ready")
		return
	}
	w.WriteHeader(http.StatusServiceUnavailable)
	for line := range strings.Lines(problem.Error() + "\n") {
		fmt.Fprintf(w, "not ready: %s", line)
	}
}

func (s *server) run(ctx context.Context) error {
	failed := make(chan error, 1)
	go func() { failed <- s.http.Serve(s.config.Listener) }()
	select {
	case err := <-failed:
		return fmt.Errorf("serve the pull API, health and metrics: %w", err)
	case <-ctx.Done():
	}
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	if err := s.http.Shutdown(closing); err != nil {
		s.http.Close()
	}
	return nil
}
