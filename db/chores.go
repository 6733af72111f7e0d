package db

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/streaming-hub/streaming-hub/db/internal/dbsqlc"
	"github.com/streaming-hub/streaming-hub/hub"
)

// chore is a lane in which the waiting deliveries of a subscription have to be
// brought in line with what became of it.
type chore struct {
	subscription hub.SubscriptionID
	destination  hub.DestinationID
}

// choresOf are the lanes that a change of a subscription concerns: none when
// its deliveries go on as before, else its lane, and with another destination
// the old and the new one. A PULL subscription has no deliveries.
func choresOf(before, after *hub.EventSubscription) []chore {
	moved := before.Destination != after.Destination
	if after.Kind == hub.SinkPull || !moved && before.Deliverable() == after.Deliverable() && before.DeletedAt.IsZero() == after.DeletedAt.IsZero() {
		return nil
	}
	list := []chore{{after.ID, before.Destination}}
	if moved {
		list = append(list, chore{after.ID, after.Destination})
	}
	return list
}

// addChores asks the data plane, in the transaction of the change.
func (d *DB) addChores(ctx context.Context, tx pgx.Tx, tenant hub.TenantID, list []chore) error {
	if len(list) == 0 {
		return nil
	}
	p := dbsqlc.AddChoresParams{TenantID: string(tenant)}
	for _, c := range list {
		p.SubscriptionIds = append(p.SubscriptionIds, c.subscription.ID)
		p.DestinationIds = append(p.DestinationIds, c.destination.ID)
	}
	return d.queries.AddChores(ctx, tx, p)
}
