package graph

import (
	"context"

	"github.com/streaming-hub/streaming-hub/controlplane"
	"github.com/streaming-hub/streaming-hub/graph/model"
	"github.com/streaming-hub/streaming-hub/hub"
)

func (r queryResolver) APITokens(ctx context.Context, first int32, after *string, filter *model.APITokenFilter) (*model.APITokenConnection, error) {
	size, err := pageSize(first)
	if err != nil {
		return nil, err
	}
	before, err := idBehind(byTokenID, after)
	if err != nil {
		return nil, err
	}
	var tenant hub.TenantID
	if filter != nil {
		tenant = hub.TenantID(value(filter.TenantID))
	}
	list, err := r.Tokens.Page(ctx, actorOf(ctx), tenant, before, size+1)
	return tokenConnection(list, size), err
}

func (r queryResolver) apiToken(ctx context.Context, id string) (*model.APIToken, error) {
	key, ok := parseGlobalID(tokenPrefix, id)
	if !ok {
		return nil, nil
	}
	t, err := load(ctx, loadersOf(ctx).tokens, hub.TokenID{ID: key})
	return toToken(t), err
}

func (r mutationResolver) CreateAPIToken(ctx context.Context, input model.CreateAPITokenInput) (*model.CreateAPITokenPayload, error) {
	text, token, mistakes, err := r.Tokens.Create(ctx, actorOf(ctx), controlplane.TokenWish{
		Tenant: value(input.TenantID), Platform: input.Scope == model.ScopePlatform, Name: input.Name, Role: input.Role, ExpiresIn: input.ExpiresIn,
	})
	if err != nil || len(mistakes) > 0 {
		return &model.CreateAPITokenPayload{UserErrors: userErrors(mistakes)}, err
	}
	return &model.CreateAPITokenPayload{APIToken: toToken(&token), Token: &text, UserErrors: userErrors(nil)}, nil
}

func (r mutationResolver) RevokeAPIToken(ctx context.Context, input model.RevokeAPITokenInput) (*model.RevokeAPITokenPayload, error) {
	token, mistakes, err := r.Tokens.Revoke(ctx, actorOf(ctx), input.ID)
	if err != nil || len(mistakes) > 0 {
		return &model.RevokeAPITokenPayload{UserErrors: userErrors(mistakes)}, err
	}
	return &model.RevokeAPITokenPayload{APIToken: toToken(&token), UserErrors: userErrors(nil)}, nil
}

func toToken(t *hub.APIToken) *model.APIToken {
	if t == nil {
		return nil
	}
	return &model.APIToken{
		ID: globalID(tokenPrefix, t.ID.ID), Name: t.Name, Role: t.Role, Scope: scopeOf(t.Tenant), TenantID: optional(string(t.Tenant)),
		CreatedAt: t.CreatedAt, ExpiresAt: optional(t.ExpiresAt), RevokedAt: optional(t.RevokedAt),
	}
}

func scopeOf(t hub.TenantID) model.Scope {
	if t == "" {
		return model.ScopePlatform
	}
	return model.ScopeTenant
}

func tokenConnection(list []hub.APIToken, size int) *model.APITokenConnection {
	list, more := cut(list, size)
	c := &model.APITokenConnection{Edges: []*model.APITokenEdge{}, Nodes: []*model.APIToken{}}
	end := ""
	for i := range list {
		node := toToken(&list[i])
		end = cursorOfID(byTokenID, list[i].ID.ID)
		c.Nodes = append(c.Nodes, node)
		c.Edges = append(c.Edges, &model.APITokenEdge{Cursor: end, Node: node})
	}
	c.PageInfo = pageInfo(more, end)
	return c
}
