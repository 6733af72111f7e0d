package stack

import (
	"context"
	"errors"

	"github.com/streaming-hub/streaming-hub/db"
	"github.com/streaming-hub/streaming-hub/hub"
)

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
	}{
		{&s.state.PlatformToken, ""},
		{&s.state.TenantToken, Tenant},
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
		if *t.token, err = s.o.NewToken(ctx, d, t.tenant, "hub dev", hub.Admin); err != nil {
			return err
		}
	}
	return nil
}
