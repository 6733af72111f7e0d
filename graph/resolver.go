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
	Quarantine    *controlplane.Quarantine
	Observations  *controlplane.Observations
	Feed          *controlplane.Feed
	// HeaderPrefix begins the hub's own header names, as delivery uses them.
	HeaderPrefix string
	Now          func() time.Time
}

var _ generated.ResolverRoot = (*Resolver)(nil)

// One type per GraphQL type that has resolvers of its own.
type (
	queryResolver             struct{ *Resolver }
	mutationResolver          struct{ *Resolver }
	subscriptionResolver      struct{ *Resolver }
	eventSubscriptionResolver struct{ *Resolver }
	eventResolver             struct{ *Resolver }
	deliveryResolver          struct{ *Resolver }
	attemptResolver           struct{ *Resolver }
	deliveryOutcomeResolver   struct{ *Resolver }
	matchVerdictResolver      struct{ *Resolver }
	quarantinedRecordResolver struct{ *Resolver }
	dlqObservationResolver    struct{ *Resolver }
)

func (r *Resolver) Query() generated.QueryResolver               { return queryResolver{r} }
func (r *Resolver) Mutation() generated.MutationResolver         { return mutationResolver{r} }
func (r *Resolver) Subscription() generated.SubscriptionResolver { return subscriptionResolver{r} }
func (r *Resolver) EventSubscription() generated.EventSubscriptionResolver {
	return eventSubscriptionResolver{r}
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
func (r *Resolver) DlqObservation() generated.DlqObservationResolver {
	return dlqObservationResolver{r}
}
