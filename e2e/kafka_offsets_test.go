package e2e

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
)

// restart ends a data plane in order: everything stored is committed, and the
// next one reads none of it again.
func restart(ctx context.Context, t *testing.T, r *kafkaRig) {
	r.createTopic(ctx, t, "lender", kafkaPartitions, nil)
	plane := r.start(ctx, t)
	client := r.connect(t)
	publish(ctx, t, client, r.facts("lender", 500, 0)...)
	r.arrived(ctx, t, 500)
	plane.stop(t)
	if sum := r.committedSum(ctx, t); sum != 500 {
		t.Errorf("after an orderly end %d records are committed, want 500", sum)
	}
	publish(ctx, t, client, r.facts("lender", 20, 0)...)
	plane = r.start(ctx, t)
	r.arrived(ctx, t, 520)
	if places := plane.ingested(t); places["accepted"] != 20 || len(places) != 1 {
		t.Errorf("the next process took %v, want the 20 new facts alone", places)
	}
}

// killedReplica ends one of two data planes by SIGKILL while facts come in:
// the broker gives its partitions to the other, which goes on behind what was
// committed.
func killedReplica(ctx context.Context, t *testing.T, r *kafkaRig) {
	r.createTopic(ctx, t, "lender", kafkaPartitions, nil)
	victim, other := r.start(ctx, t), r.start(ctx, t)
	client := r.connect(t)
	total := 0
	// Both have partitions, so the kill takes something away.
	eventually(ctx, t, func() bool {
		publish(ctx, t, client, r.facts("lender", 4, 0)...)
		total += 4
		return victim.ingested(t)["accepted"] > 0 && other.ingested(t)["accepted"] > 0
	}, func() string {
		return fmt.Sprintf("one replica took %v, the other %v", victim.ingested(t), other.ingested(t))
	})
	publish(ctx, t, client, r.facts("lender", 500, 0)...)
	total += 500
	if err := victim.cmd.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_ = victim.cmd.Wait() // "signal: killed" is what we want
	publish(ctx, t, client, r.facts("lender", 200, 0)...)
	total += 200
	begun := time.Now()
	eventually(ctx, t, func() bool { return r.finished(ctx, t) == total }, func() string {
		return fmt.Sprintf("%d of %d facts were delivered, %d are stored", r.finished(ctx, t), total, r.count(ctx, t, "SELECT count(*) FROM events"))
	})
	t.Logf("the other replica had delivered everything within %s", time.Since(begun).Round(100*time.Millisecond))
	c := r.receiver.Counts()
	if c.Distinct != int64(total) || c.Unverified != 0 || c.Repeats > killWorkers+killUnwritten {
		t.Errorf("%d of %d facts came, %d unverified, %d a second time (allowed are %d workers + %d unwritten outcomes)",
			c.Distinct, total, c.Unverified, c.Repeats, killWorkers, killUnwritten)
	}
	other.ready(ctx, t)
}

// commitsTrail compares, while facts come in, the group's offset of each
// partition with what Postgres holds of it. The offsets are read first: what
// is stored only grows, so a commit that was ahead cannot hide.
func commitsTrail(ctx context.Context, t *testing.T, r *kafkaRig) {
	const facts = 3000
	r.createTopic(ctx, t, "lender", kafkaPartitions, nil)
	r.start(ctx, t)
	client := r.connect(t)
	published := make(chan error, 1)
	records := r.facts("lender", facts, 0)
	go func() {
		// In slices, so that there is something to commit for a while.
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		var err error
		for slice := range slices.Chunk(records, facts/60) {
			<-tick.C
			err = errors.Join(err, client.ProduceSync(ctx, slice...).FirstErr())
		}
		published <- err
	}()
	moments, last := 0, int64(0)
	eventually(ctx, t, func() bool {
		sum := int64(0)
		r.committed(ctx, t).Each(func(o kadm.Offset) {
			stored := r.count(ctx, t, `SELECT coalesce(max(kafka_offset) + 1, 0) FROM (
				SELECT kafka_offset FROM events WHERE topic = $1 AND kafka_partition = $2 UNION ALL
				SELECT kafka_offset FROM quarantined_records WHERE topic = $1 AND kafka_partition = $2) AS held`, o.Topic, o.Partition)
			if o.At > int64(stored) {
				t.Errorf("partition %d: offset %d is committed, Postgres holds what is below %d", o.Partition, o.At, stored)
			}
			sum += o.At
		})
		if sum != last {
			moments, last = moments+1, sum
		}
		return sum == facts
	}, func() string { return fmt.Sprintf("%d of %d are committed", last, facts) })
	if err := <-published; err != nil {
		t.Fatalf("publish: %v", err)
	}
	t.Logf("the commits moved on %d times while we looked", moments)
	r.arrived(ctx, t, facts)
}
