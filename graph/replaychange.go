package graph

import (
	"context"

	"github.com/streaming-hub/streaming-hub/controlplane"
	"github.com/streaming-hub/streaming-hub/graph/model"
	"github.com/streaming-hub/streaming-hub/hub"
)

func (r mutationResolver) PreviewReplay(ctx context.Context, input model.PreviewReplayInput) (*model.PreviewReplayPayload, error) {
	j, mistakes, err := r.Replays.Preview(ctx, actorOf(ctx), replayWish(&input))
	return &model.PreviewReplayPayload{ReplayJob: r.changedJob(&j, mistakes), UserErrors: userErrors(mistakes)}, err
}

func (r mutationResolver) StartReplay(ctx context.Context, input model.StartReplayInput) (*model.StartReplayPayload, error) {
	j, mistakes, err := r.Replays.Start(ctx, actorOf(ctx), controlplane.ReplayStart{
		ID: input.ID, Rate: input.RatePerSecond, Canary: input.Canary, PauseAbovePercent: input.PauseAbovePercent,
	})
	return &model.StartReplayPayload{ReplayJob: r.changedJob(&j, mistakes), UserErrors: userErrors(mistakes)}, err
}

func (r mutationResolver) PauseReplay(ctx context.Context, input model.PauseReplayInput) (*model.PauseReplayPayload, error) {
	j, mistakes, err := r.Replays.Pause(ctx, actorOf(ctx), input.ID, value(input.Reason))
	return &model.PauseReplayPayload{ReplayJob: r.changedJob(&j, mistakes), UserErrors: userErrors(mistakes)}, err
}

func (r mutationResolver) ResumeReplay(ctx context.Context, input model.ResumeReplayInput) (*model.ResumeReplayPayload, error) {
	j, mistakes, err := r.Replays.Resume(ctx, actorOf(ctx), input.ID)
	return &model.ResumeReplayPayload{ReplayJob: r.changedJob(&j, mistakes), UserErrors: userErrors(mistakes)}, err
}

func (r mutationResolver) CancelReplay(ctx context.Context, input model.CancelReplayInput) (*model.CancelReplayPayload, error) {
	j, mistakes, err := r.Replays.Cancel(ctx, actorOf(ctx), input.ID, value(input.Reason))
	return &model.CancelReplayPayload{ReplayJob: r.changedJob(&j, mistakes), UserErrors: userErrors(mistakes)}, err
}

func (r mutationResolver) PreviewBackfill(ctx context.Context, input model.PreviewBackfillInput) (*model.PreviewBackfillPayload, error) {
	j, mistakes, err := r.Replays.PreviewBackfill(ctx, actorOf(ctx), controlplane.BackfillWish{
		Subscription: input.EventSubscriptionID, FirstSeq: input.FirstSeq, LastSeq: input.LastSeq,
		ReceivedAfter: moment(input.ReceivedAfter), ReceivedBefore: moment(input.ReceivedBefore),
		Pace: hub.ReplayPace{RatePerSecond: input.RatePerSecond, Canary: input.Canary, PauseAbovePercent: input.PauseAbovePercent},
	})
	return &model.PreviewBackfillPayload{ReplayJob: r.changedJob(&j, mistakes), UserErrors: userErrors(mistakes)}, err
}

func (r mutationResolver) StartBackfill(ctx context.Context, input model.StartBackfillInput) (*model.StartBackfillPayload, error) {
	j, mistakes, err := r.Replays.StartBackfill(ctx, actorOf(ctx), controlplane.ReplayStart{
		ID: input.ID, Rate: input.RatePerSecond, Canary: input.Canary, PauseAbovePercent: input.PauseAbovePercent,
	})
	return &model.StartBackfillPayload{ReplayJob: r.changedJob(&j, mistakes), UserErrors: userErrors(mistakes)}, err
}

// changedJob is the job of a payload, none when there are user errors.
func (r *Resolver) changedJob(j *hub.ReplayJob, mistakes []controlplane.UserError) *model.ReplayJob {
	if len(mistakes) > 0 {
		return nil
	}
	return r.toReplayJob(j)
}

func replayWish(in *model.PreviewReplayInput) controlplane.ReplayWish {
	f := in.Filter
	return controlplane.ReplayWish{
		Tenant: value(in.TenantID), Deliveries: f.Ids, Subscription: f.EventSubscriptionID, Destination: f.DestinationID,
		EventType: f.EventType, Fingerprint: f.Fingerprint, States: f.States, Reasons: f.Reason,
		CreatedAfter: moment(f.CreatedAfter), CreatedBefore: moment(f.CreatedBefore),
		EndedAfter: moment(f.EndedAfter), EndedBefore: moment(f.EndedBefore),
		Pace: hub.ReplayPace{RatePerSecond: in.RatePerSecond, Canary: in.Canary, PauseAbovePercent: in.PauseAbovePercent},
	}
}
