package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/streaming-hub/streaming-hub/hub"
)

const (
	manyKills      = 5
	manyKillEvents = 5000
)

// TestKills ends the data plane by SIGKILL several times at random moments,
// also while it starts, and starts it again at once, while events keep coming.
// Nothing may be lost, and only deliveries that were leased at a kill may have
// come again, at most once for each such kill. The part kills of the benchmark
// does the same a hundred times in 100 000 events.
func TestKills(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	defer cancel()
	rig := newKillRig(ctx, t)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 1))

	say := func() string {
		c := rig.receiver.Counts()
		return fmt.Sprintf("of %d events %d arrived in %d requests, %d deliveries are recorded", manyKillEvents, c.Distinct, c.Requests, rig.finished(ctx, t))
	}
	leased := map[hub.ID]int{}
	const share = manyKillEvents / manyKills
	for kill := range manyKills {
		plane := rig.startOn(t, rig.broker.Addrs()[0])
		started, before := time.Now(), rig.receiver.Counts().Requests
		rig.produce(ctx, t, kill*share, (kill+1)*share)
		if random.IntN(4) == 0 {
			// While it starts.
			at := started.Add(time.Duration(random.Int64N(int64(time.Second))))
			eventually(ctx, t, func() bool { return time.Now().After(at) }, say)
		} else {
			want := before + 1 + random.Int64N(share-1)
			eventually(ctx, t, func() bool { return rig.receiver.Counts().Requests >= want }, say)
		}
		if err := plane.cmd.Process.Signal(syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		_ = plane.cmd.Wait() // "signal: killed" is what we want
		for id := range rig.leased(ctx, t) {
			leased[id]++
		}
		rig.expelMembers(ctx, t)
	}
	rig.startOn(t, rig.broker.Addrs()[0])
	eventually(ctx, t, func() bool { return rig.finished(ctx, t) == manyKillEvents }, say)

	if c := rig.receiver.Counts(); c.Distinct != manyKillEvents || c.Unverified != 0 {
		t.Errorf("of %d events %d arrived, %d requests did not verify", manyKillEvents, c.Distinct, c.Unverified)
	}
	repeats := 0
	for id := range rig.deliveries(ctx, t) {
		times := rig.receiver.Times(id)
		repeats += times - 1
		if times > 1+leased[id] {
			t.Errorf("delivery %s came %d times and was leased at %d kills", id, times, leased[id])
		}
	}
	if allowed := (killWorkers + killUnwritten) * manyKills; repeats > allowed {
		t.Errorf("%d requests came again, allowed are %d: (%d workers + %d unwritten outcomes) × %d kills", repeats, allowed, killWorkers, killUnwritten, manyKills)
	}
	t.Logf("%d requests came again; %d deliveries were leased at a kill", repeats, len(leased))
}

// expelMembers takes all members out of the consumer group, as an operator can:
// else the group would notice the death of each only when its session ends,
// which is what TestReplicas waits for.
func (r *killRig) expelMembers(ctx context.Context, t *testing.T) {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(r.broker.Addrs()...))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	groups, err := r.admin(t).DescribeGroups(ctx, "streaming-hub")
	if err != nil {
		t.Fatal(err)
	}
	req := kmsg.NewPtrLeaveGroupRequest()
	req.Group = "streaming-hub"
	for _, m := range groups["streaming-hub"].Members {
		member := kmsg.NewLeaveGroupRequestMember()
		member.MemberID = m.MemberID
		req.Members = append(req.Members, member)
	}
	if _, err := req.RequestWith(ctx, client); err != nil {
		t.Fatal(err)
	}
}
