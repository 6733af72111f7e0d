package db

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/streaming-hub/streaming-hub/db/internal/dbsqlc"
	"github.com/streaming-hub/streaming-hub/hub"
)

// TestSend is a synthetic event for one subscription.
type TestSend struct {
	Event    hub.Event    // without seq and record
	Delivery hub.Delivery // ids only
	Audit    AuditEntry
}

// SendTest queues a test send and returns its delivery. The configuration
// stays as it is: neither subscription nor destination is touched.
func (d *DB) SendTest(ctx context.Context, t TestSend) (now hub.Standing, err error) {
	e, v := &t.Event, &t.Delivery
	err = pgx.BeginFunc(ctx, d.pool, func(tx pgx.Tx) error {
		if err := d.queries.InsertTestEvent(ctx, tx, dbsqlc.InsertTestEventParams{
			EventID: e.ID.ID, TenantID: string(e.Tenant), Source: e.Source, CeID: e.CEID, EventType: e.Key(),
			SchemaVersion: e.SchemaVersion, SchemaMajor: e.SchemaMajor, Context: encodeContext(e), Body: e.Body,
			ID: v.ID.ID, SubscriptionID: v.Subscription.ID, DestinationID: v.Destination.ID, BodyBytes: int32(len(e.Body)),
		}); err != nil {
			return err
		}
		births, err := d.queries.BirthsByID(ctx, tx, dbsqlc.BirthsByIDParams{Ids: []hub.ID{v.ID.ID}, Lowest: v.ID.ID, Highest: v.ID.ID})
		if err != nil {
			return err
		}
		list, err := d.standings(ctx, tx, births)
		if err != nil {
			return err
		}
		now = list[0]
		return d.audit(ctx, tx, t.Audit)
	})
	if err != nil {
		return now, fmt.Errorf("queue a test send for event subscription %s: %w", v.Subscription, err)
	}
	return now, nil
}
