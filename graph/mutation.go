package graph

import (
	"context"

	"github.com/streaming-hub/streaming-hub/controlplane"
	"github.com/streaming-hub/streaming-hub/graph/model"
	"github.com/streaming-hub/streaming-hub/hub"
)

func (r mutationResolver) CreateEventSubscription(ctx context.Context, input model.CreateEventSubscriptionInput) (*model.CreateEventSubscriptionPayload, error) {
	var made controlplane.Created
	wanted, mistakes, err := newSubscription(&input)
	if err == nil && mistakes == nil {
		made, mistakes, err = r.Subscriptions.Create(ctx, actorOf(ctx), wanted)
	}
	if err != nil || len(mistakes) > 0 {
		return &model.CreateEventSubscriptionPayload{UserErrors: userErrors(mistakes)}, err
	}
	return &model.CreateEventSubscriptionPayload{
		EventSubscription: toSubscription(&made.Subscription),
		SigningSecret:     optional(made.SigningSecret),
		UserErrors:        userErrors(nil),
	}, nil
}

func (r mutationResolver) VerifyEventSubscription(ctx context.Context, input model.VerifyEventSubscriptionInput) (*model.VerifyEventSubscriptionPayload, error) {
	v, mistakes, err := r.Subscriptions.Verify(ctx, actorOf(ctx), subscriptionID(input.ID))
	if err != nil || len(mistakes) > 0 {
		return &model.VerifyEventSubscriptionPayload{UserErrors: userErrors(mistakes)}, err
	}
	return &model.VerifyEventSubscriptionPayload{
		EventSubscription: toSubscription(&v.Subscription), Probe: toProbe(v.Probe), UserErrors: userErrors(nil),
	}, nil
}

func toProbe(a *hub.Attempt) *model.VerificationProbe {
	if a == nil {
		return nil
	}
	p := &model.VerificationProbe{
		Status: optional(a.Answer.Status), ErrorClass: optional(a.Failure.Class), ErrorPhase: optional(a.Failure.Phase),
		ErrorDetail: optional(a.Failure.Detail), Timings: toTimings(a.Timings),
	}
	if a.Answer.Status != 0 {
		p.ResponseBody = &a.Answer.Snippet
	}
	return p
}

func newSubscription(in *model.CreateEventSubscriptionInput) (controlplane.NewSubscription, []controlplane.UserError, error) {
	policy, mistakes, err := retryPolicy(in.RetryPolicy, "input", "retryPolicy")
	if err != nil {
		return controlplane.NewSubscription{}, nil, err
	}
	destination, more, err := newDestination(in.Destination)
	return controlplane.NewSubscription{
		Tenant: value(in.TenantID), Name: in.Name, Description: in.Description, Origin: in.Origin,
		EventTypes: in.EventTypes, SchemaMajor: in.SchemaMajor,
		Kind: in.Destination.Kind, URL: value(in.Destination.URL), Destination: destination,
		RetryPolicy: policy, Timeout: in.Timeout,
		Headers: customHeaders(in.Headers), DisableOnGone: in.DisableOnGone,
	}, append(mistakes, more...), err
}

// retryPolicy reads a policy at a place in the input; the curve when there is
// none.
func retryPolicy(in *model.RetryPolicyInput, path ...string) (hub.RetryPolicy, []controlplane.UserError, error) {
	if in == nil {
		return hub.RetryPolicy{Kind: hub.RetryCurve}, nil, nil
	}
	if err := oneOf(path[len(path)-1], "curve, schedule and exponential", in.Curve != nil, in.Schedule != nil, in.Exponential != nil); err != nil {
		return hub.RetryPolicy{}, nil, err
	}
	switch {
	case in.Schedule != nil:
		p := hub.RetryPolicy{Kind: hub.RetrySchedule}
		for _, step := range in.Schedule.Steps {
			p.StepsMillis = append(p.StepsMillis, step.Milliseconds())
		}
		return p, nil, nil
	case in.Exponential != nil:
		e := in.Exponential
		return hub.RetryPolicy{Kind: hub.RetryExponential, UnitMillis: e.Unit.Milliseconds(), Attempts: e.Attempts, Elapsed: e.Elapsed}, nil, nil
	case !*in.Curve:
		return hub.RetryPolicy{}, mistake("curve is true; for another policy give that one", append(path, "curve")...), nil
	}
	return hub.RetryPolicy{Kind: hub.RetryCurve}, nil, nil
}

func value(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// userErrors is never null.
func userErrors(list []controlplane.UserError) []*controlplane.UserError {
	out := make([]*controlplane.UserError, len(list))
	for i := range list {
		out[i] = &list[i]
	}
	return out
}
