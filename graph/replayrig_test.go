package graph_test

import (
	"testing"
	"time"

	"github.com/streaming-hub/streaming-hub/db"
	"github.com/streaming-hub/streaming-hub/hub"
	"github.com/streaming-hub/streaming-hub/hub/hubtest"
	"github.com/streaming-hub/streaming-hub/hub/replay"
)

// shop is a tenant's event subscription with its destination.
type shop struct {
	*world
	tenant    string
	sub, dest hub.ID
}

func (w *world) opened(tenant string) *shop {
	w.t.Helper()
	sub, dest := w.subscriptionOf(tenant)
	return &shop{w, tenant, sub, dest}
}

// died makes n dead letters and returns their global ids, the oldest first.
func (s *shop) died(n int) (ids []string) {
	s.t.Helper()
	for range n {
		d := s.deliver(s.tenant, s.sub, s.dest)
		s.record(d.outcome(500, hub.Dead))
		ids = append(ids, gid("dlv_", d.Delivery.ID.ID))
	}
	return ids
}

// stored makes n events that nobody has a delivery of.
func (s *shop) stored(n int) {
	s.t.Helper()
	for range n {
		d := s.deliver(s.tenant, s.sub, s.dest)
		s.exec(`DELETE FROM delivery_queue WHERE id = $1`, d.Delivery.ID.String())
		s.exec(`DELETE FROM deliveries WHERE id = $1`, d.Delivery.ID.String())
	}
	s.exec(`UPDATE tenant_counters SET next_seq = (SELECT max(seq) + 1 FROM events WHERE tenant_id = $1) WHERE tenant_id = $1`, s.tenant)
}

// scan freezes the set of a job, as the data plane does.
func (w *world) scan(id hub.JobID) {
	w.t.Helper()
	for more := true; more; {
		var err error
		if more, err = w.db.ScanReplay(w.t.Context(), id, 100, newID()); err != nil {
			w.t.Fatal(err)
		}
	}
}

// step releases what is due of a running job, by a clock that is ahead.
func (w *world) step(id hub.JobID, ahead time.Duration) {
	w.t.Helper()
	_, err := w.db.StepReplay(w.t.Context(), id, newID(), func(j *hub.ReplayJob, now time.Time) replay.Step { return replay.Next(j, now.Add(ahead)) })
	if err != nil {
		w.t.Fatal(err)
	}
}

// jobIn makes a job and takes it to a state.
func (w *world) jobIn(state hub.JobState, j hub.ReplayJob) hub.JobID {
	w.t.Helper()
	j.ID.ID, j.CreatedAt, j.CreatedByName = newID(), hubtest.Now(), "somebody"
	j.Pace = hub.ReplayPace{RatePerSecond: 50, Canary: 1, PauseAbovePercent: 20}
	if err := w.db.CreateReplayJob(w.t.Context(), j, db.AuditEntry{ID: newID(), Tenant: j.Tenant, ActorName: "somebody", Action: "preview_replay", Object: "job"}); err != nil {
		w.t.Fatal(err)
	}
	if state == hub.JobPreviewing {
		return j.ID
	}
	w.scan(j.ID)
	do := func(change func(*hub.ReplayJob, time.Time) (bool, error)) {
		w.t.Helper()
		if _, err := w.db.ChangeReplayJob(w.t.Context(), db.ReplayChange{
			ID: j.ID, Tenant: j.Tenant, FeedID: newID(), Change: change,
			Audit: func(_, after *hub.ReplayJob) db.AuditEntry {
				return db.AuditEntry{ID: newID(), Tenant: j.Tenant, ActorName: "somebody", Action: "x", Object: "job"}
			},
		}); err != nil {
			w.t.Fatal(err)
		}
	}
	if state != hub.JobReady {
		do(func(r *hub.ReplayJob, now time.Time) (bool, error) { return replay.Start(r, j.Pace, now) })
	}
	switch state {
	case hub.JobPaused:
		do(func(r *hub.ReplayJob, _ time.Time) (bool, error) { return replay.Pause(r, "") })
	case hub.JobCancelled:
		do(func(r *hub.ReplayJob, now time.Time) (bool, error) { return replay.Cancel(r, "", now) })
	}
	return j.ID
}

// jobNamed makes a running job of a tenant whose texts all are one.
func (w *world) jobNamed(tenant hub.TenantID, text string) hub.ID {
	w.t.Helper()
	id := w.jobIn(hub.JobRunning, hub.ReplayJob{Tenant: tenant, Kind: hub.JobReplay})
	w.exec(`UPDATE replay_jobs SET created_by_name = $1, reason = $1 WHERE id = $2`, text, id.String())
	return id.ID
}

// jobID is the id of a job from its global id.
func jobID(t *testing.T, global any) (id hub.JobID) {
	t.Helper()
	text, _ := global.(string)
	if len(text) != 36 {
		t.Fatalf("%v is no replay job's id", global)
	}
	key, err := hub.ParseID(text[4:12] + "-" + text[12:16] + "-" + text[16:20] + "-" + text[20:24] + "-" + text[24:])
	if err != nil {
		t.Fatal(err)
	}
	id.ID = key
	return id
}
