package graph

import (
	"context"

	"github.com/streaming-hub/streaming-hub/controlplane"
	"github.com/streaming-hub/streaming-hub/db"
	"github.com/streaming-hub/streaming-hub/graph/model"
	"github.com/streaming-hub/streaming-hub/hub"
	"github.com/streaming-hub/streaming-hub/hub/health"
)

func (r queryResolver) Destination(ctx context.Context, id string) (*model.Destination, error) {
	return r.destination(ctx, id)
}

func (r queryResolver) Destinations(ctx context.Context, first int32, after *string, filter *model.DestinationFilter) (*model.DestinationConnection, error) {
	size, err := pageSize(first)
	if err != nil {
		return nil, err
	}
	before, err := idBehind(byDestinationID, after)
	if err != nil {
		return nil, err
	}
	list, err := r.Subscriptions.DestinationPage(ctx, actorOf(ctx), destinationFilter(filter), before, size+1)
	return destinationConnection(list, size), err
}

func (r destinationResolver) SigningKeys(ctx context.Context, obj *model.Destination) ([]*model.SigningKey, error) {
	keys, err := load(ctx, loadersOf(ctx).signingKeys, obj.Of.ID)
	list := make([]*model.SigningKey, len(keys))
	for i, k := range keys {
		list[i] = &model.SigningKey{Version: k.Version, CreatedAt: k.CreatedAt, EndsAt: optional(k.EndsAt)}
	}
	return list, err
}

func (r destinationResolver) Credential(ctx context.Context, obj *model.Destination) (*model.DestinationCredential, error) {
	list, err := load(ctx, loadersOf(ctx).credentials, obj.Of.ID)
	for _, c := range list {
		if c.Kind.Slot() == hub.SlotAuthorization {
			return &model.DestinationCredential{Kind: c.Kind, Name: optional(c.Name), Version: c.Version, CreatedAt: c.CreatedAt}, nil
		}
	}
	return nil, err
}

func (r destinationResolver) ClientCertificate(ctx context.Context, obj *model.Destination) (*model.ClientCertificate, error) {
	list, err := load(ctx, loadersOf(ctx).credentials, obj.Of.ID)
	for _, c := range list {
		if c.Kind.Slot() == hub.SlotCertificate {
			subject, end := controlplane.AboutCertificate(c.Certificate)
			return &model.ClientCertificate{Subject: subject, NotAfter: end, Version: c.Version, CreatedAt: c.CreatedAt}, nil
		}
	}
	return nil, err
}

func (r mutationResolver) RotateSigningSecret(ctx context.Context, input model.RotateSigningSecretInput) (*model.RotateSigningSecretPayload, error) {
	after, mistakes, err := r.Subscriptions.RotateSecret(ctx, actorOf(ctx), controlplane.Rotation{
		ID: input.ID, Overlap: input.Overlap, Import: input.SigningSecret,
	})
	if err != nil || len(mistakes) > 0 {
		return &model.RotateSigningSecretPayload{UserErrors: userErrors(mistakes)}, err
	}
	return &model.RotateSigningSecretPayload{
		Destination: toDestination(&after.Destination), SigningSecret: optional(after.SigningSecret), UserErrors: userErrors(nil),
	}, nil
}

func (r mutationResolver) RevokeSigningSecret(ctx context.Context, input model.RevokeSigningSecretInput) (*model.RevokeSigningSecretPayload, error) {
	after, mistakes, err := r.Subscriptions.RevokeSecret(ctx, actorOf(ctx), input.ID, input.Version)
	if err != nil || len(mistakes) > 0 {
		return &model.RevokeSigningSecretPayload{UserErrors: userErrors(mistakes)}, err
	}
	return &model.RevokeSigningSecretPayload{
		Destination: toDestination(&after.Destination), RevokedVersion: &input.Version,
		SigningSecret: optional(after.SigningSecret), UserErrors: userErrors(nil),
	}, nil
}

func (r mutationResolver) EnableDestination(ctx context.Context, input model.EnableDestinationInput) (*model.EnableDestinationPayload, error) {
	id, _ := parseGlobalID(destinationPrefix, input.ID) // what is no id finds nothing
	dest, mistakes, err := r.Subscriptions.EnableDestination(ctx, actorOf(ctx), hub.DestinationID{ID: id})
	if err != nil || len(mistakes) > 0 {
		return &model.EnableDestinationPayload{UserErrors: userErrors(mistakes)}, err
	}
	return &model.EnableDestinationPayload{Destination: toDestination(&dest), UserErrors: userErrors(nil)}, nil
}

func toDestination(d *hub.Destination) *model.Destination {
	if d == nil {
		return nil
	}
	return &model.Destination{
		ID: globalID(destinationPrefix, d.ID.ID), TenantID: string(d.Tenant), Kind: d.Kind, URL: optional(d.URL), CreatedAt: d.CreatedAt,
		RateLimit: optional(d.RateLimit), MaxInFlight: optional(d.MaxInFlight), FailurePolicy: toFailurePolicy(d.FailurePolicy), Of: d,
	}
}

func toFailurePolicy(p hub.FailurePolicy) *model.FailurePolicy {
	if p.Kind != hub.FailureRate {
		return &model.FailurePolicy{Kind: hub.FailureSpan}
	}
	s := health.RateSettingsOf(p)
	percent := int32(s.Percent)
	return &model.FailurePolicy{
		Kind: p.Kind, Percent: &percent, MinAttempts: &s.MinAttempts, DisableAfter: &s.DisableRow,
		FreezeAfter: &s.FreezeRow, FreezeAge: &s.FreezeAge, FreezeAtLatest: &s.FreezeAnyRow, TryEvery: &s.TryEvery,
	}
}

func destinationConnection(list []hub.Destination, size int) *model.DestinationConnection {
	list, more := cut(list, size)
	c := &model.DestinationConnection{Edges: []*model.DestinationEdge{}, Nodes: []*model.Destination{}}
	end := ""
	for i := range list {
		node := toDestination(&list[i])
		end = cursorOfID(byDestinationID, list[i].ID.ID)
		c.Nodes = append(c.Nodes, node)
		c.Edges = append(c.Edges, &model.DestinationEdge{Cursor: end, Node: node})
	}
	c.PageInfo = pageInfo(more, end)
	return c
}

func destinationFilter(m *model.DestinationFilter) (f db.DestinationFilter) {
	if m == nil {
		return f
	}
	f = db.DestinationFilter{Tenant: hub.TenantID(value(m.TenantID)), URL: value(m.URL)}
	if m.Kind != nil {
		f.Kind = *m.Kind
	}
	return f
}
