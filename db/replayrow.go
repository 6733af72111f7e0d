package db

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/streaming-hub/streaming-hub/db/internal/dbsqlc"
	"github.com/streaming-hub/streaming-hub/hub"
)

// replayWanted is the JSON in replay_jobs.wanted: Filter of a REPLAY, Range of
// a BACKFILL.
type replayWanted struct {
	Filter *filterWanted `json:"filter,omitempty"`
	Range  *rangeWanted  `json:"range,omitempty"`
}

type filterWanted struct {
	Deliveries    []hub.DeliveryID   `json:"deliveries,omitempty"`
	Subscription  hub.SubscriptionID `json:"subscription,omitzero"`
	Destination   hub.DestinationID  `json:"destination,omitzero"`
	EventType     string             `json:"eventType,omitempty"`
	States        []hub.State        `json:"states,omitempty"`
	Reasons       []hub.DeadReason   `json:"reasons,omitempty"`
	Fingerprint   []byte             `json:"fingerprint,omitempty"`
	CreatedAfter  time.Time          `json:"createdAfter,omitzero"`
	CreatedBefore time.Time          `json:"createdBefore,omitzero"`
	EndedAfter    time.Time          `json:"endedAfter,omitzero"`
	EndedBefore   time.Time          `json:"endedBefore,omitzero"`
}

type rangeWanted struct {
	Subscription   hub.SubscriptionID `json:"subscription"`
	FirstSeq       int64              `json:"firstSeq,omitempty"`
	LastSeq        int64              `json:"lastSeq,omitempty"`
	ReceivedAfter  time.Time          `json:"receivedAfter,omitzero"`
	ReceivedBefore time.Time          `json:"receivedBefore,omitzero"`
}

func encodeWanted(j *hub.ReplayJob) ([]byte, error) {
	var w replayWanted
	if j.Kind == hub.JobBackfill {
		r := rangeWanted(j.Range)
		w.Range = &r
	} else {
		f := filterWanted(j.Filter)
		w.Filter = &f
	}
	raw, err := json.Marshal(w)
	if err != nil {
		return nil, fmt.Errorf("encode what replay job %s is about: %w", j.ID, err)
	}
	return raw, nil
}

// replayJobs joins jobs with what outcomes have counted.
func (d *DB) replayJobs(ctx context.Context, tx dbsqlc.DBTX, rows []dbsqlc.ReplayJob) ([]hub.ReplayJob, error) {
	if len(rows) == 0 {
		return nil, nil
	}
	ids := make([]hub.ID, len(rows))
	for i := range rows {
		ids[i] = rows[i].ID
	}
	counted, err := d.queries.ReplayProgressOf(ctx, tx, ids)
	if err != nil {
		return nil, err
	}
	progress := make(map[hub.ID]dbsqlc.ReplayProgressOfRow, len(counted))
	for _, p := range counted {
		progress[p.JobID] = p
	}
	list := make([]hub.ReplayJob, len(rows))
	for i := range rows {
		if list[i], err = replayJobOf(&rows[i]); err != nil {
			return nil, err
		}
		p := progress[rows[i].ID]
		list[i].Tried, list[i].Failed, list[i].Delivered, list[i].Dead = p.Tried, p.Failed, p.Delivered, p.Dead
	}
	return list, nil
}

// replayJobOf is a job without what outcomes have counted.
func replayJobOf(r *dbsqlc.ReplayJob) (hub.ReplayJob, error) {
	j := hub.ReplayJob{
		ID: hub.JobID{ID: r.ID}, Tenant: hub.TenantID(r.TenantID), Kind: hub.JobKind(r.Kind), State: hub.JobState(r.State), Version: r.Version,
		Pace:  hub.ReplayPace{RatePerSecond: r.RatePerSecond, Canary: r.Canary, PauseAbovePercent: r.PauseAbovePercent},
		Total: r.Total, AlreadyDelivered: r.AlreadyDelivered, PossibleDuplicates: r.PossibleDuplicates, Undeliverable: r.Undeliverable,
		Released: r.Released, Skipped: r.Skipped, PacedTo: timeOf(r.PacedTo), CanaryPassed: r.CanaryPassed,
		JudgedTried: r.JudgedTried, JudgedFailed: r.JudgedFailed, PausedBy: hub.DisabledBy(orZero(r.PausedBy)), Reason: r.Reason,
		CreatedBy: hub.TokenID{ID: r.CreatedBy}, CreatedByName: r.CreatedByName, CreatedAt: r.CreatedAt,
		PreviewedAt: timeOf(r.PreviewedAt), StartedAt: timeOf(r.StartedAt), FinishedAt: timeOf(r.FinishedAt),
	}
	var w replayWanted
	if err := json.Unmarshal(r.Wanted, &w); err != nil {
		return j, fmt.Errorf("read what replay job %s is about: %w", r.ID, err)
	}
	if w.Filter != nil {
		j.Filter = hub.ReplayFilter(*w.Filter)
	}
	if w.Range != nil {
		j.Range = hub.BackfillRange(*w.Range)
	}
	if err := json.Unmarshal(r.Shares, &j.Shares); err != nil {
		return j, fmt.Errorf("read the shares of replay job %s: %w", r.ID, err)
	}
	return j, nil
}
