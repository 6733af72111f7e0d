package controlplane

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/streaming-hub/streaming-hub/db"
	"github.com/streaming-hub/streaming-hub/hub"
	"github.com/streaming-hub/streaming-hub/hub/replay"
)

// Replays makes, shows and steers replay jobs: replays of settled deliveries
// and backfills. The data plane freezes their sets and releases them.
type Replays struct {
	DB     *db.DB
	Now    func() time.Time
	Random io.Reader // crypto/rand.Reader
}

// Page gives up to limit jobs behind the id before, the newest first, and the
// snapshot of the page; see db.Page about short pages. Jobs over all tenants
// are for platform actors.
func (r *Replays) Page(ctx context.Context, a Actor, f db.ReplayJobFilter, before hub.ID, limit int) (page db.Page[hub.ReplayJob], snapshot string, err error) {
	tenant, none := a.narrow(f.Tenant)
	if none {
		snapshot, err = r.DB.FeedSnapshot(ctx)
		return page, snapshot, err
	}
	f.Tenant = tenant
	return r.DB.ReplayJobPage(ctx, f, before, limit)
}

// ByID gives the jobs that exist and that the actor sees.
func (r *Replays) ByID(ctx context.Context, a Actor, ids []hub.JobID) ([]hub.ReplayJob, error) {
	list, err := r.DB.ReplayJobsByID(ctx, ids)
	return slices.DeleteFunc(list, func(j hub.ReplayJob) bool { return !a.Sees(j.Tenant) }), err
}

// ReplayStart is which job is to run, and how; nil leaves what its preview was
// asked with.
type ReplayStart struct {
	ID                              string // global id
	Rate, Canary, PauseAbovePercent *int32
}

func (s *ReplayStart) pace(previewed hub.ReplayPace) hub.ReplayPace {
	for to, given := range map[*int32]*int32{
		&previewed.RatePerSecond: s.Rate, &previewed.Canary: s.Canary, &previewed.PauseAbovePercent: s.PauseAbovePercent,
	} {
		if given != nil {
			*to = *given
		}
	}
	return previewed
}

// Start lets a previewed replay run. One that runs already, at the same pace,
// stays as it is.
func (r *Replays) Start(ctx context.Context, a Actor, s ReplayStart) (hub.ReplayJob, []UserError, error) {
	return r.start(ctx, a, s, hub.JobReplay, auditStartReplay)
}

// StartBackfill is Start for a backfill.
func (r *Replays) StartBackfill(ctx context.Context, a Actor, s ReplayStart) (hub.ReplayJob, []UserError, error) {
	return r.start(ctx, a, s, hub.JobBackfill, auditStartBackfill)
}

func (r *Replays) start(ctx context.Context, a Actor, s ReplayStart, kind hub.JobKind, action string) (hub.ReplayJob, []UserError, error) {
	job, mistakes, err := r.find(ctx, a, s.ID)
	if err != nil || mistakes != nil {
		return job, mistakes, err
	}
	if job.Kind != kind {
		return job, []UserError{wrongKind(job.Kind)}, nil
	}
	if mistakes := checkPace(s.pace(job.Pace)); mistakes != nil {
		return job, mistakes, nil
	}
	why, err := r.whyNothing(ctx, a, &job)
	if err != nil {
		return job, nil, err
	}
	return r.change(ctx, a, &job, action, func(j *hub.ReplayJob, now time.Time) (bool, error) {
		if j.State == hub.JobReady && why != "" {
			return false, userError(Invalid, jobPath(), "%s", why)
		}
		return replay.Start(j, s.pace(j.Pace), now)
	})
}

// whyNothing says why a previewed job would deliver nothing; "" when it would.
func (r *Replays) whyNothing(ctx context.Context, a Actor, j *hub.ReplayJob) (string, error) {
	named := j.Filter.Subscription
	if j.Kind == hub.JobBackfill {
		named = j.Range.Subscription
	}
	switch {
	case !named.IsZero():
		sub, err := r.subscription(ctx, a, named)
		return whyTakesNone(sub), err
	case j.Total == 0 && j.Undeliverable > 0:
		return "nothing can be delivered: the event subscriptions of all deliveries that the filter names are gone, disabled or not verified, or the events are past their retention", nil
	}
	return "", nil
}

// Pause holds back what a job has not released yet.
func (r *Replays) Pause(ctx context.Context, a Actor, id, reason string) (hub.ReplayJob, []UserError, error) {
	reason, mistakes := checkReason(reason)
	if mistakes != nil {
		return hub.ReplayJob{}, mistakes, nil
	}
	return r.steer(ctx, a, id, auditPauseReplay, func(j *hub.ReplayJob, _ time.Time) (bool, error) { return replay.Pause(j, reason) })
}

