package graph

import (
	"context"

	"github.com/streaming-hub/streaming-hub/controlplane"
	"github.com/streaming-hub/streaming-hub/graph/model"
	"github.com/streaming-hub/streaming-hub/hub"
)

func (r mutationResolver) CreateEventSubscription(ctx context.Context, input model.CreateEventSubscriptionInput) (*model.CreateEventSubscriptionPayload, error) {
	if err := checkOneOf("retryPolicy", input.RetryPolicy); err != nil {
		return nil, err
	}
	made, mistakes, err := r.Subscriptions.Create(ctx, actorOf(ctx), newSubscription(&input))
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
	id, _ := parseGlobalID(subscriptionPrefix, input.ID) // what is no id finds nothing
	sub, mistakes, err := r.Subscriptions.Verify(ctx, actorOf(ctx), hub.SubscriptionID{ID: id})
	if err != nil || len(mistakes) > 0 {
		return &model.VerifyEventSubscriptionPayload{UserErrors: userErrors(mistakes)}, err
	}
	return &model.VerifyEventSubscriptionPayload{EventSubscription: toSubscription(&sub), UserErrors: userErrors(nil)}, nil
}

func newSubscription(in *model.CreateEventSubscriptionInput) controlplane.NewSubscription {
	return controlplane.NewSubscription{
		Tenant: value(in.TenantID), Name: in.Name, Description: in.Description, Origin: value(in.Origin),
		EventTypes: in.EventTypes, SchemaMajor: in.SchemaMajor,
		Kind: in.Destination.Kind, URL: value(in.Destination.URL),
		RetryPolicy: newRetryPolicy(in.RetryPolicy), Timeout: in.Timeout,
	}
}

// checkOneOf holds for variables what @oneOf says; for literals the validator
// has seen to it. name is that of the argument or field.
func checkOneOf(name string, in *model.RetryPolicyInput) error {
	if in == nil {
		return nil
	}
	given := 0
	for _, one := range []bool{in.Curve != nil, in.Schedule != nil, in.Exponential != nil} {
		if one {
			given++
		}
	}
	if given != 1 {
		return apiErrorf(codeBadInput, "%s takes exactly one of curve, schedule and exponential", name)
	}
	return nil
}

func newRetryPolicy(in *model.RetryPolicyInput) hub.RetryPolicy {
	switch {
	case in != nil && in.Schedule != nil:
		p := hub.RetryPolicy{Kind: hub.RetrySchedule}
		for _, step := range in.Schedule.Steps {
			p.StepsMillis = append(p.StepsMillis, step.Milliseconds())
		}
		return p
	case in != nil && in.Exponential != nil:
		e := in.Exponential
		return hub.RetryPolicy{Kind: hub.RetryExponential, UnitMillis: e.Unit.Milliseconds(), Attempts: e.Attempts, Elapsed: e.Elapsed}
	}
	return hub.RetryPolicy{Kind: hub.RetryCurve}
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
