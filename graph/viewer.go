package graph

import (
	"github.com/streaming-hub/streaming-hub/controlplane"
	"github.com/streaming-hub/streaming-hub/graph/model"
)

func toViewer(a controlplane.Actor) *model.Viewer {
	return &model.Viewer{
		Name: a.Name, Role: a.Role, Scope: scopeOf(a.Tenant),
		TenantID: optional(string(a.Tenant)), ExpiresAt: optional(a.ExpiresAt),
	}
}
