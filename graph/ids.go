package graph

import (
	"github.com/streaming-hub/streaming-hub/controlplane"
	"github.com/streaming-hub/streaming-hub/hub"
)

// Prefixes of global ids.
const (
	eventPrefix        = controlplane.EventIDs
	subscriptionPrefix = controlplane.SubscriptionIDs
	destinationPrefix  = controlplane.DestinationIDs
	deliveryPrefix     = controlplane.DeliveryIDs
	quarantinedPrefix  = controlplane.QuarantinedIDs
	observationPrefix  = controlplane.ObservationIDs
	tokenPrefix        = controlplane.TokenIDs
	auditPrefix        = controlplane.AuditIDs
	jobPrefix          = controlplane.JobIDs
)

func globalID(prefix string, id hub.ID) string { return controlplane.GlobalID(prefix, id) }

// parseGlobalID reads an id of one type. ok is false for anything else, which
// is answered like an id that does not exist.
func parseGlobalID(prefix, text string) (id hub.ID, ok bool) {
	return controlplane.ParseGlobalID(prefix, text)
}
