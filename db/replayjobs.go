package db

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/streaming-hub/streaming-hub/db/internal/dbsqlc"
	"github.com/streaming-hub/streaming-hub/hub"
	"github.com/streaming-hub/streaming-hub/hub/replay"
)

// CreateReplayJob stores a job whose set is not frozen yet, with the audit
// log's entry for it. Of the job what was asked for is stored; the rest begins
// at zero.
func (d *DB) CreateReplayJob(ctx context.Context, job hub.ReplayJob, audit AuditEntry) error {
	wanted, err := encodeWanted(&job)
	if err != nil {
		return err
	}
	err = pgx.BeginFunc(ctx, d.pool, func(tx pgx.Tx) error {
		if err := d.queries.InsertReplayJob(ctx, tx, dbsqlc.InsertReplayJobParams{
			ID: job.ID.ID, TenantID: string(job.Tenant), Kind: string(job.Kind), Wanted: wanted,
			RatePerSecond: job.Pace.RatePerSecond, Canary: job.Pace.Canary, PauseAbovePercent: job.Pace.PauseAbovePercent,
			CreatedBy: job.CreatedBy.ID, CreatedByName: job.CreatedByName, CreatedAt: job.CreatedAt,
		}); err != nil {
			return err
		}
		return d.audit(ctx, tx, audit)
	})
	if err != nil {
		return fmt.Errorf("create replay job %s: %w", job.ID, err)
	}
	return nil
}

