package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/streaming-hub/streaming-hub/dev/sample"
)

const (
	replicaEvents     = 3000
	replicaPartitions = 8
	replicaKills      = 3
)

// TestReplicas gives two data planes a mixture of records — repeats, conflicts,
// poison, system events, in random order over partitions that share tenants —
// and kills one or the other by SIGKILL again and again. In the end each record
// is in exactly one place, every key is stored once, seq has no gaps, and
// reading the whole topic anew changes nothing.
func TestReplicas(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	defer cancel()
	rig := newKillRig(ctx, t)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 1))
	want := rig.produceMixture(ctx, t, random)

	addr := rig.broker.Addrs()[0]
	planes := []*planeProcess{rig.startOn(t, addr), rig.startOn(t, addr)}
	for kill := range replicaKills {
		step := (kill + 1) * want.events / (replicaKills + 2)
		eventually(ctx, t, func() bool { return rig.count(ctx, t, "SELECT count(*) FROM events") >= step }, rig.say)
		victim := planes[kill%2]
		if err := victim.cmd.Process.Signal(syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		_ = victim.cmd.Wait() // "signal: killed" is what we want
		planes[kill%2] = rig.startOn(t, addr)
	}
	rig.awaitStored(ctx, t, want.records)
	rig.checkMixture(ctx, t, want)
	eventually(ctx, t, func() bool { return rig.finished(ctx, t) == want.events }, rig.say)
	if c := rig.receiver.Counts(); c.Distinct != int64(want.events) || c.Unverified != 0 {
		t.Errorf("of %d events %d arrived, %d unverified", want.events, c.Distinct, c.Unverified)
	}

	for i, p := range planes {
		if ahead := p.metric(t, "streaming_hub_ingest_commits_ahead_total"); ahead != "0" {
			t.Errorf("replica %d was about to commit offsets ahead of Postgres %s times", i, ahead)
		}
	}

	// The group forgets where it was: everything is read again.
	for _, p := range planes {
		p.stop(t)
	}
	before := rig.receiver.Counts().Requests
	admin := rig.admin(t)
	if _, err := admin.DeleteGroup(ctx, "streaming-hub"); err != nil {
		t.Fatal(err)
	}
	rig.startOn(t, addr)
	rig.awaitCommitted(ctx, t, want.records)
	rig.checkMixture(ctx, t, want)
	if after := rig.receiver.Counts().Requests; after != before {
		t.Errorf("reading the topic anew sent %d requests", after-before)
	}
}

// mixture is what must become of a mixture of records.
type mixture struct {
	records, events, poison, conflicts int
}

// produceMixture publishes the records in random order. A key's first copy may
// come after others of it: copies are alike, and a conflict differs from all.
func (r *killRig) produceMixture(ctx context.Context, t *testing.T, random *rand.Rand) mixture {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(r.broker.Addrs()...), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	var m mixture
	var records []*kgo.Record
	add := func(f sample.Fact) {
		rec := f.Record(sample.Prefixes{Topic: "lerian.streaming", Type: "studio.lerian"})
		rec.Partition = int32(random.IntN(replicaPartitions))
		records = append(records, rec)
	}
	for i := range replicaEvents {
		f := sample.Fact{
			ID: fmt.Sprintf("mix-%d", i), Source: "lender", ResourceType: "loan", EventType: "closed", SchemaVersion: "1",
			TenantID: fmt.Sprintf("t%d", random.IntN(4)), Time: time.Now(), Body: []byte(fmt.Sprintf(`{"n":%d}`, i)),
		}
		add(f)
		m.events++
		switch random.IntN(10) {
		case 0, 1: // a repeat, perhaps on another partition
			add(f)
		case 2: // the same id with no type: poison, whatever the order
			f.Type = "-"
			add(f)
			m.poison++
		case 3: // a system event of the same id
			f.System = true
			add(f)
		}
	}
	random.Shuffle(len(records), func(i, j int) { records[i], records[j] = records[j], records[i] })
	// Conflicts come last, so that it is known who was first.
	for i := range 20 {
		f := sample.Fact{
			ID: fmt.Sprintf("conflict-%d", i), Source: "lender", ResourceType: "loan", EventType: "closed", SchemaVersion: "1",
			TenantID: "t0", Time: time.Now(), Body: []byte("first"),
		}
		add(f)
		records[len(records)-1].Partition = 0
		f.Body = []byte("second")
		add(f)
		records[len(records)-1].Partition = 0
		m.events++
		m.conflicts++
	}
	m.records = len(records)
	if err := client.ProduceSync(ctx, records...).FirstErr(); err != nil {
		t.Fatal(err)
	}
	return m
}

