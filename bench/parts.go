package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/streaming-hub/streaming-hub/dev/sample"
)

// measureDelivered: a backlog of events waits in Kafka; how fast is it
// ingested, matched and delivered?
func measureDelivered(ctx context.Context, o options, r *result) error {
	rig, err := newRig(ctx, o)
	if err != nil {
		return err
	}
	defer rig.close()
	if err := rig.produce(ctx, o.events, 0); err != nil {
		return err
	}
	if err := rig.startPlane(ctx, "all", o.workers); err != nil {
		return err
	}
	// The clock starts with the first arrival after the warm-up and stops when
	// the last one is there.
	var c counts
	warm := o.events / 10
	if err := rig.arrived(ctx, warm, &c); err != nil {
		return err
	}
	look, err := rig.inspect(ctx)
	if err != nil {
		return err
	}
	meter, begun, from := startMeter(rig.pids()), time.Now(), c.Distinct
	if err := rig.arrived(ctx, o.events, &c); err != nil {
		return err
	}
	took, spent := time.Since(begun), meter.spent()
	if err := look(); err != nil {
		return err
	}
	if err := rig.check(ctx, o.events); err != nil {
		return err
	}
	n := c.Distinct - from
	perSecond := float64(n) / took.Seconds()
	micros, split := perEvent(spent, n)
	r.DeliveredPerS, r.CPUMicros = &perSecond, &micros
	how := fmt.Sprintf("%d events of %d B, %d tenants, %d workers, %d partitions", o.events, o.bodyBytes, o.tenants, o.workers, o.partitions)
	r.rows = append(r.rows,
		row{"delivered events/s", fmt.Sprintf("%.0f", perSecond), "≥ 12 000", how},
		row{"CPU µs per delivered event", fmt.Sprintf("%.1f", micros), "≤ 120", "all processes without the receiver"})
	r.cpuSplit = append(r.cpuSplit, "CPU µs per event by process: "+split)
	return nil
}

// measureLatency: a steady rate; how long from produce to receive?
func measureLatency(ctx context.Context, o options, r *result) error {
	rig, err := newRig(ctx, o, "--timed")
	if err != nil {
		return err
	}
	defer rig.close()
	if err := rig.startPlane(ctx, "all", o.workers); err != nil {
		return err
	}
	// A short warm-up: connections, plans and caches.
	warm := o.rate
	if err := rig.produce(ctx, warm, o.rate); err != nil {
		return err
	}
	var c counts
	if err := rig.arrived(ctx, warm, &c); err != nil {
		return err
	}
	meter := startMeter(rig.pids())
	n := o.rate * o.seconds
	if err := rig.produce(ctx, n, o.rate); err != nil {
		return err
	}
	if err := rig.arrived(ctx, warm+n, &c); err != nil {
		return err
	}
	spent := meter.spent()
	if err := rig.check(ctx, warm+n); err != nil {
		return err
	}
	var l struct{ N, P50, P99, Max float64 }
	if err := rig.get("/latency", &l); err != nil {
		return err
	}
	r.P50Ms, r.P99Ms = &l.P50, &l.P99
	micros, split := perEvent(spent, n)
	how := fmt.Sprintf("%d/s for %d s, %d workers; worst %.0f ms", o.rate, o.seconds, o.workers, l.Max)
	r.rows = append(r.rows,
		row{"produce → received, p50 ms", fmt.Sprintf("%.1f", l.P50), "≤ 15", how},
		row{"produce → received, p99 ms", fmt.Sprintf("%.1f", l.P99), "≤ 60", how})
	r.cpuSplit = append(r.cpuSplit, fmt.Sprintf("CPU µs per event at %d/s: %.0f (%s)", o.rate, micros, split))
	return nil
}

// measureSlow: every receiver takes 100 ms to answer.
func measureSlow(ctx context.Context, o options, r *result) error {
	rig, err := newRig(ctx, o, "--delay", "100ms")
	if err != nil {
		return err
	}
	defer rig.close()
	if err := rig.produce(ctx, o.slowEvents, 0); err != nil {
		return err
	}
	if err := rig.startPlane(ctx, "all", o.slowWorkers); err != nil {
		return err
	}
	var c counts
	if err := rig.arrived(ctx, o.slowEvents/5, &c); err != nil {
		return err
	}
	begun, from := time.Now(), c.Distinct
	if err := rig.arrived(ctx, o.slowEvents, &c); err != nil {
		return err
	}
	perSecond := float64(c.Distinct-from) / time.Since(begun).Seconds()
	if err := rig.check(ctx, o.slowEvents); err != nil {
		return err
	}
	r.SlowPerS = &perSecond
	r.rows = append(r.rows, row{"delivered/s, receivers of 100 ms", fmt.Sprintf("%.0f", perSecond), "≥ 4 000",
		fmt.Sprintf("%d destinations, %d workers", o.tenants, o.slowWorkers)})
	return nil
}

