package db_test

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/streaming-hub/streaming-hub/db"
	"github.com/streaming-hub/streaming-hub/hub"
)

func TestCreateReplayJob_keeps_what_was_asked_for(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	now := kept()
	for _, want := range []hub.ReplayJob{
		{Tenant: "acme", Kind: hub.JobReplay},
		{Kind: hub.JobReplay, Filter: hub.ReplayFilter{
			Deliveries: []hub.DeliveryID{{ID: newID()}, {ID: newID()}}, Subscription: hub.SubscriptionID{ID: newID()}, Destination: hub.DestinationID{ID: newID()},
			EventType: "loan.*", States: []hub.State{hub.Dead, hub.Discarded}, Reasons: []hub.DeadReason{hub.DeadExpired}, Fingerprint: []byte{0, 1, 255},
			CreatedAfter: now, CreatedBefore: now.Add(1), EndedAfter: now.Add(2), EndedBefore: now.Add(3),
		}},
		{Tenant: "acme", Kind: hub.JobBackfill, Range: hub.BackfillRange{
			Subscription: hub.SubscriptionID{ID: newID()}, FirstSeq: 3, LastSeq: 1 << 60, ReceivedAfter: now, ReceivedBefore: now.Add(time.Hour),
		}},
	} {
		want.ID.ID, want.CreatedBy.ID, want.CreatedByName, want.CreatedAt = newID(), newID(), "Ada", now
		want.Pace = hub.ReplayPace{RatePerSecond: 10_000, Canary: 3, PauseAbovePercent: 7}
		if err := l.db.CreateReplayJob(t.Context(), want, db.AuditEntry{ID: newID(), Tenant: want.Tenant, ActorName: "Ada", Action: "preview_replay", Object: text(want.ID)}); err != nil {
			t.Fatal(err)
		}
		want.State, want.Version, want.Shares = hub.JobPreviewing, 1, []hub.DestinationShare{}
		got := l.jobOf(want.ID)
		got.CreatedAt = got.CreatedAt.UTC()
		if !reflect.DeepEqual(got, want) {
			t.Errorf("kept   %+v\nwanted %+v", got, want)
		}
		l.wantCount("audit entries", 1, `SELECT count(*) FROM audit_log WHERE object = $1`, text(want.ID))
	}
}

func TestCreateReplayJob_and_its_audit_entry_are_one_transaction(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.failCommits("audit_log")
	job := hub.ReplayJob{ID: hub.JobID{ID: newID()}, Kind: hub.JobReplay, CreatedAt: kept(), Pace: hub.ReplayPace{RatePerSecond: 1}}
	if err := l.db.CreateReplayJob(t.Context(), job, db.AuditEntry{ID: newID(), Action: "preview_replay"}); err == nil {
		t.Error("a commit that fails was taken for one that does not")
	}
	l.wantCount("jobs", 0, `SELECT count(*) FROM replay_jobs`)
}

func TestReplayJobPage(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	s := l.opened("acme")
	var all []hub.JobID
	for n := range 6 {
		switch n % 3 {
		case 0:
			all = append(all, l.job("acme", hub.ReplayFilter{}))
		case 1:
			all = append(all, s.backfill(hub.BackfillRange{}))
		case 2:
			all = append(all, l.job("", hub.ReplayFilter{}))
		}
	}
	l.previewed(all[0], 10)
	slices.Reverse(all) // 5…0
	pick := func(places ...int) (ids []hub.JobID) {
		for _, p := range places {
			ids = append(ids, all[len(all)-1-p])
		}
		return ids
	}
	for _, c := range []struct {
		name   string
		filter db.ReplayJobFilter
		want   []hub.JobID
	}{
		{"all", db.ReplayJobFilter{}, all},
		{"of_a_tenant", db.ReplayJobFilter{Tenant: "acme"}, pick(4, 3, 1, 0)},
		{"of_a_kind", db.ReplayJobFilter{Kinds: []hub.JobKind{hub.JobBackfill}}, pick(4, 1)},
		{"in_a_state", db.ReplayJobFilter{Tenant: "acme", States: []hub.JobState{hub.JobReady, hub.JobFailed}}, pick(0)},
	} {
		t.Run(c.name, func(t *testing.T) {
			var got []hub.JobID
			before := hub.ID{0xff}
			for more := true; more; {
				page, snapshot, err := l.db.ReplayJobPage(t.Context(), c.filter, before, 2)
				if err != nil || snapshot == "" || len(page.Rows) > 2 {
					t.Fatalf("%d rows of %q, %v", len(page.Rows), snapshot, err)
				}
				for i := range page.Rows {
					got = append(got, page.Rows[i].ID)
				}
				before, more = page.End, page.More
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("listed %v,\nwant %v", got, c.want)
			}
		})
	}
}

