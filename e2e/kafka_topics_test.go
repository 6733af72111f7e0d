package e2e

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// pickUp is the time within which a new topic must be read.
const pickUp = 30 * time.Second

func newTopic(ctx context.Context, t *testing.T, r *kafkaRig) {
	r.createTopic(ctx, t, "lender", kafkaPartitions, nil)
	r.start(ctx, t)
	client := r.connect(t)
	publish(ctx, t, client, r.facts("lender", 1, 0)...)
	r.arrived(ctx, t, 1)

	r.createTopic(ctx, t, "tracer", kafkaPartitions, nil)
	// None of these is a topic of facts.
	for _, source := range []string{"lender.dlq", "lender.commands", "Lender"} {
		r.createTopic(ctx, t, source, 1, nil)
	}
	publish(ctx, t, client, r.facts("tracer", 20, 0)...)
	begun := time.Now()
	ctx, cancel := context.WithTimeout(ctx, pickUp)
	defer cancel()
	r.arrived(ctx, t, 21)
	t.Logf("picked up within %s", time.Since(begun).Round(100*time.Millisecond))
}

// topicMadeAnew deletes a topic and makes it again, first under a running data
// plane, then while none runs. What was read of the old topic must not hide
// what stands at the same offsets of the new one, broken records included.
func topicMadeAnew(ctx context.Context, t *testing.T, r *kafkaRig) {
	r.createTopic(ctx, t, "lender", 1, nil)
	plane := r.start(ctx, t)
	// A round has fewer records than the next: the offset that was reached is
	// within the new topic.
	good := 0
	round := func(n int) {
		t.Helper()
		client := r.connect(t)
		defer client.Close()
		broken := &kgo.Record{Topic: r.topic("lender"), Value: []byte("broken")}
		publish(ctx, t, client, append([]*kgo.Record{broken}, r.facts("lender", n, 0)...)...)
		good += n
	}
	check := func(quarantined int) {
		t.Helper()
		r.arrived(ctx, t, good)
		if n := r.count(ctx, t, "SELECT count(*) FROM quarantined_records WHERE kafka_offset = 0"); n != quarantined {
			t.Errorf("%d records with offset 0 are in quarantine, want %d", n, quarantined)
		}
	}
	anew := func() {
		t.Helper()
		if _, err := r.admin.DeleteTopic(ctx, r.topic("lender")); err != nil {
			t.Fatal(err)
		}
		eventually(ctx, t, func() bool {
			_, err := r.admin.CreateTopic(ctx, 1, 1, nil, r.topic("lender"))
			return err == nil
		}, func() string { return "the topic cannot be made again" })
	}
	commits := func(n int) {
		t.Helper()
		eventually(ctx, t, func() bool { return r.committedSum(ctx, t) == int64(n) },
			func() string { return fmt.Sprintf("committed is %d, want %d", r.committedSum(ctx, t), n) })
	}

	round(3)
	check(1)
	commits(4)
	anew()
	round(6)
	begun := time.Now()
	check(2)
	t.Logf("the topic made anew was picked up within %s", time.Since(begun).Round(100*time.Millisecond))
	commits(7)
	plane.ready(ctx, t)

	plane.stop(t)
	anew()
	round(9)
	plane = r.start(ctx, t)
	check(3)
	commits(10)
	if places := plane.ingested(t); places["accepted"] != 9 || places["quarantined"] != 1 || len(places) != 2 {
		t.Errorf("after the start it took %v", places)
	}
}
