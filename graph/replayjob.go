package graph

import (
	"cmp"
	"context"
	"encoding/hex"
	"slices"
	"time"

	"github.com/streaming-hub/streaming-hub/db"
	"github.com/streaming-hub/streaming-hub/graph/model"
	"github.com/streaming-hub/streaming-hub/hub"
	"github.com/streaming-hub/streaming-hub/hub/replay"
)

func (r queryResolver) ReplayJob(ctx context.Context, id string) (*model.ReplayJob, error) {
	key, ok := parseGlobalID(jobPrefix, id)
	if !ok {
		return nil, nil
	}
	j, err := load(ctx, loadersOf(ctx).replayJobs, hub.JobID{ID: key})
	return r.toReplayJob(j), err
}

func (r queryResolver) ReplayJobs(ctx context.Context, first int32, after *string, filter *model.ReplayJobFilter) (*model.ReplayJobConnection, error) {
	size, err := pageSize(first)
	if err != nil {
		return nil, err
	}
	before, err := idBehind(byJobID, after)
	if err != nil {
		return nil, err
	}
	page, snapshot, err := r.Replays.Page(ctx, actorOf(ctx), replayJobFilter(filter), before, size)
	if err != nil {
		return nil, err
	}
	return r.replayJobConnection(&page, snapshot)
}

func (r replayJobResolver) ByDestination(ctx context.Context, obj *model.ReplayJob, first int32) ([]*model.ReplayShare, error) {
	size, err := pageSize(first)
	if err != nil {
		return nil, err
	}
	shares := slices.SortedStableFunc(slices.Values(obj.Of.Shares), func(a, b hub.DestinationShare) int { return cmp.Compare(b.Count, a.Count) })
	list := []*model.ReplayShare{}
	for _, s := range shares[:min(size, len(shares))] {
		list = append(list, &model.ReplayShare{DestinationID: globalID(destinationPrefix, s.Destination.ID), Count: s.Count, Of: s.Destination})
	}
	return list, nil
}

func (r replayJobResolver) EstimatedDuration(ctx context.Context, obj *model.ReplayJob) (*time.Duration, error) {
	if obj.Of.PreviewedAt.IsZero() {
		return nil, nil
	}
	rates, err := rateLimits(ctx, obj.Of.Shares)
	if err != nil {
		return nil, err
	}
	d := replay.Estimate(obj.Of, func(id hub.DestinationID) (float64, bool) { return rates[id], rates[id] > 0 })
	return &d, nil
}

// rateLimits are the limits of destinations that have one, in attempts per
// second.
func rateLimits(ctx context.Context, shares []hub.DestinationShare) (map[hub.DestinationID]float64, error) {
	ids := make([]hub.DestinationID, len(shares))
	for i := range shares {
		ids[i] = shares[i].Destination
	}
	list, err := loadAll(ctx, loadersOf(ctx).destinations, ids)
	rates := map[hub.DestinationID]float64{}
	for _, d := range list {
		if d != nil && d.RateLimit > 0 {
			rates[d.ID] = float64(d.RateLimit)
		}
	}
	return rates, err
}

func (r replayShareResolver) Destination(ctx context.Context, obj *model.ReplayShare) (*model.Destination, error) {
	d, err := load(ctx, loadersOf(ctx).destinations, obj.Of)
	return toDestination(d), err
}

func (r *Resolver) toReplayJob(j *hub.ReplayJob) *model.ReplayJob {
	if j == nil {
		return nil
	}
	m := &model.ReplayJob{
		ID: globalID(jobPrefix, j.ID.ID), Kind: j.Kind, State: j.State, TenantID: optional(string(j.Tenant)),
		RatePerSecond: j.Pace.RatePerSecond, Canary: j.Pace.Canary, PauseAbovePercent: j.Pace.PauseAbovePercent,
		Total: j.Total, DestinationCount: int32(len(j.Shares)), AlreadyDelivered: j.AlreadyDelivered,
		PossibleDuplicates: j.PossibleDuplicates, Undeliverable: j.Undeliverable,
		Pending: j.Pending(), Released: j.Released, Skipped: j.Skipped,
		Tried: j.Tried, Failed: j.Failed, Delivered: j.Delivered, Dead: j.Dead,
		PausedBy: optional(j.PausedBy), Reason: optional(j.Reason), Explanation: replay.Explain(j, r.Now()),
		Version: j.Version, CreatedBy: j.CreatedByName, CreatedAt: j.CreatedAt,
		PreviewedAt: optional(j.PreviewedAt), StartedAt: optional(j.StartedAt), FinishedAt: optional(j.FinishedAt), Of: j,
	}
	if j.Kind == hub.JobBackfill {
		m.Range = toBackfillRange(&j.Range)
	} else {
		m.Filter = toReplayFilter(&j.Filter)
	}
	return m
}

func toReplayFilter(f *hub.ReplayFilter) *model.ReplayFilter {
	m := &model.ReplayFilter{
		EventType: optional(f.EventType), States: f.States, Reason: f.Reasons, Fingerprint: optional(hex.EncodeToString(f.Fingerprint)),
		CreatedAfter: optional(f.CreatedAfter), CreatedBefore: optional(f.CreatedBefore),
		EndedAfter: optional(f.EndedAfter), EndedBefore: optional(f.EndedBefore),
	}
	for _, id := range f.Deliveries {
		m.Ids = append(m.Ids, globalID(deliveryPrefix, id.ID))
	}
	if len(m.States) == 0 {
		m.States = []hub.State{hub.Dead}
	}
	if !f.Subscription.IsZero() {
		m.EventSubscriptionID = optional(globalID(subscriptionPrefix, f.Subscription.ID))
	}
	if !f.Destination.IsZero() {
		m.DestinationID = optional(globalID(destinationPrefix, f.Destination.ID))
	}
	return m
}

func toBackfillRange(r *hub.BackfillRange) *model.BackfillRange {
	return &model.BackfillRange{
		EventSubscriptionID: globalID(subscriptionPrefix, r.Subscription.ID), FirstSeq: optional(r.FirstSeq), LastSeq: optional(r.LastSeq),
		ReceivedAfter: optional(r.ReceivedAfter), ReceivedBefore: optional(r.ReceivedBefore),
	}
}

func (r *Resolver) replayJobConnection(page *db.Page[hub.ReplayJob], snapshot string) (*model.ReplayJobConnection, error) {
	c := &model.ReplayJobConnection{Edges: []*model.ReplayJobEdge{}, Nodes: []*model.ReplayJob{}}
	end := ""
	for i := range page.Rows {
		node := r.toReplayJob(&page.Rows[i])
		end = cursorOfID(byJobID, page.Rows[i].ID.ID)
		c.Nodes = append(c.Nodes, node)
		c.Edges = append(c.Edges, &model.ReplayJobEdge{Cursor: end, Node: node})
	}
	if page.More {
		end = cursorOfID(byJobID, page.End)
	}
	c.PageInfo = pageInfo(page.More, end)
	var err error
	c.LiveCursor, err = liveCursor(snapshot)
	return c, err
}

func replayJobFilter(m *model.ReplayJobFilter) db.ReplayJobFilter {
	if m == nil {
		return db.ReplayJobFilter{}
	}
	return db.ReplayJobFilter{Tenant: hub.TenantID(value(m.TenantID)), Kinds: m.Kind, States: m.State}
}
