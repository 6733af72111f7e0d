package graph

import (
	"context"

	"github.com/99designs/gqlgen/graphql"

	"github.com/streaming-hub/streaming-hub/controlplane"
)

// fieldActions is the right that each root field needs. A field that is not
// listed is open to nobody; what it leads to belongs to the same right.
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
	"Query.retryPreview":                 controlplane.Read,
	"Query.explainMatch":                 controlplane.Read,
	"Query.quarantinedRecords":           controlplane.ReadQuarantine,
	"Query.dlqObservations":              controlplane.Read,
	"Query.__schema":                     controlplane.Read,
	"Query.__type":                       controlplane.Read,
	"Mutation.createEventSubscription":   controlplane.CreateSubscription,
	"Mutation.verifyEventSubscription":   controlplane.VerifySubscription,
	"Mutation.readmitQuarantinedRecords": controlplane.ReadmitQuarantined,
	"Mutation.redeliver":                 controlplane.Redeliver,
	"Subscription.deliveryOutcomes":      controlplane.Read,
}

// guardFields refuses root fields that the actor's role or scope does not
// admit.
func guardFields(ctx context.Context, next graphql.Resolver) (any, error) {
	fc := graphql.GetFieldContext(ctx)
	switch fc.Object {
	case "Query", "Mutation", "Subscription":
		action := fieldActions[fc.Object+"."+fc.Field.Name]
		if a := actorOf(ctx); !a.Can(action) {
			return nil, apiErrorf(codeForbidden, "%s", a.WhyNot(action))
		}
	}
	return next(ctx)
}

type actorKey struct{}

func withActor(ctx context.Context, a controlplane.Actor) context.Context {
	return context.WithValue(ctx, actorKey{}, a)
}

// actorOf is who asks; the zero Actor, which may do nothing, when nobody
// was let in. Its empty tenant would mean the whole platform, so every way in
// passes guardFields.
func actorOf(ctx context.Context) controlplane.Actor {
	a, _ := ctx.Value(actorKey{}).(controlplane.Actor)
	return a
}
