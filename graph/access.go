package graph

import (
	"context"
	"strings"

	"github.com/99designs/gqlgen/graphql"

	"github.com/streaming-hub/streaming-hub/controlplane"
)

// fieldActions is the right that each root field needs. A field that is not
// listed is open to nobody.
var fieldActions = map[string]controlplane.Action{
	"Query.viewer":                       controlplane.Read,
	"Query.node":                         controlplane.Read,
	"Query.eventSubscription":            controlplane.Read,
	"Query.eventSubscriptions":           controlplane.Read,
	"Query.event":                        controlplane.Read,
	"Query.events":                       controlplane.Read,
	"Query.delivery":                     controlplane.Read,
	"Query.deliveries":                   controlplane.Read,
	"Query.deadLetters":                  controlplane.Read,
	"Query.circuitBreakers":              controlplane.Read,
	"Query.failureSpans":                 controlplane.Read,
	"Query.retryPreview":                 controlplane.Read,
	"Query.explainMatch":                 controlplane.Read,
	"Query.quarantinedRecords":           controlplane.ReadQuarantine,
	"Query.dlqObservations":              controlplane.Read,
	"Query.apiTokens":                    controlplane.ManageTokens,
	"Query.auditLog":                     controlplane.ReadAudit,
	"Mutation.createApiToken":            controlplane.ManageTokens,
	"Mutation.revokeApiToken":            controlplane.ManageTokens,
	"Query.__schema":                     controlplane.Read,
	"Query.__type":                       controlplane.Read,
	"Mutation.createEventSubscription":   controlplane.CreateSubscription,
	"Query.destination":                  controlplane.Read,
	"Query.destinations":                 controlplane.Read,
	"Mutation.updateEventSubscription":   controlplane.ChangeSubscription,
	"Mutation.deleteEventSubscription":   controlplane.ChangeSubscription,
	"Mutation.enableEventSubscription":   controlplane.ChangeSubscription,
	"Mutation.disableEventSubscription":  controlplane.ChangeSubscription,
	"Mutation.verifyEventSubscription":   controlplane.VerifySubscription,
	"Mutation.sendTestEvent":             controlplane.SendTestEvent,
	"Mutation.rotateSigningSecret":       controlplane.ManageSecrets,
	"Mutation.revokeSigningSecret":       controlplane.ManageSecrets,
	"Mutation.enableDestination":         controlplane.EnableDestination,
	"Mutation.readmitQuarantinedRecords": controlplane.ReadmitQuarantined,
	"Mutation.redeliver":                 controlplane.Redeliver,
	"Query.replayJob":                    controlplane.Read,
	"Query.replayJobs":                   controlplane.Read,
	"Mutation.previewReplay":             controlplane.Replay,
	"Mutation.startReplay":               controlplane.Replay,
	"Mutation.pauseReplay":               controlplane.Replay,
	"Mutation.resumeReplay":              controlplane.Replay,
	"Mutation.cancelReplay":              controlplane.Replay,
	"Mutation.previewBackfill":           controlplane.Replay,
	"Mutation.startBackfill":             controlplane.Replay,
	"Mutation.discardDeadLetters":        controlplane.Discard,
	"Subscription.replayProgress":        controlplane.Read,
	"Subscription.deliveryOutcomes":      controlplane.Read,
	"Subscription.deadLetterAdded":       controlplane.Read,
	"Subscription.circuitBreakerChanged": controlplane.Read,
	"Subscription.failureSpanChanged":    controlplane.Read,
}

// guardFields refuses fields that the actor's role or scope does not admit.
func guardFields(ctx context.Context, next graphql.Resolver) (any, error) {
	fc := graphql.GetFieldContext(ctx)
	a := actorOf(ctx)
	action, known := typeActions[fc.Object]
	switch {
	case fc.Object == "Query", fc.Object == "Mutation", fc.Object == "Subscription":
		action, known = fieldActions[fc.Object+"."+fc.Field.Name]
	case strings.HasPrefix(fc.Object, "__"):
		action, known = controlplane.Read, true // introspection
	}
	switch {
	case !known:
		return nil, apiErrorf(codeForbidden, "nobody may read %s.%s: it has no rule", fc.Object, fc.Field.Name)
	case !a.Can(action):
		return nil, apiErrorf(codeForbidden, "%s", a.WhyNot(action))
	}
	if further, hidden := hiddenFields[field{fc.Object, fc.Field.Name}]; hidden && !a.Can(further) {
		return nil, nil
	}
	return next(ctx)
}

type actorKey struct{}

// withActor lets an actor in, here and in the database.
func withActor(ctx context.Context, a controlplane.Actor) context.Context {
	return context.WithValue(a.Within(ctx), actorKey{}, a)
}

// actorOf is who asks; the zero Actor, which may do nothing, when nobody
// was let in. Its empty tenant would mean the whole platform, so every way in
// passes guardFields.
func actorOf(ctx context.Context) controlplane.Actor {
	a, _ := ctx.Value(actorKey{}).(controlplane.Actor)
	return a
}
