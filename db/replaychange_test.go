package db_test

import (
	"errors"
	"testing"
	"time"

	"github.com/streaming-hub/streaming-hub/db"
	"github.com/streaming-hub/streaming-hub/hub"
)

func TestChangeReplayJob(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.opened("acme").died(1)
	id := l.job("acme", hub.ReplayFilter{})
	l.previewed(id, 10)
	told := len(l.feed())
	change := db.ReplayChange{
		ID: id, Tenant: "acme", FeedID: newID(),
		Audit: func(before, after *hub.ReplayJob) db.AuditEntry {
			return db.AuditEntry{ID: newID(), Tenant: after.Tenant, ActorName: "test", Action: "start_replay", Object: "job", Before: before.State, After: after.State}
		},
	}
	refusal := errors.New("not today")
	change.Change = func(j *hub.ReplayJob, _ time.Time) (bool, error) { j.State = hub.JobRunning; return true, refusal }
	if _, err := l.db.ChangeReplayJob(t.Context(), change); !errors.Is(err, refusal) {
		t.Errorf("refused: %v", err)
	}
	change.Change = func(*hub.ReplayJob, time.Time) (bool, error) { return false, nil }
	if j, err := l.db.ChangeReplayJob(t.Context(), change); err != nil || j.State != hub.JobReady || j.Version != 1 {
		t.Errorf("unchanged: %+v, %v", j, err)
	}
	l.wantCount("audit entries", 1, `SELECT count(*) FROM audit_log`)
	if n := len(l.feed()); n != told {
		t.Errorf("%d items in the feed for nothing", n-told)
	}
	var at time.Time
	want := l.jobOf(id)
	change.Change = func(j *hub.ReplayJob, now time.Time) (bool, error) {
		at = now
		j.State, j.StartedAt, j.Pace = hub.JobRunning, now, hub.ReplayPace{RatePerSecond: 7, Canary: 5, PauseAbovePercent: 30}
		j.PacedTo, j.JudgedTried, j.JudgedFailed, j.CanaryPassed, j.Reason = now, 4, 2, true, "because"
		want = *j
		return true, nil
	}
	j, err := l.db.ChangeReplayJob(t.Context(), change)
	want.Version = 2
	if stored := l.jobOf(id); err != nil || !sameJob(&j, &want) || !sameJob(&stored, &want) || !stored.StartedAt.Equal(at) {
		t.Errorf("%v\n   %+v\nkept %+v\nwant %+v", err, j, stored, want)
	}
	l.wantCount("audit entries", 1, `SELECT count(*) FROM audit_log WHERE action = 'start_replay' AND before = '"READY"' AND after = '"RUNNING"'`)
	feed := l.feed()
	if n := feed[len(feed)-1].Notice; len(feed) != told+1 || n.Replay == nil || n.Replay.State != hub.JobRunning || n.Replay.Job != id || n.Tenant != "acme" {
		t.Errorf("the feed tells %+v", n)
	}
	change.Tenant = "stranger"
	if _, err := l.db.ChangeReplayJob(t.Context(), change); !errors.Is(err, db.ErrChanged) {
		t.Errorf("by a stranger: %v", err)
	}
}

// sameJob compares without regard to where the clock's times were read.
func sameJob(a, b *hub.ReplayJob) bool {
	x, y := *a, *b
	for _, j := range []*hub.ReplayJob{&x, &y} {
		for _, at := range []*time.Time{&j.CreatedAt, &j.PreviewedAt, &j.StartedAt, &j.FinishedAt, &j.PacedTo} {
			*at = at.UTC().Round(time.Microsecond)
		}
	}
	return x.State == y.State && x.Version == y.Version && x.Pace == y.Pace && x.PacedTo == y.PacedTo && x.CanaryPassed == y.CanaryPassed &&
		x.JudgedTried == y.JudgedTried && x.JudgedFailed == y.JudgedFailed && x.Reason == y.Reason && x.PausedBy == y.PausedBy &&
		x.CreatedAt == y.CreatedAt && x.PreviewedAt == y.PreviewedAt && x.StartedAt == y.StartedAt && x.FinishedAt == y.FinishedAt && x.Total == y.Total
}