func (r *killRig) admin(t *testing.T) *kadm.Client {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(r.broker.Addrs()...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return kadm.NewClient(client)
}

func (r *killRig) count(ctx context.Context, t *testing.T, query string) (n int) {
	t.Helper()
	if err := r.pool.QueryRow(ctx, query).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// awaitStored waits until Postgres holds every partition to its end.
func (r *killRig) awaitStored(ctx context.Context, t *testing.T, records int) {
	t.Helper()
	n := 0
	eventually(ctx, t, func() bool {
		n = r.count(ctx, t, "SELECT coalesce(sum(next_offset), 0) FROM ingest_progress")
		return n == records
	}, func() string { return fmt.Sprintf("%d of %d records are stored\n%s", n, records, r.describe(ctx, t)) })
}

// describe says how far each partition is and who has it, for a test that
// waited in vain.
func (r *killRig) describe(ctx context.Context, t *testing.T) string {
	t.Helper()
	var b strings.Builder
	rows, err := r.pool.Query(ctx, "SELECT kafka_partition, next_offset FROM ingest_progress ORDER BY 1")
	if err != nil {
		return err.Error()
	}
	defer rows.Close()
	for rows.Next() {
		var partition int
		var next int64
		if err := rows.Scan(&partition, &next); err != nil {
			return err.Error()
		}
		fmt.Fprintf(&b, "partition %d is stored to %d\n", partition, next)
	}
	admin := r.admin(t)
	groups, err := admin.DescribeGroups(ctx, "streaming-hub")
	if err != nil {
		return b.String() + err.Error()
	}
	for _, g := range groups.Sorted() {
		fmt.Fprintf(&b, "group %s is %s\n", g.Group, g.State)
		for _, m := range g.Members {
			if assigned, ok := m.Assigned.AsConsumer(); ok {
				for _, topic := range assigned.Topics {
					fmt.Fprintf(&b, "member %s has %s %v\n", m.MemberID, topic.Topic, topic.Partitions)
				}
			}
		}
	}
	ends, err := admin.ListEndOffsets(ctx, "lerian.streaming.lender")
	if err != nil {
		return b.String() + err.Error()
	}
	ends.Each(func(o kadm.ListedOffset) { fmt.Fprintf(&b, "partition %d ends at %d\n", o.Partition, o.Offset) })
	return b.String()
}

// awaitCommitted waits until Kafka holds the group's offsets at the end.
func (r *killRig) awaitCommitted(ctx context.Context, t *testing.T, records int) {
	t.Helper()
	admin := r.admin(t)
	n := int64(0)
	eventually(ctx, t, func() bool {
		offsets, err := admin.FetchOffsets(ctx, "streaming-hub")
		if err != nil {
			return false
		}
		n = 0
		offsets.Each(func(o kadm.OffsetResponse) { n += max(0, o.At) })
		return n == int64(records)
	}, func() string { return fmt.Sprintf("%d of %d offsets are committed", n, records) })
}

// checkMixture holds the inbox against what was produced.
func (r *killRig) checkMixture(ctx context.Context, t *testing.T, want mixture) {
	t.Helper()
	for _, c := range []struct {
		what  string
		query string
		want  int
	}{
		{"events", "SELECT count(*) FROM events", want.events},
		{"different keys", "SELECT count(DISTINCT (tenant_id, source, ce_id)) FROM events", want.events},
		{"tenants whose seq is not 1…n", `SELECT count(*) FROM (
			SELECT tenant_id FROM events GROUP BY tenant_id
			HAVING count(*) <> max(seq) OR count(DISTINCT seq) <> max(seq) OR min(seq) <> 1) gaps`, 0},
		{"tenants whose counter is not the next seq", `SELECT count(*) FROM tenant_counters c
			WHERE c.next_seq <> 1 + (SELECT coalesce(max(seq), 0) FROM events e WHERE e.tenant_id = c.tenant_id)`, 0},
		{"deliveries", "SELECT count(*) FROM deliveries", want.events},
		{"events without exactly one delivery", `SELECT count(*) FROM events e
			WHERE (SELECT count(*) FROM deliveries d WHERE d.event_id = e.id) <> 1`, 0},
		{"poison records", "SELECT count(*) FROM quarantined_records WHERE reason <> 'duplicate_conflict'", want.poison},
		{"conflicts", "SELECT count(*) FROM quarantined_records WHERE reason = 'duplicate_conflict'", want.conflicts},
		{"conflicts that won", "SELECT count(*) FROM events WHERE body = 'second'", 0},
		{"different places in quarantine", "SELECT count(DISTINCT (topic, kafka_partition, kafka_offset)) FROM quarantined_records", want.poison + want.conflicts},
	} {
		if got := r.count(ctx, t, c.query); got != c.want {
			t.Errorf("%s: %d, want %d", c.what, got, c.want)
		}
	}
}
