package e2e

import (
	"context"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/streaming-hub/streaming-hub/db"
	"github.com/streaming-hub/streaming-hub/dev/receiver"
	"github.com/streaming-hub/streaming-hub/hub"
	"github.com/streaming-hub/streaming-hub/hub/hubtest"
	"github.com/streaming-hub/streaming-hub/hub/replay"
)

const replayEvents = 300

// TestReplayJob lets all deliveries die of a receiver that refuses them. A first
// job is stopped by its canary. When the receiver is mended a second one
// replays all of them, while the data plane is killed twice: in the canary and
// in the middle. Each delivery comes once more, and once more again only if it
// was leased at a kill.
func TestReplayJob(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	defer cancel()
	rig := newReplayRig(ctx, t)
	plane := rig.start(t)
	// An answer that says nothing against the receiver opens no circuit.
	rig.answer(t, receiver.Answer{Status: 422})
	rig.produce(ctx, t, 0, replayEvents)
	rig.allDead(ctx, t)

	pace := hub.ReplayPace{RatePerSecond: 60, Canary: 10, PauseAbovePercent: 20}
	first := rig.preview(ctx, t)
	if j := rig.job(ctx, t, first); j.Total != replayEvents || len(j.Shares) != 4 || j.Shares[0].Count != replayEvents/4 || j.AlreadyDelivered+j.Undeliverable != 0 {
		t.Errorf("the preview is %+v", j)
	}
	rig.change(ctx, t, first, func(j *hub.ReplayJob, now time.Time) (bool, error) { return replay.Start(j, pace, now) })
	rig.await(ctx, t, first, hub.JobPaused)
	if j := rig.job(ctx, t, first); j.Released != 10 || j.Failed != 10 || j.PausedBy != hub.DisabledByAuto || !strings.Contains(j.Reason, "10 first items") {
		t.Errorf("paused as %+v", j)
	}
	rig.change(ctx, t, first, func(j *hub.ReplayJob, now time.Time) (bool, error) { return replay.Cancel(j, "", now) })
	rig.allDead(ctx, t)

	// While it is slow, the canary takes long enough to be killed in.
	rig.answer(t, receiver.Answer{Status: 200, DelayMs: 700})
	rig.receiver.Clear()
	second := rig.preview(ctx, t)
	for _, changes := range []bool{true, false} { // the second click changes nothing
		rig.change(ctx, t, second, func(j *hub.ReplayJob, now time.Time) (bool, error) {
			changed, err := replay.Start(j, pace, now)
			if changed != changes {
				t.Errorf("start says that changed is %v", changed)
			}
			return changed, err
		})
	}
	leased := map[hub.ID]int{}
	kill := func() {
		t.Helper()
		if err := plane.cmd.Process.Signal(syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		_ = plane.cmd.Wait() // "signal: killed" is what we want
		for id := range rig.leased(ctx, t) {
			leased[id]++
		}
	}
	rig.eventually(ctx, t, second, func(j *hub.ReplayJob) bool { return j.Released == 10 && len(rig.leased(ctx, t)) > 0 })
	kill()
	inCanary := rig.job(ctx, t, second)
	if inCanary.CanaryPassed || inCanary.Released != 10 {
		t.Fatalf("the kill did not come in the canary: %+v", inCanary)
	}
	rig.answer(t, receiver.Answer{Status: 200})
	plane = rig.start(t)
	rig.eventually(ctx, t, second, func(j *hub.ReplayJob) bool { return j.Delivered >= replayEvents/3 })
	kill()
	inRun := rig.job(ctx, t, second)
	if inRun.Pending() == 0 {
		t.Fatalf("the kill came too late: %+v", inRun)
	}
	plane = rig.start(t)
	rig.await(ctx, t, second, hub.JobCompleted)
	plane.stop(t)

	j := rig.job(ctx, t, second)
	if j.Released != replayEvents || j.Tried != replayEvents || j.Delivered != replayEvents || j.Skipped+j.Failed+j.Dead != 0 {
		t.Errorf("completed as %+v", j)
	}
	if took, least := j.FinishedAt.Sub(j.StartedAt), time.Duration(replayEvents/60)*time.Second; took < least {
		t.Errorf("took %v, at 60 per second it takes %v", took, least)
	}
	for id := range rig.deliveries(ctx, t) {
		if times := rig.receiver.Times(id); times < 1 || times > 1+leased[id] {
			t.Errorf("delivery %s came %d times and was leased at %d kills", id, times, leased[id])
		}
	}
	rig.checkNumbers(ctx, t)
	if n := rig.count(ctx, t, "SELECT count(*) FROM delivery_queue"); n != 0 {
		t.Errorf("%d deliveries wait still", n)
	}
	c := rig.receiver.Counts()
	t.Logf("killed with %d and %d of %d items released; %d requests came again of %d that may", inCanary.Released, inRun.Released, replayEvents, c.Repeats, len(leased))
}

// replayRig has deliveries of two attempts a run.
type replayRig struct {
	*killRig
	store *db.DB
}

func newReplayRig(ctx context.Context, t *testing.T) *replayRig {
	t.Helper()
	r := &replayRig{killRig: newKillRig(ctx, t)}
	var err error
	if r.store, err = db.Open(ctx, db.Config{DSN: r.dsn}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.store.Close)
	return r
}

func (r *replayRig) start(t *testing.T) *planeProcess {
	t.Helper()
	return r.startOn(t, r.broker.Addrs()[0], "STREAMING_HUB_DEFAULT_RETRY_STEPS=0s,50ms")
}

// answer is what all receivers say from now on.
func (r *replayRig) answer(t *testing.T, a receiver.Answer) {
	t.Helper()
	for i := range 4 {
		if err := r.receiver.SetScript(fmt.Sprintf("/t%d", i), receiver.Script{Answers: []receiver.Answer{a}}); err != nil {
			t.Fatal(err)
		}
	}
}

// allDead waits until no delivery is unfinished.
func (r *replayRig) allDead(ctx context.Context, t *testing.T) {
	t.Helper()
	var dead, queued int
	eventually(ctx, t, func() bool {
		dead = r.count(ctx, t, "SELECT count(DISTINCT delivery_id) FROM delivery_results WHERE dead_reason = 'EXHAUSTED'")
		queued = r.count(ctx, t, "SELECT count(*) FROM delivery_queue")
		return dead == replayEvents && queued == 0
	}, func() string { return fmt.Sprintf("%d of %d deliveries died, %d wait", dead, replayEvents, queued) })
}

// preview makes a job over the dead letters of all tenants and waits until its
// set is frozen.
func (r *replayRig) preview(ctx context.Context, t *testing.T) hub.JobID {
	t.Helper()
	id := hub.JobID{ID: hubtest.NewID()}
	err := r.store.CreateReplayJob(ctx, hub.ReplayJob{
		ID: id, Kind: hub.JobReplay, CreatedAt: time.Now(), CreatedByName: "test",
		Pace: hub.ReplayPace{RatePerSecond: 1, PauseAbovePercent: 100},
	}, db.AuditEntry{ID: hubtest.NewID(), ActorName: "test", Action: "preview_replay", Object: id.String()})
	if err != nil {
		t.Fatal(err)
	}
	r.await(ctx, t, id, hub.JobReady)
	return id
}

func (r *replayRig) job(ctx context.Context, t *testing.T, id hub.JobID) hub.ReplayJob {
	t.Helper()
	list, err := r.store.ReplayJobsByID(ctx, []hub.JobID{id})
	if err != nil || len(list) != 1 {
		t.Fatalf("%d jobs, error %v", len(list), err)
	}
	return list[0]
}

func (r *replayRig) await(ctx context.Context, t *testing.T, id hub.JobID, state hub.JobState) {
	t.Helper()
	r.eventually(ctx, t, id, func(j *hub.ReplayJob) bool { return j.State == state })
}

// eventually waits until a job is so; meanwhile nothing follows a canary that
// has not passed.
func (r *replayRig) eventually(ctx context.Context, t *testing.T, id hub.JobID, so func(*hub.ReplayJob) bool) {
	t.Helper()
	var j hub.ReplayJob
	eventually(ctx, t, func() bool {
		j = r.job(ctx, t, id)
		if canary := int64(j.Pace.Canary); j.State == hub.JobRunning && !j.CanaryPassed && j.Released > canary {
			t.Errorf("%d items are released, before the canary of %d has passed", j.Released, canary)
		}
		return so(&j)
	}, func() string { return fmt.Sprintf("%s %s %+v", j.State, replay.Explain(&j, time.Now()), j) })
}

func (r *replayRig) change(ctx context.Context, t *testing.T, id hub.JobID, change func(*hub.ReplayJob, time.Time) (bool, error)) {
	t.Helper()
	_, err := r.store.ChangeReplayJob(ctx, db.ReplayChange{
		ID: id, FeedID: hubtest.NewID(), Change: change,
		Audit: func(before, after *hub.ReplayJob) db.AuditEntry {
			return db.AuditEntry{ID: hubtest.NewID(), ActorName: "test", Action: "change_replay", Object: id.String(), Before: before.State, After: after.State}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
}

// checkNumbers looks at what is recorded of each delivery: attempts without a
// gap over all runs, of which only the last delivered it.
func (r *replayRig) checkNumbers(ctx context.Context, t *testing.T) {
	t.Helper()
	wrong := r.count(ctx, t, `SELECT count(*) FROM (
		SELECT delivery_id FROM attempts GROUP BY delivery_id
		HAVING min(number) <> 1 OR max(number) <> count(*) OR count(DISTINCT number) <> count(*)
			OR count(*) FILTER (WHERE state = 'DELIVERED') <> 1
			OR max(number) <> max(number) FILTER (WHERE state = 'DELIVERED')
			OR count(*) <> 2 * max(run) - 1
	) d`)
	if n := r.count(ctx, t, "SELECT count(DISTINCT delivery_id) FROM attempts"); n != replayEvents || wrong > 0 {
		t.Errorf("%d deliveries have attempts; the numbers of %d are wrong", n, wrong)
	}
}
