package graph

import (
	"github.com/streaming-hub/streaming-hub/controlplane"
	"github.com/streaming-hub/streaming-hub/graph/model"
)

func toViewer(a controlplane.Actor) *model.Viewer {
	v := &model.Viewer{
		Name: a.Name, Role: a.Role, Scope: model.ScopeTenant,
		TenantID: optional(string(a.Tenant)), ExpiresAt: optional(a.ExpiresAt),
	}
	if a.Platform() {
		v.Scope = model.ScopePlatform
	}
	return v
}
