package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"net"
	"net/http"
	"os"
	"os/signal"
	"sort"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/streaming-hub/streaming-hub/dev/broker"
	"github.com/streaming-hub/streaming-hub/dev/receiver"
	"github.com/streaming-hub/streaming-hub/hub"
)

// runRole is the bench program as one of its own child processes, so that the
// CPU of each is counted apart.
func runRole(name string, args []string) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	switch name {
	case "broker":
		return roleBroker(ctx, args)
	case "receiver":
		return roleReceiver(ctx, args)
	}
	return fmt.Errorf("there is no role %q", name)
}

func roleBroker(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("broker", flag.ContinueOnError)
	dir := flags.String("dir", "", "data")
	topic := flags.String("topic", "", "topic to make")
	partitions := flags.Int("partitions", 8, "its partitions")
	if err := flags.Parse(args); err != nil {
		return err
	}
	b, err := broker.Start(broker.Options{Dir: *dir, Topics: []string{*topic}, Partitions: int32(*partitions)})
	if err != nil {
		return err
	}
	fmt.Println(b.Addrs()[0])
	<-ctx.Done()
	return b.Close()
}

// latencies are measured from the ce-time that the producer wrote to the
// arrival at the receiver, on one machine's clock.
type latencies struct {
	mu sync.Mutex
	ms []float64
}

func (l *latencies) add(o receiver.Observation) {
	sent, err := time.Parse(time.RFC3339Nano, o.Header.Get("ce-time"))
	if err != nil {
		return
	}
	ms := float64(o.At.Sub(sent).Microseconds()) / 1000
	l.mu.Lock()
	l.ms = append(l.ms, ms)
	l.mu.Unlock()
}

// quantile of a sorted list; 0 of an empty one.
func quantile(sorted []float64, q float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[int(math.Ceil(q*float64(len(sorted))))-1]
}

// destination is the number at the end of a destination's path; large for what
// is none.
func destination(path string) int {
	n, err := strconv.Atoi(strings.TrimPrefix(path, "/hooks/"))
	if err != nil {
		return math.MaxInt
	}
	return n
}

// identities are the ids of the events whose requests verified.
type identities struct {
	mu   sync.Mutex
	seen map[string]struct{}
}

func (i *identities) add(o receiver.Observation) {
	if !o.Verified {
		return
	}
	id := o.Header.Get("ce-tenantid") + " " + o.Header.Get("ce-id")
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.seen == nil {
		i.seen = map[string]struct{}{}
	}
	i.seen[id] = struct{}{}
}

func (i *identities) count() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return len(i.seen)
}

// serveTimes says how often each of a list of deliveries came.
func serveTimes(w http.ResponseWriter, req *http.Request, r *receiver.Receiver) {
	var ids []hub.ID
	if err := json.NewDecoder(req.Body).Decode(&ids); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	times := make([]int, len(ids))
	for i, id := range ids {
		times[i] = r.Times(id)
	}
	_ = json.NewEncoder(w).Encode(times)
}

func roleReceiver(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("receiver", flag.ContinueOnError)
	delay := flags.Duration("delay", 0, "before each answer")
	delayed := flags.Int("delayed", math.MaxInt, "destinations below this number take the delay")
	timed := flags.Bool("timed", false, "measure latency")
	timedFrom := flags.Int("timed-from", 0, "measure it for the destinations from this number on")
	identify := flags.Bool("identities", false, "remember which events came verified")
	hang := flags.Int("hang", 0, "destinations below this number never answer")
	if err := flags.Parse(args); err != nil {
		return err
	}
	var l latencies
	var events identities
	o := receiver.Options{CountOnly: true}
	if *identify {
		o.Observe = events.add
	}
	if *timed {
		o.Observe = func(seen receiver.Observation) {
			if destination(seen.Path) >= *timedFrom {
				l.add(seen)
			}
		}
	}
	r, err := receiver.New(o)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(listener.Addr().String())
	handler := http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		switch req.URL.Path {
		case "/latency":
			l.mu.Lock()
			sorted := append([]float64(nil), l.ms...)
			if req.Method == http.MethodDelete {
				l.ms = nil
			}
			l.mu.Unlock()
			sort.Float64s(sorted)
			_ = json.NewEncoder(w).Encode(map[string]float64{
				"n": float64(len(sorted)), "p50": quantile(sorted, .5), "p99": quantile(sorted, .99),
				"max": quantile(sorted, 1),
			})
			return
		case "/times":
			serveTimes(w, req, r)
			return
		case "/events":
			_ = json.NewEncoder(w).Encode(map[string]int{"verified": events.count()})
			return
		case "/counts", "/secrets", "/requests":
		default:
			if destination(req.URL.Path) < *hang {
				<-req.Context().Done()
				return
			}
			if *delay > 0 && destination(req.URL.Path) < *delayed {
				select {
				case <-time.After(*delay):
				case <-req.Context().Done():
				}
			}
		}
		r.ServeHTTP(w, req)
	})
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	context.AfterFunc(ctx, func() { server.Close() })
	if err := server.Serve(listener); err != http.ErrServerClosed {
		return fmt.Errorf("serve on %s: %w", strconv.Quote(listener.Addr().String()), err)
	}
	return nil
}