// measureIngest: the data plane only ingests.
func measureIngest(ctx context.Context, o options, r *result) error {
	rig, err := newRig(ctx, o)
	if err != nil {
		return err
	}
	defer rig.close()
	if err := rig.produce(ctx, o.ingestEvents, 0); err != nil {
		return err
	}
	if err := rig.startPlane(ctx, "ingest", o.workers); err != nil {
		return err
	}
	warm := o.ingestEvents / 10
	stored := func(want int) (int, error) {
		n := 0
		err := rig.poll(ctx, 2*time.Minute, "the backlog to be ingested", func() (bool, error) {
			var err error
			n, err = rig.stored(ctx)
			return n >= want, err
		})
		return n, err
	}
	from, err := stored(warm)
	if err != nil {
		return err
	}
	look, err := rig.inspect(ctx)
	if err != nil {
		return err
	}
	meter, begun := startMeter(rig.pids()), time.Now()
	to, err := stored(o.ingestEvents)
	if err != nil {
		return err
	}
	perSecond := float64(to-from) / time.Since(begun).Seconds()
	if err := look(); err != nil {
		return err
	}
	micros, split := perEvent(meter.spent(), to-from)
	var events int
	if err := rig.look.QueryRow(ctx, "SELECT count(*) FROM events").Scan(&events); err != nil {
		return err
	}
	if events != o.ingestEvents {
		return fmt.Errorf("%d events were produced, %d are stored", o.ingestEvents, events)
	}
	r.IngestPerS = &perSecond
	r.rows = append(r.rows, row{"ingested events/s", fmt.Sprintf("%.0f", perSecond), "≥ 30 000",
		fmt.Sprintf("%d events, %d partitions, matched and queued", o.ingestEvents, o.partitions)})
	r.cpuSplit = append(r.cpuSplit, fmt.Sprintf("CPU µs per ingested event: %.0f (%s)", micros, split))
	return nil
}

// measureBacklog: a large backlog builds up in Kafka, then in the queue, because
// no receiver answers. How much memory does the data plane take meanwhile?
func measureBacklog(ctx context.Context, o options, r *result) error {
	rig, err := newRig(ctx, o, "--delay", "1h")
	if err != nil {
		return err
	}
	defer rig.close()
	if err := rig.produce(ctx, o.backlog, 0); err != nil {
		return err
	}
	if err := rig.startPlane(ctx, "all", o.workers); err != nil {
		return err
	}
	var atTenth, peak float64
	err = rig.poll(ctx, 10*time.Minute, "the backlog to be stored", func() (bool, error) {
		n, err := rig.stored(ctx)
		peak = max(peak, rssMiB(rig.plane.pid()))
		if atTenth == 0 && n >= o.backlog/10 {
			atTenth = peak
		}
		return n >= o.backlog, err
	})
	if err != nil {
		return err
	}
	r.RSSMiB = &peak
	r.rows = append(r.rows, row{"data plane memory MiB, peak", fmt.Sprintf("%.0f", peak), "≤ 200",
		fmt.Sprintf("%d events waiting, receivers silent; %.0f MiB at a tenth of it", o.backlog, atTenth)})
	return nil
}

// arrived waits until the receiver has seen that many different events.
func (r *rig) arrived(ctx context.Context, want int, c *counts) error {
	return r.poll(ctx, 3*time.Minute, fmt.Sprintf("%d events to arrive", want), func() (bool, error) {
		err := r.get("/counts", c)
		return c.Distinct >= want, err
	})
}

// stored is how many records Postgres holds, by its own ledger.
func (r *rig) stored(ctx context.Context) (int, error) {
	var n int
	err := r.look.QueryRow(ctx, "SELECT coalesce(sum(next_offset), 0)::bigint FROM ingest_progress").Scan(&n)
	return n, err
}

// produce writes events of all tenants in turn; rate 0 is as fast as possible.
// Records of one tenant share a partition.
func (r *rig) produce(ctx context.Context, n, rate int) error {
	return r.produceFor(ctx, n, rate, 0, r.o.tenants)
}

// produceFor is produce for the tenants from one number to before another.
func (r *rig) produceFor(ctx context.Context, n, rate, from, to int) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(r.broker.addr), kgo.ProducerLinger(linger(rate)),
		kgo.MaxBufferedRecords(20_000), kgo.ProducerBatchCompression(kgo.NoCompression()))
	if err != nil {
		return err
	}
	defer client.Close()
	body := []byte(`{"n":"` + strings.Repeat("x", max(0, r.o.bodyBytes-8)) + `"}`)
	prefixes := sample.Prefixes{Topic: "lerian.streaming", Type: "studio.lerian"}
	failed := make(chan error, 1)
	run := strconv.FormatInt(time.Now().UnixNano(), 36)
	begun := time.Now()
	for i := range n {
		if rate > 0 {
			due := begun.Add(time.Duration(i) * time.Second / time.Duration(rate))
			if wait := time.Until(due); wait > 0 {
				time.Sleep(wait)
			}
		}
		rec := sample.Fact{
			ID: run + "-" + strconv.Itoa(i), Source: source, ResourceType: "order", EventType: "created",
			SchemaVersion: "1.0.0", TenantID: tenantName(from + i%(to-from)), Time: time.Now(),
			ContentType: "application/json", Body: body,
		}.Record(prefixes)
		client.Produce(ctx, rec, func(_ *kgo.Record, err error) {
			if err != nil {
				select {
				case failed <- err:
				default:
				}
			}
		})
	}
	if err := client.Flush(ctx); err != nil {
		return err
	}
	select {
	case err := <-failed:
		return fmt.Errorf("produce: %w", err)
	default:
		return nil
	}
}

func linger(rate int) time.Duration {
	if rate > 0 {
		return 0
	}
	return 5 * time.Millisecond
}
