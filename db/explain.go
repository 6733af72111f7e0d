package db

import (
	"context"
	"fmt"

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
	var events, subs []hub.ID
	for _, p := range pairs {
		events, subs = append(events, p.Event.ID), append(subs, p.Subscription.ID)
	}
	byPair := make(map[Pair]hub.Standing, len(pairs))
	err := pgx.BeginTxFunc(ctx, d.pool, snapshotRead, func(tx pgx.Tx) error {
		births, err := d.queries.BirthsOfPairs(ctx, tx, dbsqlc.BirthsOfPairsParams{
			EventIds: events, SubscriptionIds: subs, Lowest: followers(events),
		})
		if err != nil {
			return err
		}
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