func TestActiveReplayJobs(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	ids := make(map[hub.JobState]hub.JobID)
	for _, state := range []hub.JobState{
		hub.JobPreviewing, hub.JobCompleted, hub.JobReady, hub.JobCancelled, hub.JobRunning, hub.JobExpired, hub.JobPaused, hub.JobFailed,
	} {
		ids[state] = l.job("acme", hub.ReplayFilter{})
		by := "NULL"
		if state == hub.JobPaused {
			by = "'USER'"
		}
		l.exec(`UPDATE replay_jobs SET state = $2, paused_by = `+by+` WHERE id = $1`, text(ids[state]), string(state))
	}
	// One that waits to be started is people's affair until it has waited too long.
	l.exec(`UPDATE replay_jobs SET created_at = now() - interval '24 hours' WHERE id = $1`, text(ids[hub.JobReady]))
	waits := l.job("acme", hub.ReplayFilter{})
	l.exec(`UPDATE replay_jobs SET state = 'READY', created_at = now() - interval '23 hours 59 minutes' WHERE id = $1`, text(waits))
	for limit, want := range map[int][]hub.JobState{
		10: {hub.JobPreviewing, hub.JobReady, hub.JobRunning}, 2: {hub.JobPreviewing, hub.JobReady},
	} {
		list, err := l.db.ActiveReplayJobs(t.Context(), limit)
		if err != nil || len(list) != len(want) {
			t.Fatalf("%+v, %v", list, err)
		}
		for i, state := range want {
			if a := list[i]; a.ID != ids[state] || a.State != state || !a.CreatedAt.Equal(l.jobOf(a.ID).CreatedAt) {
				t.Errorf("%+v is not the one that is %s", a, state)
			}
		}
	}
}

func TestReplayJobs_behind_the_wall(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.opened("acme").died(2)
	own, wide := l.job("acme", hub.ReplayFilter{}), l.job("", hub.ReplayFilter{})
	l.started(own)
	l.started(wide)
	d := l.walled(2)
	acme, stranger, platform := db.OfTenant(t.Context(), "acme"), db.OfTenant(t.Context(), "stranger"), db.OfPlatform(t.Context())
	for _, c := range []struct {
		who  string
		ctx  context.Context
		want []hub.JobID
	}{{"acme", acme, []hub.JobID{own}}, {"stranger", stranger, nil}, {"the platform", platform, []hub.JobID{wide, own}}} {
		page, _, err := d.ReplayJobPage(c.ctx, db.ReplayJobFilter{}, hub.ID{0xff}, 10)
		var listed []hub.JobID
		for i := range page.Rows {
			listed = append(listed, page.Rows[i].ID)
		}
		if err != nil || !slices.Equal(listed, c.want) {
			t.Errorf("%s lists %v, %v; want %v", c.who, listed, err, c.want)
		}
		if list, err := d.ReplayJobsByID(c.ctx, []hub.JobID{own, wide}); err != nil || len(list) != len(c.want) {
			t.Errorf("%s reads %d jobs, %v; want %d", c.who, len(list), err, len(c.want))
		}
		change := db.ReplayChange{
			ID: wide, FeedID: newID(), Change: func(j *hub.ReplayJob, _ time.Time) (bool, error) { j.Reason = "x"; return true, nil },
			Audit: func(_, after *hub.ReplayJob) db.AuditEntry {
				return db.AuditEntry{ID: newID(), Tenant: after.Tenant, Action: "x", Object: "x"}
			},
		}
		if _, err := d.ChangeReplayJob(c.ctx, change); errors.Is(err, db.ErrChanged) == (c.who == "the platform") {
			t.Errorf("%s changes the job of all tenants: %v", c.who, err)
		}
		change.ID, change.Tenant, change.FeedID = own, "acme", newID()
		if _, err := d.ChangeReplayJob(c.ctx, change); errors.Is(err, db.ErrChanged) != (c.who == "stranger") {
			t.Errorf("%s changes the job of acme: %v", c.who, err)
		}
	}
	made := hub.ReplayJob{ID: hub.JobID{ID: newID()}, Tenant: "acme", Kind: hub.JobReplay, CreatedAt: kept(), Pace: hub.ReplayPace{RatePerSecond: 1}}
	audit := db.AuditEntry{ID: newID(), Tenant: "acme", Action: "preview_replay", Object: "x"}
	if err := d.CreateReplayJob(acme, made, audit); err != nil {
		t.Error(err)
	}
	for _, tenant := range []hub.TenantID{"acme", ""} {
		made.ID.ID, made.Tenant = newID(), tenant
		var pgErr *pgconn.PgError
		if err := d.CreateReplayJob(stranger, made, audit); !errors.As(err, &pgErr) || pgErr.Code != "42501" {
			t.Errorf("a stranger made a job of tenant %q: %v", tenant, err)
		}
	}
}
