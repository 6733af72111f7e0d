package controlplane

import (
	"context"
	"fmt"
	"time"

	"github.com/streaming-hub/streaming-hub/db"
	"github.com/streaming-hub/streaming-hub/hub"
)

// Actor is who is asking: an API token without its secret.
type Actor struct {
	Token     hub.TokenID
	Name      string
	Role      hub.Role
	Tenant    hub.TenantID // "" for platform scope
	ExpiresAt time.Time    // zero for never
}

// ActorOf is the actor whom a token lets in.
func ActorOf(t hub.APIToken) Actor {
	return Actor{Token: t.ID, Name: t.Name, Role: t.Role, Tenant: t.Tenant, ExpiresAt: t.ExpiresAt}
}

// Action is something that needs a right.
type Action string

const (
	Read               Action = "read"
	CreateSubscription Action = "create event subscriptions"
	ChangeSubscription Action = "change event subscriptions"
	VerifySubscription Action = "verify event subscriptions"
	SendTestEvent      Action = "send test events"
	EnableDestination  Action = "enable destinations"
	ManageSecrets      Action = "rotate or revoke signing secrets"
	ReadQuarantine     Action = "read quarantined records"
	ReadmitQuarantined Action = "re-admit quarantined records"
	Redeliver          Action = "redeliver deliveries"
	Replay             Action = "replay deliveries"
	Discard            Action = "discard deliveries"
	ManageTokens       Action = "manage API tokens"
	ReadAudit          Action = "read the audit log"
	ReadPersonalData   Action = "read personal data"
)

// needs is the least role of each action.
var needs = map[Action]hub.Role{
	Read:               hub.Viewer,
	CreateSubscription: hub.Operator,
	ChangeSubscription: hub.Operator,
	VerifySubscription: hub.Operator,
	SendTestEvent:      hub.Operator,
	EnableDestination:  hub.Operator,
	ManageSecrets:      hub.Admin,
	ReadQuarantine:     hub.Viewer,
	ReadmitQuarantined: hub.Operator,
	Redeliver:          hub.Operator,
	Replay:             hub.Operator,
	Discard:            hub.Operator,
	ManageTokens:       hub.Admin,
	ReadAudit:          hub.Admin,
	ReadPersonalData:   hub.Admin,
}

// needsPlatform has the actions that a tenant's token is never admitted to. A
// quarantined record belongs to no tenant for sure.
var needsPlatform = map[Action]bool{ReadQuarantine: true, ReadmitQuarantined: true}

// Can reports whether the actor's role and scope admit an action. An action
// without a rule is admitted to nobody.
func (a Actor) Can(action Action) bool {
	return a.Role.Includes(needs[action]) && (a.Platform() || !needsPlatform[action])
}

// WhyNot says in words why an action is not admitted.
func (a Actor) WhyNot(action Action) string {
	if needsPlatform[action] && !a.Platform() {
		return fmt.Sprintf("a token of one tenant may not %s; that needs scope PLATFORM", action)
	}
	return fmt.Sprintf("a token with role %s may not %s", a.Role, action)
}

// Within says to the database for whom a call is made: a second wall there
// lets a tenant's actor reach rows of its tenant only, and one without a role
// none.
func (a Actor) Within(ctx context.Context) context.Context {
	switch {
	case a.Role == "":
		return ctx
	case a.Platform():
		return db.OfPlatform(ctx)
	}
	return db.OfTenant(ctx, a.Tenant)
}

// Platform reports whether the actor reaches all tenants.
func (a Actor) Platform() bool { return a.Tenant == "" }

// Sees reports whether the actor reaches the objects of a tenant.
func (a Actor) Sees(t hub.TenantID) bool { return a.Platform() || a.Tenant == t }

// tenantFor is the tenant in whose name an input acts: the actor's own, or the
// one that a platform actor names.
func (a Actor) tenantFor(named string, path []string) (hub.TenantID, *UserError) {
	var e UserError
	switch {
	case a.Platform() && named == "":
		e = userError(Required, path, "a token of scope PLATFORM has to name the tenant")
	case !a.Platform() && named != "" && named != string(a.Tenant):
		e = userError(TenantMismatch, path, "this token belongs to another tenant")
	case a.Platform() && !hub.TenantID(named).Valid() && hub.TenantID(named) != hub.HubTenant:
		e = userError(Invalid, path, "a tenant id has 1 to 256 letters, digits, dashes or underscores and begins with a letter or digit")
	case a.Platform():
		return hub.TenantID(named), nil
	default:
		return a.Tenant, nil
	}
	return "", &e
}

// narrow is the tenant to which a list is limited; none is true when the
// filter asks for a tenant that the actor does not see, which is answered like
// one that has nothing.
func (a Actor) narrow(filter hub.TenantID) (tenant hub.TenantID, none bool) {
	if a.Platform() {
		return filter, false
	}
	return a.Tenant, filter != "" && filter != a.Tenant
}
