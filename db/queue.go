package db

import (
	"bytes"
	"cmp"
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

// Compare orders lanes as the queue walks them.
func (l Lane) Compare(other Lane) int {
	return cmp.Or(cmp.Compare(l.Tenant, other.Tenant), bytes.Compare(l.Destination.ID[:], other.Destination.ID[:]))
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
	// TestsOnly, for ClaimLast: nothing but test sends.
	TestsOnly bool
}

// Claim is a delivery with the lease on it.
type Claim struct {
	Delivery   hub.Delivery
	LeaseToken int64
	// Reclaims is 0 until a lease of the delivery ended without a recorded
	// outcome, then 1 and from there on the number of lone runs that ended so,
	// plus 1. An outcome makes it 0 again.
	Reclaims int16
}

// ClaimLanes leases due deliveries of the lanes for the given time by the
// database clock. Rows that another process is claiming are left to it.
func (d *DB) ClaimLanes(ctx context.Context, quotas []LaneQuota, lease time.Duration) ([]Claim, error) {
	rows, err := d.queries.ClaimLanes(ctx, d.pool, claimParams(quotas, lease))
	if err != nil {
		return nil, fmt.Errorf("claim deliveries of %d lanes: %w", len(quotas), err)
	}
	return claimsOf(rows), nil
}

// ClaimLast is ClaimLanes for deliveries whose next attempt is the last, which
// run behind an open circuit, and for test sends.
func (d *DB) ClaimLast(ctx context.Context, quotas []LaneQuota, lease time.Duration) ([]Claim, error) {
	p := claimParams(quotas, lease)
	last := dbsqlc.ClaimLastParams{Lease: p.Lease, TenantIds: p.TenantIds, DestinationIds: p.DestinationIds, Quotas: p.Quotas}
	for _, q := range quotas {
		last.TestsOnly = append(last.TestsOnly, q.TestsOnly)
	}
	rows, err := d.queries.ClaimLast(ctx, d.pool, last)
	if err != nil {
		return nil, fmt.Errorf("claim last attempts of %d lanes: %w", len(quotas), err)
	}
	same := make([]dbsqlc.ClaimLanesRow, len(rows))
	for i, r := range rows {
		same[i] = dbsqlc.ClaimLanesRow(r)
	}
	return claimsOf(same), nil
}

func claimParams(quotas []LaneQuota, lease time.Duration) dbsqlc.ClaimLanesParams {
	p := dbsqlc.ClaimLanesParams{Lease: interval(lease)}
	for _, q := range quotas {
		p.TenantIds = append(p.TenantIds, string(q.Tenant))
		p.DestinationIds = append(p.DestinationIds, q.Destination.ID)
		p.Quotas = append(p.Quotas, int64(q.Quota))
	}
	return p
}

func claimsOf(rows []dbsqlc.ClaimLanesRow) []Claim {
	claims := make([]Claim, len(rows))
	for i := range rows {
		r := &rows[i]
		claims[i] = Claim{
			Delivery: hub.Delivery{
				ID: hub.DeliveryID{ID: r.ID}, Event: hub.EventID{ID: r.EventID}, Tenant: hub.TenantID(r.TenantID),
				Subscription: hub.SubscriptionID{ID: r.SubscriptionID}, Destination: hub.DestinationID{ID: r.DestinationID},
				Run: r.Run, Attempts: r.Attempts, RunAttempts: r.RunAttempts,
				ReceivedAt: r.ReceivedAt, DueAt: r.DueAt, Test: r.Test, BodyBytes: r.BodyBytes,
			},
			LeaseToken: *r.LeaseToken, Reclaims: r.Reclaims,
		}
		if r.FirstFailedAt != nil {
			claims[i].Delivery.FirstFailedAt = *r.FirstFailedAt
		}
		if r.LastAt != nil {
			claims[i].Delivery.LastAt = *r.LastAt
		}
		if r.JobID != nil {
			claims[i].Delivery.Job.ID = *r.JobID
		}
	}
	return claims
}

// BeginAlone gives a claim that runs alone a fresh lease and notes that the
// run begins. It is false when the claim was lost.
func (d *DB) BeginAlone(ctx context.Context, c Claim, lease time.Duration) (bool, error) {
	n, err := d.queries.BeginAlone(ctx, d.pool, dbsqlc.BeginAloneParams{
		Lease: interval(lease), ID: c.Delivery.ID.ID, LeaseToken: c.LeaseToken,
	})
	if err != nil {
		return false, fmt.Errorf("begin the lone run of delivery %s: %w", c.Delivery.ID, err)
	}
	return n == 1, nil
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

// Release gives a claim back without an attempt. The zero value of the other
// fields leaves the delivery due as it was.
type Release struct {
	Claim  Claim
	PutOff time.Duration // due again after it
	Hold   bool          // kept back until its subscription returns
	To     hub.DestinationID
}

// ReleaseLeases gives claims back. Leases already lost stay lost.
func (d *DB) ReleaseLeases(ctx context.Context, releases []Release) error {
	var p dbsqlc.ReleaseLeasesParams
	for i := range releases {
		r := &releases[i]
		to := r.To
		if to.IsZero() {
			to = r.Claim.Delivery.Destination
		}
		p.Ids = append(p.Ids, r.Claim.Delivery.ID.ID)
		p.LeaseTokens = append(p.LeaseTokens, r.Claim.LeaseToken)
		p.PutOffUs = append(p.PutOffUs, r.PutOff.Microseconds())
		p.Holds = append(p.Holds, r.Hold)
		p.DestinationIds = append(p.DestinationIds, to.ID)
	}
	if err := d.queries.ReleaseLeases(ctx, d.pool, p); err != nil {
		return fmt.Errorf("release the leases of %d deliveries: %w", len(releases), err)
	}
	return nil
}

// SubscriptionExists reports whether a subscription is there and not deleted.
func (d *DB) SubscriptionExists(ctx context.Context, id hub.SubscriptionID) (bool, error) {
	exists, err := d.queries.SubscriptionExists(ctx, d.pool, id.ID)
	if err != nil {
		return false, fmt.Errorf("look up event subscription %s: %w", id, err)
	}
	return exists, nil
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
