package db

import (
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/streaming-hub/streaming-hub/db/internal/dbsqlc"
	"github.com/streaming-hub/streaming-hub/hub"
)

// Pair is an event and a subscription that may have wanted it.
type Pair struct {
	Event        hub.EventID
	Subscription hub.SubscriptionID
}

// DeliveriesOfPairs reads where the deliveries of events for subscriptions
// stand; a pair without a delivery is missing.
func (d *DB) DeliveriesOfPairs(ctx context.Context, pairs []Pair) (map[Pair]hub.Standing, error) {
	var events []hub.ID
	wanted := make(map[Pair]bool, len(pairs))
	for _, p := range pairs {
		if wanted[p] = true; !slices.Contains(events, p.Event.ID) {
			events = append(events, p.Event.ID)
		}
	}
	byPair := make(map[Pair]hub.Standing, len(pairs))
	err := pgx.BeginTxFunc(ctx, d.pool, snapshotRead, func(tx pgx.Tx) error {
		births, err := d.queries.BirthsOfEvents(ctx, tx, dbsqlc.BirthsOfEventsParams{EventIds: events, Lowest: followers(events)})
		if err != nil {
			return err
		}
		births = slices.DeleteFunc(births, func(b dbsqlc.Delivery) bool { return !wanted[pairOf(&b)] })
		list, err := d.standings(ctx, tx, births)
		for _, s := range list {
			byPair[Pair{Event: s.Event, Subscription: s.Subscription}] = s
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read the deliveries of %d pairs of event and subscription: %w", len(pairs), err)
	}
	return byPair, nil
}

func pairOf(b *dbsqlc.Delivery) Pair {
	return Pair{Event: hub.EventID{ID: b.EventID}, Subscription: hub.SubscriptionID{ID: b.SubscriptionID}}
}
