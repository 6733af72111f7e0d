package graph

import (
	"context"
	"strings"

	"github.com/streaming-hub/streaming-hub/graph/model"
	"github.com/streaming-hub/streaming-hub/hub"
)

func (r queryResolver) Node(ctx context.Context, id string) (model.Node, error) {
	switch prefix, _, _ := strings.Cut(id, "_"); prefix + "_" {
	case eventPrefix:
		return nodeOf(r.Event(ctx, id))
	case subscriptionPrefix:
		return nodeOf(r.EventSubscription(ctx, id))
	case deliveryPrefix:
		return nodeOf(r.Delivery(ctx, id))
	case quarantinedPrefix:
		return nodeOf(r.quarantinedRecord(ctx, id))
	case observationPrefix:
		return nodeOf(r.observation(ctx, id))
	case tokenPrefix:
		return nodeOf(r.apiToken(ctx, id))
	case auditPrefix:
		return nodeOf(r.auditEntry(ctx, id))
	case destinationPrefix:
		return nodeOf(r.destination(ctx, id))
	case jobPrefix:
		return nodeOf(r.ReplayJob(ctx, id))
	}
	return nil, nil
}

// nodeOf keeps a nil pointer from becoming an interface that is not nil.
func nodeOf[T any](v *T, err error) (model.Node, error) {
	if v == nil || err != nil {
		return nil, err
	}
	return v, nil
}

func (r queryResolver) destination(ctx context.Context, id string) (*model.Destination, error) {
	key, ok := parseGlobalID(destinationPrefix, id)
	if !ok {
		return nil, nil
	}
	d, err := load(ctx, loadersOf(ctx).destinations, hub.DestinationID{ID: key})
	return toDestination(d), err
}
