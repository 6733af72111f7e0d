// The bench program measures the hub on one machine with everything on it: a
// Kafka-protocol broker, Postgres with fsync and synchronous_commit on, the
// data plane as the separate program that it is, and a receiver that verifies
// every signature. It prints a table and ends in one JSON line. A part fails,
// and with it the run, unless every event arrived, each exactly once, and
// every signature verified. After a kill some may come again: the part kills
// counts them. The parts lists and feed also run the control plane, and check
// that its lists and live feed hold everything once.
//
//	make bench                          all parts
//	make bench ARGS="--parts delivered,latency --events 100000"
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"
)

// part is one measurement; it fills its figures into the result.
type part struct {
	name string
	run  func(ctx context.Context, o options, r *result) error
}

var parts = []part{
	{"delivered", measureDelivered},
	{"latency", measureLatency},
	{"slow", measureSlow},
	{"ingest", measureIngest},
	{"claim", measureClaim},
	{"backlog", measureBacklog},
	{"quiet", measureQuiet},
	{"hanging", measureHanging},
	{"kills", measureKills},
	{"lists", measureLists},
	{"feed", measureFeed},
}

type options struct {
	parts        []string
	dataplane    string
	controlplane string
	events       int
	tenants      int
	workers      int
	partitions   int
	bodyBytes    int
	rate         int
	seconds      int
	slowWorkers  int
	slowEvents   int
	ingestEvents int
	backlog      int
	quietRate    int
	hanging      int
	kills        int
	killEvents   int
	seed         uint64

	listDeliveries, listDays, listPages int

	feedRate, subscribers, stalled, wideSubscribers, feedSeconds int
	commitTimes                                                  bool // Postgres keeps the time of each commit

	profile    string
	statements bool
	keepLogs   string
}

// result is the last line of a run; nil means that the part was not run.
type result struct {
	DeliveredPerS   *float64 `json:"delivered_per_s"`
	CPUMicros       *float64 `json:"cpu_us_per_event"`
	P50Ms           *float64 `json:"p50_ms"`
	P99Ms           *float64 `json:"p99_ms"`
	SlowPerS        *float64 `json:"slow_receiver_per_s"`
	IngestPerS      *float64 `json:"ingest_per_s"`
	ClaimRatio      *float64 `json:"claim_ratio_1m_10k"`
	RSSMiB          *float64 `json:"rss_mib"`
	QuietP99Ratio   *float64 `json:"quiet_p99_ratio"`
	rows            []row
	cpuSplit        []string
	deliveredDetail string
}

// row is one line of the table.
type row struct{ what, figure, goal, how string }

func main() {
	if len(os.Args) > 2 && os.Args[1] == "role" {
		if err := runRole(os.Args[2], os.Args[3:]); err != nil {
			fmt.Fprintln(os.Stderr, "bench:", err)
			os.Exit(1)
		}
		return
	}
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run() error {
	var o options
	names := make([]string, len(parts))
	for i, p := range parts {
		names[i] = p.name
	}
	chosen := flag.String("parts", strings.Join(names, ","), "parts to run, of: "+strings.Join(names, ", "))
	flag.StringVar(&o.dataplane, "dataplane", "bin/dataplane", "the program to measure")
	flag.StringVar(&o.controlplane, "controlplane", "bin/controlplane", "the control plane of the parts lists and feed")
	flag.IntVar(&o.events, "events", 200_000, "events of the part delivered")
	flag.IntVar(&o.tenants, "tenants", 100, "tenants, each with one subscription and one destination")
	flag.IntVar(&o.workers, "workers", 64, "dispatch workers of the parts delivered and latency")
	flag.IntVar(&o.partitions, "partitions", 8, "partitions of the topic")
	flag.IntVar(&o.bodyBytes, "body", 1024, "bytes of an event's body")
	flag.IntVar(&o.rate, "rate", 1000, "events per second of the part latency")
	flag.IntVar(&o.seconds, "seconds", 20, "seconds of the part latency")
	flag.IntVar(&o.slowWorkers, "slow-workers", 512, "dispatch workers of the part slow")
	flag.IntVar(&o.slowEvents, "slow-events", 60_000, "events of the part slow")
	flag.IntVar(&o.ingestEvents, "ingest-events", 400_000, "events of the part ingest")
	flag.IntVar(&o.backlog, "backlog-events", 1_000_000, "events of the part backlog")
	flag.IntVar(&o.quietRate, "quiet-rate", 50, "events per second of the quiet tenant in the part quiet")
	flag.IntVar(&o.hanging, "hanging", 50, "destinations that never answer in the part hanging")
	flag.IntVar(&o.kills, "kills", 100, "kills of the part kills, at least 1")
	flag.IntVar(&o.killEvents, "kill-events", 100_000, "events of the part kills, at least as many as kills")
	flag.Uint64Var(&o.seed, "seed", 0, "seed of the moments in the part kills; 0 draws one")
	flag.IntVar(&o.listDeliveries, "list-deliveries", 1_000_000, "deliveries stored in the part lists")
	flag.IntVar(&o.listDays, "list-days", 30, "days over which they are spread, each a partition")
	flag.IntVar(&o.listPages, "list-pages", 200, "pages of each list")
	flag.IntVar(&o.feedRate, "feed-rate", 1000, "events per second of the part feed")
	flag.IntVar(&o.subscribers, "subscribers", 200, "subscribers of the part feed")
	flag.IntVar(&o.stalled, "stalled", 50, "of these, how many read nothing; they follow all tenants")
	flag.IntVar(&o.wideSubscribers, "wide", 5, "of those who read, how many follow all tenants; the others follow one each")
	flag.IntVar(&o.feedSeconds, "feed-seconds", 90, "seconds of the part feed, more than 60")
	flag.StringVar(&o.profile, "profile", "", "file for a CPU profile of the data plane in the parts delivered and ingest")
	flag.BoolVar(&o.statements, "statements", false, "print what Postgres spent its time on in the parts delivered and ingest")
	flag.StringVar(&o.keepLogs, "logs", "", "file for the data plane's log; default none")
	flag.Parse()
	o.parts = strings.Split(*chosen, ",")
	for _, p := range o.parts {
		if !slices.Contains(names, p) {
			return fmt.Errorf("there is no part %q; the parts are %s", p, strings.Join(names, ", "))
		}
	}
	if _, err := os.Stat(o.dataplane); err != nil {
		return errors.New("bin/dataplane is not built: run make build, or make bench which does it")
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var r result
	var failed error
	for _, p := range parts {
		if !slices.Contains(o.parts, p.name) {
			continue
		}
		fmt.Fprintf(os.Stderr, "== %s\n", p.name)
		begun := time.Now()
		if err := p.run(ctx, o, &r); err != nil {
			failed = errors.Join(failed, fmt.Errorf("part %s: %w", p.name, err))
			fmt.Fprintf(os.Stderr, "   failed: %v\n", err)
		}
		fmt.Fprintf(os.Stderr, "   %s\n", time.Since(begun).Round(time.Second))
	}
	r.print()
	if failed != nil {
		return failed
	}
	line, err := json.Marshal(r)
	if err != nil {
		return err
	}
	fmt.Println(string(line))
	return nil
}

func (r *result) print() {
	fmt.Printf("\n%-34s %14s %14s   %s\n", "what", "measured", "goal", "how")
	for _, w := range r.rows {
		fmt.Printf("%-34s %14s %14s   %s\n", w.what, w.figure, w.goal, w.how)
	}
	for _, line := range r.cpuSplit {
		fmt.Println(line)
	}
	fmt.Println()
}
