package graph

import (
	"time"

	"github.com/streaming-hub/streaming-hub/controlplane"
	"github.com/streaming-hub/streaming-hub/graph/generated"
)

// Resolver holds the use cases that the API translates to.
type Resolver struct {
	Subscriptions *controlplane.Subscriptions
	History       *controlplane.History
	Redelivery    *controlplane.Redelivery
	Replays       *controlplane.Replays
	Discarding    *controlplane.Discarding
	Quarantine    *controlplane.Quarantine
	Observations  *controlplane.Observations
	Breakers      *controlplane.Breakers
	Policies      *controlplane.FailurePolicies
	Feed          *controlplane.Feed
	Tokens        *controlplane.Tokens
	Audit         *controlplane.AuditLog
	Idempotency   *controlplane.Idempotency
	// HeaderPrefix begins the hub's own header names, as delivery uses them.
	HeaderPrefix string
	// CurveSteps, if any, replace the waits of the CURVE, as where deliveries
	// are made.
	CurveSteps []time.Duration
	Now        func() time.Time
}

var _ generated.ResolverRoot = (*Resolver)(nil)

// One type per GraphQL type that has resolvers of its own.
type (
	queryResolver                struct{ *Resolver }
	mutationResolver             struct{ *Resolver }
	subscriptionResolver         struct{ *Resolver }
	eventSubscriptionResolver    struct{ *Resolver }
	destinationResolver          struct{ *Resolver }
	circuitBreakerResolver       struct{ *Resolver }
	circuitBreakerChangeResolver struct{ *Resolver }
	failureSpanResolver          struct{ *Resolver }
	failureSpanChangeResolver    struct{ *Resolver }
	eventResolver                struct{ *Resolver }
	deliveryResolver             struct{ *Resolver }
	attemptResolver              struct{ *Resolver }
	deliveryOutcomeResolver      struct{ *Resolver }
	matchVerdictResolver         struct{ *Resolver }
	quarantinedRecordResolver    struct{ *Resolver }
	dlqObservationResolver       struct{ *Resolver }
	replayJobResolver            struct{ *Resolver }
	replayShareResolver          struct{ *Resolver }
	replayProgressResolver       struct{ *Resolver }
)

func (r *Resolver) Query() generated.QueryResolver               { return queryResolver{r} }
func (r *Resolver) Mutation() generated.MutationResolver         { return mutationResolver{r} }
func (r *Resolver) Subscription() generated.SubscriptionResolver { return subscriptionResolver{r} }
func (r *Resolver) EventSubscription() generated.EventSubscriptionResolver {
	return eventSubscriptionResolver{r}
}
func (r *Resolver) Destination() generated.DestinationResolver { return destinationResolver{r} }
func (r *Resolver) CircuitBreaker() generated.CircuitBreakerResolver {
	return circuitBreakerResolver{r}
}
func (r *Resolver) CircuitBreakerChange() generated.CircuitBreakerChangeResolver {
	return circuitBreakerChangeResolver{r}
}
func (r *Resolver) FailureSpan() generated.FailureSpanResolver { return failureSpanResolver{r} }
func (r *Resolver) FailureSpanChange() generated.FailureSpanChangeResolver {
	return failureSpanChangeResolver{r}
}
func (r *Resolver) Event() generated.EventResolver       { return eventResolver{r} }
func (r *Resolver) Delivery() generated.DeliveryResolver { return deliveryResolver{r} }
func (r *Resolver) Attempt() generated.AttemptResolver   { return attemptResolver{r} }
func (r *Resolver) DeliveryOutcome() generated.DeliveryOutcomeResolver {
	return deliveryOutcomeResolver{r}
}
func (r *Resolver) MatchVerdict() generated.MatchVerdictResolver { return matchVerdictResolver{r} }
func (r *Resolver) QuarantinedRecord() generated.QuarantinedRecordResolver {
	return quarantinedRecordResolver{r}
}
func (r *Resolver) ReplayJob() generated.ReplayJobResolver     { return replayJobResolver{r} }
func (r *Resolver) ReplayShare() generated.ReplayShareResolver { return replayShareResolver{r} }
func (r *Resolver) ReplayProgress() generated.ReplayProgressResolver {
	return replayProgressResolver{r}
}
func (r *Resolver) DlqObservation() generated.DlqObservationResolver {
	return dlqObservationResolver{r}
}
