package db

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/streaming-hub/streaming-hub/db/internal/dbsqlc"
	"github.com/streaming-hub/streaming-hub/hub"
	"github.com/streaming-hub/streaming-hub/hub/replay"
)

// StepReplay takes a job a step further, in one transaction: decide says how,
// at a time of the database's clock, and the items that it lets go are released
// or skipped. did is false when nothing came of it but a new PacedTo, or when
// another replica is at the job.
//
// An item leaves PENDING in the transaction that makes its queue row, under the
// job's row lock, so it is released once however often a step is broken off.
func (d *DB) StepReplay(ctx context.Context, id hub.JobID, feedID hub.ID, decide func(j *hub.ReplayJob, now time.Time) replay.Step) (did bool, err error) {
	err = pgx.BeginFunc(ctx, d.pool, func(tx pgx.Tx) error {
		rows, err := d.queries.TryReplayJob(ctx, tx, id.ID)
		if err != nil || len(rows) == 0 {
			return err
		}
		row, now := &rows[0].ReplayJob, rows[0].LockedAt
		// Read behind the lock: nothing is counted of what is not released yet.
		jobs, err := d.replayJobs(ctx, tx, []dbsqlc.ReplayJob{*row})
		if err != nil {
			return err
		}
		before := jobs[0]
		step := decide(&before, now)
		after := before
		after.PacedTo, after.CanaryPassed = step.PacedTo, step.CanaryPassed
		after.State, after.PausedBy, after.Reason = step.State, step.PausedBy, step.Reason
		if after.State.Ended() && !before.State.Ended() {
			after.FinishedAt = now
		}
		next := row.NextOrdinal
		if step.Release > 0 {
			if next, err = d.releaseNext(ctx, tx, row, &before, &after, step.Release); err != nil {
				return err
			}
		}
		did = after.Released != before.Released || after.Skipped != before.Skipped || after.State != before.State ||
			after.CanaryPassed != before.CanaryPassed || after.Reason != before.Reason
		// Outcomes count without a word: who watches the job hears of them here.
		tell := did || counts(&after) != row.Told
		if !tell && after.PacedTo.Equal(before.PacedTo) {
			return nil
		}
		told := row.Told
		if tell {
			told = counts(&after)
		}
		if err := d.queries.UpdateReplayJob(ctx, tx, replayUpdateOf(&after, next, told)); err != nil || !tell {
			return err
		}
		if err := d.queueNotices(ctx, tx, feedID, []hub.Notice{replayNotice(&after, now)}); err != nil {
			return err
		}
		if after.Released == before.Released {
			return nil
		}
		return d.queries.NotifyDue(ctx, tx)
	})
	if err != nil {
		return false, fmt.Errorf("step replay job %s: %w", id, err)
	}
	return did, nil
}

// counts is a number that grows with all that a job tells of its items.
func counts(j *hub.ReplayJob) int64 {
	return j.Released + j.Skipped + j.Tried + j.Failed + j.Delivered + j.Dead
}

// release is what becomes of items: "" for those that went to the queue, else
// why not.
type release map[hub.ID]string

// releaseNext releases the next items of a locked job, counts them in after,
// and returns the ordinal from which the step after this one goes on.
func (d *DB) releaseNext(ctx context.Context, tx pgx.Tx, row *dbsqlc.ReplayJob, before, after *hub.ReplayJob, most int) (next int64, err error) {
	if _, err := tx.Exec(ctx, byIndex+"; "+planAnew); err != nil {
		return 0, err
	}
	items, err := d.queries.ReplayItemsFrom(ctx, tx, dbsqlc.ReplayItemsFromParams{
		JobID: row.ID, FromOrdinal: row.NextOrdinal, Most: int32(most),
	})
	if err != nil {
		return 0, err
	}
	// Items past their retention are gone, and with them the list of what
	// their job was to do.
	after.Skipped += max(min(int64(most), before.Pending())-int64(len(items)), 0)
	if len(items) == 0 {
		return row.NextOrdinal, nil
	}
	var notes release
	if before.Kind == hub.JobBackfill {
		notes, err = d.releaseEvents(ctx, tx, before, items)
	} else {
		notes, err = d.releaseRuns(ctx, tx, before, items)
	}
	if err != nil {
		return 0, err
	}
	settled := dbsqlc.SettleReplayItemsParams{JobID: row.ID}
	for i := range items {
		note := notes[items[i].DeliveryID]
		if note == "" {
			after.Released++
		} else {
			after.Skipped++
		}
		settled.DeliveryIds, settled.Notes = append(settled.DeliveryIds, items[i].DeliveryID), append(settled.Notes, note)
	}
	return items[len(items)-1].Ordinal + 1, d.queries.SettleReplayItems(ctx, tx, settled)
}