// ReplayJobsByID reads jobs; those that do not exist are missing.
func (d *DB) ReplayJobsByID(ctx context.Context, ids []hub.JobID) (list []hub.ReplayJob, err error) {
	keys := make([]hub.ID, len(ids))
	for i, id := range ids {
		keys[i] = id.ID
	}
	err = pgx.BeginTxFunc(ctx, d.pool, snapshotRead, func(tx pgx.Tx) error {
		rows, err := d.queries.ReplayJobsByID(ctx, tx, keys)
		if err != nil {
			return err
		}
		list, err = d.replayJobs(ctx, tx, rows)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read %d replay jobs: %w", len(ids), err)
	}
	return list, nil
}

// ReplayJobFilter says which jobs are listed; zero fields do not filter.
type ReplayJobFilter struct {
	Tenant hub.TenantID // jobs over all tenants are of none
	Kinds  []hub.JobKind
	States []hub.JobState
}

func (f *ReplayJobFilter) passes(j *hub.ReplayJob) bool {
	return (len(f.Kinds) == 0 || slices.Contains(f.Kinds, j.Kind)) &&
		(len(f.States) == 0 || slices.Contains(f.States, j.State))
}

// ReplayJobPage reads up to limit jobs with smaller ids than before, the newest
// first, and the snapshot of the live feed in which it did. A page can be short
// while More is true.
func (d *DB) ReplayJobPage(ctx context.Context, f ReplayJobFilter, before hub.ID, limit int) (page Page[hub.ReplayJob], snapshot string, err error) {
	narrow := len(f.Kinds) > 0 || len(f.States) > 0
	err = pgx.BeginTxFunc(ctx, d.pool, snapshotRead, func(tx pgx.Tx) error {
		page, err = walkDown(before, limit, narrow, replayJobID, func(before hub.ID, chunk int) ([]hub.ReplayJob, error) {
			return d.replayJobsBelow(ctx, tx, f.Tenant, before, chunk)
		}, func(chunk []hub.ReplayJob) ([]bool, error) {
			pass := make([]bool, len(chunk))
			for i := range chunk {
				pass[i] = f.passes(&chunk[i])
			}
			return pass, nil
		})
		if err != nil {
			return err
		}
		snapshot, err = d.queries.FeedSnapshot(ctx, tx)
		return err
	})
	if err != nil {
		return page, "", fmt.Errorf("list replay jobs: %w", err)
	}
	return page, snapshot, nil
}

func replayJobID(j *hub.ReplayJob) hub.ID { return j.ID.ID }

func (d *DB) replayJobsBelow(ctx context.Context, tx pgx.Tx, tenant hub.TenantID, before hub.ID, chunk int) ([]hub.ReplayJob, error) {
	var rows []dbsqlc.ReplayJob
	var err error
	if tenant == "" {
		rows, err = d.queries.ReplayJobPage(ctx, tx, dbsqlc.ReplayJobPageParams{Before: before, Page: int32(chunk)})
	} else {
		rows, err = d.queries.ReplayJobPageOfTenant(ctx, tx, dbsqlc.ReplayJobPageOfTenantParams{
			TenantID: string(tenant), Before: before, Page: int32(chunk),
		})
	}
	if err != nil {
		return nil, err
	}
	return d.replayJobs(ctx, tx, rows)
}

// ActiveJob is a job that the data plane has to do something about.
type ActiveJob struct {
	ID        hub.JobID
	State     hub.JobState // PREVIEWING, READY or RUNNING
	CreatedAt time.Time
}

// ActiveReplayJobs reads up to limit of them, the oldest first. READY ones are
// among them once they have waited for [replay.MaxWait]: until then only people
// do something about them, however many there are.
func (d *DB) ActiveReplayJobs(ctx context.Context, limit int) ([]ActiveJob, error) {
	rows, err := d.queries.ActiveReplayJobs(ctx, d.pool, dbsqlc.ActiveReplayJobsParams{ReadyFor: interval(replay.MaxWait), Most: int32(limit)})
	if err != nil {
		return nil, fmt.Errorf("look for active replay jobs: %w", err)
	}
	list := make([]ActiveJob, len(rows))
	for i, r := range rows {
		list[i] = ActiveJob{ID: hub.JobID{ID: r.ID}, State: hub.JobState(r.State), CreatedAt: r.CreatedAt}
	}
	return list, nil
}

// ReplayChange is what a person does to a job.
type ReplayChange struct {
	ID     hub.JobID
	Tenant hub.TenantID // of the job
	FeedID hub.ID       // of the row in the live feed that tells of it
	// Change alters the job, at a time of the database's clock, and says
	// whether it did. Its error ends the change and is returned inside the
	// result's error.
	Change func(j *hub.ReplayJob, now time.Time) (changed bool, err error)
	// Audit makes the audit log's entry for a change.
	Audit func(before, after *hub.ReplayJob) AuditEntry
}

// ChangeReplayJob changes a job and returns it as it then stands; nobody steps
// it meanwhile. It is ErrChanged when the tenant has no such job.
func (d *DB) ChangeReplayJob(ctx context.Context, c ReplayChange) (after hub.ReplayJob, err error) {
	err = pgx.BeginFunc(ctx, d.pool, func(tx pgx.Tx) error {
		rows, err := d.queries.LockReplayJob(ctx, tx, dbsqlc.LockReplayJobParams{ID: c.ID.ID, TenantID: string(c.Tenant)})
		if err != nil {
			return err
		}
		if len(rows) == 0 {
			return ErrChanged
		}
		row := &rows[0].ReplayJob
		jobs, err := d.replayJobs(ctx, tx, []dbsqlc.ReplayJob{*row})
		if err != nil {
			return err
		}
		before := jobs[0]
		after = before
		changed, err := c.Change(&after, rows[0].LockedAt)
		if err != nil || !changed {
			return err
		}
		after.Version = before.Version + 1
		if err := d.queries.UpdateReplayJob(ctx, tx, replayUpdateOf(&after, row.NextOrdinal, counts(&after))); err != nil {
			return err
		}
		if err := d.queueNotices(ctx, tx, c.FeedID, []hub.Notice{replayNotice(&after, rows[0].LockedAt)}); err != nil {
			return err
		}
		return d.audit(ctx, tx, c.Audit(&before, &after))
	})
	if err != nil {
		return after, fmt.Errorf("change replay job %s: %w", c.ID, err)
	}
	return after, nil
}

// replayUpdateOf is what the API and the runner change of a job.
func replayUpdateOf(j *hub.ReplayJob, nextOrdinal, told int64) dbsqlc.UpdateReplayJobParams {
	return dbsqlc.UpdateReplayJobParams{
		ID: j.ID.ID, State: string(j.State), Version: j.Version,
		RatePerSecond: j.Pace.RatePerSecond, Canary: j.Pace.Canary, PauseAbovePercent: j.Pace.PauseAbovePercent,
		NextOrdinal: nextOrdinal, Released: j.Released, Skipped: j.Skipped,
		PacedTo: timeOrNull(j.PacedTo), Told: told, CanaryPassed: j.CanaryPassed, JudgedTried: j.JudgedTried, JudgedFailed: j.JudgedFailed,
		PausedBy: textOrNull(string(j.PausedBy)), Reason: j.Reason,
		PreviewedAt: timeOrNull(j.PreviewedAt), StartedAt: timeOrNull(j.StartedAt), FinishedAt: timeOrNull(j.FinishedAt),
	}
}

// replayNotice tells the live feed how a job stands.
func replayNotice(j *hub.ReplayJob, at time.Time) hub.Notice {
	return hub.Notice{
		Kind: hub.NoticeReplayProgress, At: at, Tenant: j.Tenant, Reason: j.Reason,
		Subscription: j.Range.Subscription,
		Replay: &hub.ReplayNotice{
			Job: j.ID, State: j.State, Total: j.Total, Released: j.Released, Skipped: j.Skipped,
			Tried: j.Tried, Failed: j.Failed, Delivered: j.Delivered, Dead: j.Dead,
		},
	}
}
