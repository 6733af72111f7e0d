package stack

import (
	"context"
	"fmt"
	"strings"
)

// wanted are the sample tenant's subscriptions.
var wanted = [...]struct {
	name, path, origin string
}{
	{name: "Everything", path: "/hooks/all"},
	{name: "Lender only", path: "/hooks/lender", origin: "lender"},
}

// sampleNote is the description that tells the samples from what a person made.
const sampleNote = "A sample made by hub dev."

// subscription is what the stack reads of an event subscription.
type subscription struct {
	ID                string
	Name              string
	Description       string
	Version           int
	VerificationState string
	VerificationError string
	Destination       struct{ URL string }
}

// subscriptionFields are its fields in GraphQL.
const subscriptionFields = `id name description version verificationState verificationError destination { url }`

// ensureSubscriptions makes the samples that are not there, moves those that
// go to the receiver's port of an earlier run, and verifies what is not ACTIVE.
func (s *Stack) ensureSubscriptions(ctx context.Context) error {
	client := api{s.state.GraphQLURL, s.state.TenantToken}
	var have struct {
		EventSubscriptions struct{ Nodes []subscription }
	}
	const list = `{ eventSubscriptions(first: 100) { nodes { ` + subscriptionFields + ` } } }`
	if err := client.do(ctx, list, nil, &have); err != nil {
		return fmt.Errorf("list the sample subscriptions: %w", err)
	}
	for _, w := range wanted {
		url := s.state.ReceiverURL + w.path
		sub, found := sampleFor(url, w.path, have.EventSubscriptions.Nodes)
		var err error
		switch {
		case !found:
			sub, err = s.createSubscription(ctx, client, w.name, w.origin, w.path)
		case sub.Destination.URL != url:
			sub, err = moveSubscription(ctx, client, sub, url)
		}
		if err != nil {
			return err
		}
		if sub.VerificationState != "ACTIVE" {
			if err := verifySubscription(ctx, client, sub); err != nil {
				return err
			}
		}
	}
	return nil
}

// sampleFor is the subscription to url, else a sample to the same path of
// another receiver: one that had another port.
func sampleFor(url, path string, have []subscription) (sub subscription, found bool) {
	for _, h := range have {
		if h.Destination.URL == url {
			return h, true
		}
		if h.Description == sampleNote && strings.HasSuffix(h.Destination.URL, path) {
			sub, found = h, true
		}
	}
	return sub, found
}

// answer of the mutations that are used here.
type answer struct {
	EventSubscription subscription
	SigningSecret     string
	UserErrors        []userError
}

func (s *Stack) createSubscription(ctx context.Context, client api, name, origin, path string) (sub subscription, err error) {
	input := map[string]any{
		"name":        name,
		"description": sampleNote,
		"eventTypes":  []string{"*"},
		"destination": map[string]any{"kind": "WEBHOOK", "url": s.state.ReceiverURL + path},
	}
	if origin != "" {
		input["origin"] = origin
	}
	var made struct{ CreateEventSubscription answer }
	const create = `mutation ($input: CreateEventSubscriptionInput!) {
		createEventSubscription(input: $input) {
			eventSubscription { ` + subscriptionFields + ` }
			signingSecret
			userErrors { code message path }
		}
	}`
	what := fmt.Sprintf("create the sample subscription %q", name)
	if err := client.do(ctx, create, map[string]any{"input": input}, &made); err != nil {
		return sub, fmt.Errorf("%s: %w", what, err)
	}
	got := made.CreateEventSubscription
	if err := fault(what, got.UserErrors); err != nil {
		return sub, err
	}
	if got.SigningSecret != "" {
		if err := s.keepSecret(path, got.SigningSecret); err != nil {
			return sub, err
		}
	}
	return got.EventSubscription, nil
}

// moveSubscription takes a sample to another URL; its signing secret goes along.
func moveSubscription(ctx context.Context, client api, sub subscription, url string) (subscription, error) {
	input := map[string]any{"id": sub.ID, "version": sub.Version, "destination": map[string]any{"url": url}}
	var done struct{ UpdateEventSubscription answer }
	const update = `mutation ($input: UpdateEventSubscriptionInput!) {
		updateEventSubscription(input: $input) {
			eventSubscription { ` + subscriptionFields + ` }
			userErrors { code message path }
		}
	}`
	what := fmt.Sprintf("move the sample subscription %q to %s", sub.Name, url)
	if err := client.do(ctx, update, map[string]any{"input": input}, &done); err != nil {
		return sub, fmt.Errorf("%s: %w", what, err)
	}
	return done.UpdateEventSubscription.EventSubscription, fault(what, done.UpdateEventSubscription.UserErrors)
}

func verifySubscription(ctx context.Context, client api, sub subscription) error {
	var done struct{ VerifyEventSubscription answer }
	const verify = `mutation ($input: VerifyEventSubscriptionInput!) {
		verifyEventSubscription(input: $input) {
			eventSubscription { ` + subscriptionFields + ` }
			userErrors { code message path }
		}
	}`
	what := fmt.Sprintf("verify the sample subscription %q", sub.Name)
	if err := client.do(ctx, verify, map[string]any{"input": map[string]any{"id": sub.ID}}, &done); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	got := done.VerifyEventSubscription
	if err := fault(what, got.UserErrors); err != nil {
		return err
	}
	if got.EventSubscription.VerificationState != "ACTIVE" {
		return fmt.Errorf("%s: %s", what, got.EventSubscription.VerificationError)
	}
	return nil
}
