package db

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"time"

	"github.com/streaming-hub/streaming-hub/db/internal/dbsqlc"
	"github.com/streaming-hub/streaming-hub/hub"
)

// Lane is the queue of one destination of one tenant.
type Lane struct {
	Tenant      hub.TenantID
	Destination hub.DestinationID
}

// LaneHead is a lane with the time until its earliest delivery is due: zero or
// negative when it is due now. A lane of held deliveries has the maximum.
type LaneHead struct {
	Lane
	DueIn time.Duration
}

// Lanes walks the queue's lanes after the given one, in order; the zero Lane
// starts at the beginning. At most limit lanes are looked at.
func (d *DB) Lanes(ctx context.Context, after Lane, limit int) ([]LaneHead, error) {
	rows, err := d.queries.LanesAfter(ctx, d.pool, dbsqlc.LanesAfterParams{
		AfterTenant: string(after.Tenant), AfterDestination: after.Destination.ID, MaxLanes: int32(limit),
	})
	if err != nil {
		return nil, fmt.Errorf("walk the lanes of the queue: %w", err)
	}
	heads := make([]LaneHead, len(rows))
	for i, r := range rows {
		heads[i] = LaneHead{
			Lane:  Lane{hub.TenantID(r.TenantID), hub.DestinationID{ID: r.DestinationID}},
			DueIn: time.Duration(math.MaxInt64),
		}
		if s := r.DueInSeconds * float64(time.Second); s < math.MaxInt64 {
			heads[i].DueIn = time.Duration(s)
		}
	}
	return heads, nil
}

// LaneQuota is how many deliveries to claim of a lane.
type LaneQuota struct {
	Lane
	Quota int
}

// Claim is a delivery with the lease on it.
type Claim struct {
	Delivery   hub.Delivery
	LeaseToken int64
	// Reclaims counts the leases that ended without a recorded outcome.
	Reclaims int16
}

// ClaimLanes leases due deliveries of the lanes for the given time by the
// database clock. Rows that another process is claiming are left to it.
func (d *DB) ClaimLanes(ctx context.Context, quotas []LaneQuota, lease time.Duration) ([]Claim, error) {
	p := dbsqlc.ClaimLanesParams{Lease: interval(lease)}
	for _, q := range quotas {
		p.TenantIds = append(p.TenantIds, string(q.Tenant))
		p.DestinationIds = append(p.DestinationIds, q.Destination.ID)
		p.Quotas = append(p.Quotas, int64(q.Quota))
	}
	rows, err := d.queries.ClaimLanes(ctx, d.pool, p)
	if err != nil {
		return nil, fmt.Errorf("claim deliveries of %d lanes: %w", len(quotas), err)
	}
	claims := make([]Claim, len(rows))
	for i, r := range rows {
		claims[i] = Claim{
			Delivery: hub.Delivery{
				ID: hub.DeliveryID{ID: r.ID}, Event: hub.EventID{ID: r.EventID}, Tenant: hub.TenantID(r.TenantID),
				Subscription: hub.SubscriptionID{ID: r.SubscriptionID}, Destination: hub.DestinationID{ID: r.DestinationID},
				Run: r.Run, Attempts: r.Attempts, RunAttempts: r.RunAttempts,
				ReceivedAt: r.ReceivedAt, DueAt: r.DueAt, BodyBytes: r.BodyBytes,
			},
			LeaseToken: *r.LeaseToken, Reclaims: r.Reclaims,
		}
		if r.FirstFailedAt != nil {
			claims[i].Delivery.FirstFailedAt = *r.FirstFailedAt
		}
	}
	return claims, nil
}

// Events loads events by id, in no order; those that retention has dropped
// are missing.
func (d *DB) Events(ctx context.Context, ids []hub.ID) ([]hub.Event, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	lowest, highest := ids[0], ids[0]
	for _, id := range ids[1:] {
		if bytes.Compare(id[:], lowest[:]) < 0 {
			lowest = id
		}
		if bytes.Compare(id[:], highest[:]) > 0 {
			highest = id
		}
	}
	rows, err := d.queries.EventsByID(ctx, d.pool, dbsqlc.EventsByIDParams{Ids: ids, Lowest: lowest, Highest: highest})
	if err != nil {
		return nil, fmt.Errorf("load %d events: %w", len(ids), err)
	}
	events := make([]hub.Event, len(rows))
	for i, r := range rows {
		e := &events[i]
		*e = hub.Event{
			ID: hub.EventID{ID: r.ID}, Tenant: hub.TenantID(r.TenantID), Seq: r.Seq,
			Source: r.Source, CEID: r.CeID, SchemaVersion: r.SchemaVersion, SchemaMajor: r.SchemaMajor,
			ReceivedAt: r.ReceivedAt, Body: r.Body,
			Record: hub.RecordPosition{Topic: r.Topic, Partition: r.KafkaPartition, Offset: r.KafkaOffset},
		}
		if err := decodeContext(r.Context, e); err != nil {
			return nil, err
		}
	}
	return events, nil
}

// ReleaseLeases gives claimed deliveries back without an attempt, due again
// after putOff; zero keeps their due time. Leases already lost stay lost.
func (d *DB) ReleaseLeases(ctx context.Context, claims []Claim, putOff time.Duration) error {
	p := dbsqlc.ReleaseLeasesParams{PutOff: interval(putOff)}
	for _, c := range claims {
		p.Ids = append(p.Ids, c.Delivery.ID.ID)
		p.LeaseTokens = append(p.LeaseTokens, c.LeaseToken)
	}
	if err := d.queries.ReleaseLeases(ctx, d.pool, p); err != nil {
		return fmt.Errorf("release the leases of %d deliveries: %w", len(claims), err)
	}
	return nil
}

// OldestDue is how long the longest-waiting due delivery has waited without a
// worker, over the first maxLanes lanes.
func (d *DB) OldestDue(ctx context.Context, maxLanes int) (time.Duration, error) {
	seconds, err := d.queries.OldestDue(ctx, d.pool, int32(maxLanes))
	if err != nil {
		return 0, fmt.Errorf("look for the oldest due delivery: %w", err)
	}
	return time.Duration(seconds * float64(time.Second)), nil
}