// Resume lets a paused job go on.
func (r *Replays) Resume(ctx context.Context, a Actor, id string) (hub.ReplayJob, []UserError, error) {
	return r.steer(ctx, a, id, auditResumeReplay, replay.Resume)
}

// Cancel gives up what a job has not released yet.
func (r *Replays) Cancel(ctx context.Context, a Actor, id, reason string) (hub.ReplayJob, []UserError, error) {
	reason, mistakes := checkReason(reason)
	if mistakes != nil {
		return hub.ReplayJob{}, mistakes, nil
	}
	return r.steer(ctx, a, id, auditCancelReplay, func(j *hub.ReplayJob, now time.Time) (bool, error) { return replay.Cancel(j, reason, now) })
}

// transition alters a job at a time of the database's clock.
type transition func(j *hub.ReplayJob, now time.Time) (changed bool, err error)

func (r *Replays) steer(ctx context.Context, a Actor, id, action string, do transition) (hub.ReplayJob, []UserError, error) {
	job, mistakes, err := r.find(ctx, a, id)
	if err != nil || mistakes != nil {
		return job, mistakes, err
	}
	return r.change(ctx, a, &job, action, do)
}

// change makes a transition of a job that was found, and turns its refusals
// into user errors.
func (r *Replays) change(ctx context.Context, a Actor, job *hub.ReplayJob, action string, do transition) (hub.ReplayJob, []UserError, error) {
	now := r.Now()
	after, err := r.DB.ChangeReplayJob(ctx, db.ReplayChange{
		ID: job.ID, Tenant: job.Tenant, FeedID: hub.NewID(now, r.Random), Change: do,
		Audit: func(before, after *hub.ReplayJob) db.AuditEntry {
			return a.auditEntry(now, r.Random, after.Tenant, action, GlobalID(JobIDs, after.ID.ID), jobForAudit(before), jobForAudit(after))
		},
	})
	var refused replay.Refusal
	switch mistakes, ok := asUserErrors(err); {
	case ok:
		return after, mistakes, nil
	case errors.As(err, &refused):
		return after, []UserError{userError(Conflict, jobPath(), "%s", refused)}, nil
	case errors.Is(err, db.ErrChanged):
		return after, []UserError{noJob()}, nil
	}
	return after, nil, err
}

// find gives a job that exists and that the actor sees, by its global id.
func (r *Replays) find(ctx context.Context, a Actor, id string) (hub.ReplayJob, []UserError, error) {
	key, _ := ParseGlobalID(JobIDs, id) // what is no id finds nothing
	list, err := r.ByID(ctx, a, []hub.JobID{{ID: key}})
	switch {
	case err != nil:
		return hub.ReplayJob{}, nil, err
	case len(list) == 0:
		return hub.ReplayJob{}, []UserError{noJob()}, nil
	}
	return list[0], nil, nil
}

func jobPath() []string { return []string{"input", "id"} }

func noJob() UserError { return userError(NotFound, jobPath(), "there is no such replay job") }

func wrongKind(is hub.JobKind) UserError {
	if is == hub.JobBackfill {
		return userError(Invalid, jobPath(), "the job is a backfill: start it with startBackfill")
	}
	return userError(Invalid, jobPath(), "the job is a replay: start it with startReplay")
}

// checkReason refuses a reason that cannot be kept; "" is none.
func checkReason(text string) (string, []UserError) {
	text = strings.TrimSpace(text)
	if err := checkText("reason", text, maxReason); err != nil {
		return "", []UserError{userError(Invalid, []string{"input", "reason"}, "%s", err)}
	}
	return text, nil
}

// checkPace tells every mistake of a pace, by the rules that a start obeys.
func checkPace(p hub.ReplayPace) (mistakes []UserError) {
	for _, one := range []struct {
		field string
		alone hub.ReplayPace
	}{
		{"ratePerSecond", hub.ReplayPace{RatePerSecond: p.RatePerSecond}},
		{"canary", hub.ReplayPace{RatePerSecond: 1, Canary: p.Canary}},
		{"pauseAbovePercent", hub.ReplayPace{RatePerSecond: 1, PauseAbovePercent: p.PauseAbovePercent}},
	} {
		if err := replay.CheckPace(one.alone); err != nil {
			mistakes = append(mistakes, userError(Invalid, []string{"input", one.field}, "%s", err))
		}
	}
	return mistakes
}
