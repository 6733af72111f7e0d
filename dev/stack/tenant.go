package stack

import (
	"context"
	"errors"
	"fmt"

	"github.com/streaming-hub/streaming-hub/db"
	"github.com/streaming-hub/streaming-hub/hub"
)

// wanted are the sample tenant's subscriptions.
var wanted = [...]struct {
	name, path, origin string
}{
	{name: "Everything", path: "/hooks/all"},
	{name: "Lender only", path: "/hooks/lender", origin: "lender"},
}

// setUpTenant makes sure that tokens, subscriptions and their secrets exist,
// whatever of them the last run left behind.
func (s *Stack) setUpTenant(ctx context.Context) error {
	console := local(s.ports.console)
	s.state.TenantID = string(Tenant)
	s.state.ConsoleURL = "http://" + console + "/"
	s.state.GraphQLURL = "http://" + console + "/graphql"
	s.state.GraphQLWSURL = "ws://" + console + "/graphql"
	s.state.PullURL = "http://" + local(s.ports.dataPlane) + "/v1/events"
	if err := s.ensureTokens(ctx); err != nil {
		return err
	}
	// What a later step needs to go on is kept before it can fail.
	if err := writeJSON(s.lastFile(), s.state); err != nil {
		return err
	}
	return s.ensureSubscriptions(ctx)
}

func (s *Stack) ensureTokens(ctx context.Context) error {
	d, err := db.Open(ctx, db.Config{DSN: s.state.PostgresDSN, Name: "hub dev"})
	if err != nil {
		return err
	}
	defer d.Close()
	for _, t := range []struct {
		token  *string
		tenant hub.TenantID
		name   string
	}{
		{&s.state.PlatformToken, "", "hub dev, all tenants"},
		{&s.state.TenantToken, Tenant, "hub dev, tenant " + string(Tenant)},
	} {
		if *t.token != "" {
			var viewer struct{}
			err := api{s.state.GraphQLURL, *t.token}.do(ctx, `{ viewer { name } }`, nil, &viewer)
			if err == nil {
				continue
			}
			if !errors.Is(err, errUnauthenticated) {
				return err
			}
		}
		if *t.token, err = s.o.NewToken(ctx, d, t.tenant, t.name, hub.Admin); err != nil {
			return err
		}
	}
	return nil
}

// subscription is what the stack reads of an event subscription.
type subscription struct {
	ID                string
	Name              string
	VerificationState string
	VerificationError string
	Destination       struct{ URL string }
}

func (s *Stack) ensureSubscriptions(ctx context.Context) error {
	client := api{s.state.GraphQLURL, s.state.TenantToken}
	var have struct {
		EventSubscriptions struct{ Nodes []subscription }
	}
	const list = `{ eventSubscriptions(first: 100) { nodes { id name verificationState destination { url } } } }`
	if err := client.do(ctx, list, nil, &have); err != nil {
		return fmt.Errorf("list the sample subscriptions: %w", err)
	}
	for _, w := range wanted {
		url := s.state.ReceiverURL + w.path
		var sub subscription
		for _, h := range have.EventSubscriptions.Nodes {
			if h.Destination.URL == url {
				sub = h
			}
		}
		if sub.ID == "" {
			var err error
			if sub, err = s.createSubscription(ctx, client, w.name, w.origin, w.path); err != nil {
				return err
			}
		}
		if sub.VerificationState != "ACTIVE" {
			if err := verifySubscription(ctx, client, sub); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *Stack) createSubscription(ctx context.Context, client api, name, origin, path string) (sub subscription, err error) {
	input := map[string]any{
		"name":        name,
		"description": "A sample made by hub dev.",
		"eventTypes":  []string{"*"},
		"destination": map[string]any{"kind": "WEBHOOK", "url": s.state.ReceiverURL + path},
	}
	if origin != "" {
		input["origin"] = origin
	}
	var made struct {
		CreateEventSubscription struct {
			EventSubscription subscription
			SigningSecret     string
			UserErrors        []userError
		}
	}
	const create = `mutation ($input: CreateEventSubscriptionInput!) {
		createEventSubscription(input: $input) {
			eventSubscription { id name verificationState destination { url } }
			signingSecret
			userErrors { code message path }
		}
	}`
	what := fmt.Sprintf("create the sample subscription %q", name)
	if err := client.do(ctx, create, map[string]any{"input": input}, &made); err != nil {
		return sub, fmt.Errorf("%s: %w", what, err)
	}
	answer := made.CreateEventSubscription
	if err := fault(what, answer.UserErrors); err != nil {
		return sub, err
	}
	if answer.SigningSecret != "" {
		if err := s.keepSecret(path, answer.SigningSecret); err != nil {
			return sub, err
		}
	}
	return answer.EventSubscription, nil
}

func verifySubscription(ctx context.Context, client api, sub subscription) error {
	var done struct {
		VerifyEventSubscription struct {
			EventSubscription subscription
			UserErrors        []userError
		}
	}
	const verify = `mutation ($input: VerifyEventSubscriptionInput!) {
		verifyEventSubscription(input: $input) {
			eventSubscription { id verificationState verificationError }
			userErrors { code message path }
		}
	}`
	what := fmt.Sprintf("verify the sample subscription %q", sub.Name)
	if err := client.do(ctx, verify, map[string]any{"input": map[string]any{"id": sub.ID}}, &done); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	answer := done.VerifyEventSubscription
	if err := fault(what, answer.UserErrors); err != nil {
		return err
	}
	if answer.EventSubscription.VerificationState != "ACTIVE" {
		return fmt.Errorf("%s: %s", what, answer.EventSubscription.VerificationError)
	}
	return nil
}
