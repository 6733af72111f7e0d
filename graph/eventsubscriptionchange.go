package graph

import (
	"context"

	"github.com/streaming-hub/streaming-hub/controlplane"
	"github.com/streaming-hub/streaming-hub/graph/model"
	"github.com/streaming-hub/streaming-hub/hub"
)

func (r mutationResolver) UpdateEventSubscription(ctx context.Context, input model.UpdateEventSubscriptionInput) (*model.UpdateEventSubscriptionPayload, error) {
	var after controlplane.Updated
	update, mistakes, err := subscriptionUpdate(&input)
	if err == nil && mistakes == nil {
		after, mistakes, err = r.Subscriptions.Update(ctx, actorOf(ctx), update)
	}
	if err != nil || len(mistakes) > 0 {
		return &model.UpdateEventSubscriptionPayload{UserErrors: userErrors(mistakes)}, err
	}
	return &model.UpdateEventSubscriptionPayload{
		EventSubscription: toSubscription(&after.Subscription), SigningSecret: optional(after.SigningSecret), UserErrors: userErrors(nil),
	}, nil
}

func (r mutationResolver) DeleteEventSubscription(ctx context.Context, input model.DeleteEventSubscriptionInput) (*model.DeleteEventSubscriptionPayload, error) {
	sub, mistakes, err := r.Subscriptions.Delete(ctx, actorOf(ctx), subscriptionID(input.ID))
	if err != nil || len(mistakes) > 0 {
		return &model.DeleteEventSubscriptionPayload{UserErrors: userErrors(mistakes)}, err
	}
	return &model.DeleteEventSubscriptionPayload{EventSubscription: toSubscription(&sub), UserErrors: userErrors(nil)}, nil
}

func (r mutationResolver) EnableEventSubscription(ctx context.Context, input model.EnableEventSubscriptionInput) (*model.EnableEventSubscriptionPayload, error) {
	sub, mistakes, err := r.Subscriptions.Enable(ctx, actorOf(ctx), subscriptionID(input.ID))
	if err != nil || len(mistakes) > 0 {
		return &model.EnableEventSubscriptionPayload{UserErrors: userErrors(mistakes)}, err
	}
	return &model.EnableEventSubscriptionPayload{EventSubscription: toSubscription(&sub), UserErrors: userErrors(nil)}, nil
}

func (r mutationResolver) DisableEventSubscription(ctx context.Context, input model.DisableEventSubscriptionInput) (*model.DisableEventSubscriptionPayload, error) {
	sub, mistakes, err := r.Subscriptions.Disable(ctx, actorOf(ctx), subscriptionID(input.ID), input.Reason)
	if err != nil || len(mistakes) > 0 {
		return &model.DisableEventSubscriptionPayload{UserErrors: userErrors(mistakes)}, err
	}
	return &model.DisableEventSubscriptionPayload{EventSubscription: toSubscription(&sub), UserErrors: userErrors(nil)}, nil
}

func (r mutationResolver) SendTestEvent(ctx context.Context, input model.SendTestEventInput) (*model.SendTestEventPayload, error) {
	standing, mistakes, err := r.Subscriptions.SendTest(ctx, actorOf(ctx), subscriptionID(input.ID), value(input.EventType))
	if err != nil || len(mistakes) > 0 {
		return &model.SendTestEventPayload{UserErrors: userErrors(mistakes)}, err
	}
	return &model.SendTestEventPayload{Delivery: toDelivery(&standing), UserErrors: userErrors(nil)}, nil
}

// subscriptionID reads a global id; what is none finds nothing.
func subscriptionID(text string) hub.SubscriptionID {
	id, _ := parseGlobalID(subscriptionPrefix, text)
	return hub.SubscriptionID{ID: id}
}

func subscriptionUpdate(in *model.UpdateEventSubscriptionInput) (u controlplane.SubscriptionUpdate, mistakes []controlplane.UserError, err error) {
	u = controlplane.SubscriptionUpdate{
		ID: subscriptionID(in.ID), Version: in.Version, Name: given(in.Name), Description: given(in.Description), Origin: given(in.Origin),
		SchemaMajor: given(in.SchemaMajor), Timeout: given(in.Timeout), DisableOnGone: given(in.DisableOnGone),
	}
	if types, set := in.EventTypes.ValueOK(); set {
		u.EventTypes = controlplane.Given[[]string]{Set: true}
		if types != nil {
			u.EventTypes.Value = &types
		}
	}
	if list, set := in.Headers.ValueOK(); set {
		u.Headers = controlplane.Give(customHeaders(list))
	}
	if policy, set := in.RetryPolicy.ValueOK(); set {
		u.RetryPolicy.Set = true
		if policy != nil {
			wanted, faults, err := retryPolicy(policy, "input", "retryPolicy")
			if err != nil {
				return u, nil, err
			}
			u.RetryPolicy, mistakes = controlplane.Give(wanted), faults
		}
	}
	if dest, set := in.Destination.ValueOK(); set {
		if dest == nil {
			return u, append(mistakes, mistake("destination cannot be null; leave it out to keep what is there", "input", "destination")...), nil
		}
		var faults []controlplane.UserError
		u.URL = given(dest.URL)
		u.Destination, faults, err = changedDestination(dest)
		mistakes = append(mistakes, faults...)
	}
	return u, mistakes, err
}

func customHeaders(list []*model.HTTPHeaderInput) []hub.Header {
	headers := make([]hub.Header, len(list))
	for i, h := range list {
		headers[i] = hub.Header{Name: h.Name, Value: h.Value}
	}
	return headers
}
