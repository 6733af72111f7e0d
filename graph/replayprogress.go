package graph

import (
	"context"

	"github.com/streaming-hub/streaming-hub/controlplane"
	"github.com/streaming-hub/streaming-hub/graph/model"
	"github.com/streaming-hub/streaming-hub/hub"
)

func (r subscriptionResolver) ReplayProgress(ctx context.Context, filter *model.ReplayProgressFilter, after *string) (<-chan model.ReplayProgressItem, error) {
	tenant, job, possible := replayProgressFilter(filter)
	return follow(ctx, r.Feed, controlplane.LiveReplays(tenant, job), possible, after, toReplayItem)
}

func (r replayProgressResolver) ReplayJob(ctx context.Context, obj *model.ReplayProgress) (*model.ReplayJob, error) {
	j, err := load(ctx, loadersOf(ctx).replayJobs, obj.Of)
	return r.toReplayJob(j), err
}

// replayProgressFilter reads a filter; possible is false when it names an id
// that cannot exist.
func replayProgressFilter(m *model.ReplayProgressFilter) (tenant hub.TenantID, job hub.JobID, possible bool) {
	if m == nil {
		return "", job, true
	}
	possible = true
	if m.JobID != nil {
		job.ID, possible = parseGlobalID(jobPrefix, *m.JobID)
	}
	return hub.TenantID(value(m.TenantID)), job, possible
}

func toReplayItem(i controlplane.LiveItem) model.ReplayProgressItem {
	if i.Gap != nil {
		return toGap(i.Cursor, i.Gap)
	}
	n := i.Item.Notice
	p := n.Replay
	return &model.ReplayProgress{
		Cursor: i.Cursor.String(), At: n.At, TenantID: optional(string(n.Tenant)), JobID: globalID(jobPrefix, p.Job.ID), State: p.State,
		Total: p.Total, Released: p.Released, Skipped: p.Skipped, Tried: p.Tried, Failed: p.Failed,
		Delivered: p.Delivered, Dead: p.Dead, Reason: optional(n.Reason), Of: p.Job,
	}
}
