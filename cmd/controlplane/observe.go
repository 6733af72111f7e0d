package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/streaming-hub/streaming-hub/controlplane"
	"github.com/streaming-hub/streaming-hub/db"
	"github.com/streaming-hub/streaming-hub/graph"
	"github.com/streaming-hub/streaming-hub/hub/secret"
	"github.com/streaming-hub/streaming-hub/tracing"
)

const (
	// readyPatience bounds one look at the database.
	readyPatience = 2 * time.Second
	// feedSilence is how long the live feed may go without a successful read.
	feedSilence = 10 * time.Second
	// feedHeld is how long a transaction may hold up the feed unmentioned.
	feedHeld = 5 * time.Second
)

// readiness says in words whether this process can do its work.
type readiness struct {
	database *db.DB
	feed     *controlplane.Feed
	hold     *controlplane.FeedHold
	keys     *secret.Keyring
	now      func() time.Time
}

func (h readiness) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	problem := h.check(r.Context())
	if problem != nil {
		w.WriteHeader(http.StatusServiceUnavailable)
		for line := range strings.Lines(problem.Error() + "\n") {
			fmt.Fprintf(w, "not ready: %s", line)
		}
		return
	}
	fmt.Fprintln(w, "ready")
	// Taking this process out of service would not end that transaction.
	if held := h.hold.Held(); held > feedHeld {
		fmt.Fprintf(w, "but a transaction that does not end has held the live feed for %s: look for it in pg_stat_activity\n", held.Round(time.Second))
	}
	if h.keys.Empty() {
		fmt.Fprintln(w, "but no key-encryption key is set (STREAMING_HUB_KEK_KEYS): webhook subscriptions can be neither made nor verified")
	}
}

func (h readiness) check(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyPatience)
	defer cancel()
	var problems []error
	if h.database.Ping(ctx) != nil {
		// The reason names hosts and users, and anybody may ask here.
		problems = append(problems, errors.New("Postgres does not answer"))
	} else {
		problems = append(problems, h.database.SchemaReady(ctx))
	}
	if silent := h.feed.Alive(h.now()); silent > feedSilence {
		problems = append(problems, fmt.Errorf("the live feed has not been read for more than %s", feedSilence))
	}
	return errors.Join(problems...)
}

// metrics serves the numbers of this process. None of them reads a table, and
// none carries a tenant, a URL or an id.
func metrics(api *graph.Server, feed *controlplane.Feed, hold *controlplane.FeedHold, tracer *tracing.Tracer) http.Handler {
	r := prometheus.NewRegistry()
	tracer.Register(r)
	r.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "streaming_hub_live_connections", Help: "Open WebSockets and event streams.",
		}, func() float64 { return float64(api.LiveConnections()) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "streaming_hub_live_followers", Help: "Operations that follow the live feed.",
		}, func() float64 { return float64(feed.Followers()) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "streaming_hub_live_feed_silence_seconds", Help: "Time since the live feed was last read with success.",
		}, func() float64 { return feed.Alive(time.Now()).Seconds() }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "streaming_hub_live_feed_held_seconds", Help: "How long one unfinished transaction, of whomever, has held up the live feed.",
		}, func() float64 { return hold.Held().Seconds() }),
	)
	return promhttp.HandlerFor(r, promhttp.HandlerOpts{})
}
