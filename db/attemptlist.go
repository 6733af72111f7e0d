package db

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/streaming-hub/streaming-hub/db/internal/dbsqlc"
	"github.com/streaming-hub/streaming-hub/hub"
)

// AttemptsOf reads the newest hundred attempts of each delivery, the first one
// first.
func (d *DB) AttemptsOf(ctx context.Context, ids []hub.DeliveryID) (map[hub.DeliveryID][]hub.RecordedAttempt, error) {
	keys := deliveryKeys(ids)
	rows, err := d.queries.AttemptsOfDeliveries(ctx, d.pool, dbsqlc.AttemptsOfDeliveriesParams{DeliveryIds: keys, Lowest: followers(keys)})
	if err != nil {
		return nil, fmt.Errorf("read the attempts of %d deliveries: %w", len(ids), err)
	}
	return attemptsOf(rows)
}

// LastAttempts reads the last attempt of each delivery that had one.
func (d *DB) LastAttempts(ctx context.Context, ids []hub.DeliveryID) (map[hub.DeliveryID][]hub.RecordedAttempt, error) {
	keys := deliveryKeys(ids)
	rows, err := d.queries.LastAttempts(ctx, d.pool, dbsqlc.LastAttemptsParams{DeliveryIds: keys, Lowest: followers(keys)})
	if err != nil {
		return nil, fmt.Errorf("read the last attempts of %d deliveries: %w", len(ids), err)
	}
	return attemptsOf(rows)
}

// AuthorizationHeaders reads the names of the headers in which destinations
// want a credential; those that want none are missing.
func (d *DB) AuthorizationHeaders(ctx context.Context, ids []hub.DestinationID) (map[hub.DestinationID]string, error) {
	rows, err := d.queries.AuthorizationsOfDestinations(ctx, d.pool, destinationKeys(ids))
	if err != nil {
		return nil, fmt.Errorf("read the credentials of %d destinations: %w", len(ids), err)
	}
	names := make(map[hub.DestinationID]string, len(rows))
	for _, r := range rows {
		names[hub.DestinationID{ID: r.DestinationID}] = "Authorization"
		if hub.CredentialKind(r.Kind) == hub.CredentialHeader {
			names[hub.DestinationID{ID: r.DestinationID}] = r.Name
		}
	}
	return names, nil
}

func attemptsOf(rows []dbsqlc.Attempt) (map[hub.DeliveryID][]hub.RecordedAttempt, error) {
	byDelivery := make(map[hub.DeliveryID][]hub.RecordedAttempt)
	for i := range rows {
		a, err := attemptOf(&rows[i])
		if err != nil {
			return nil, err
		}
		byDelivery[a.Delivery] = append(byDelivery[a.Delivery], a)
	}
	return byDelivery, nil
}

func attemptOf(r *dbsqlc.Attempt) (hub.RecordedAttempt, error) {
	var detail AttemptDetail
	if err := json.Unmarshal(r.Detail, &detail); err != nil {
		return hub.RecordedAttempt{}, fmt.Errorf("read the detail of attempt %s: %w", r.ID, err)
	}
	a := hub.RecordedAttempt{
		Delivery: hub.DeliveryID{ID: r.DeliveryID}, Event: hub.EventID{ID: r.EventID},
		Subscription: hub.SubscriptionID{ID: r.SubscriptionID}, Destination: hub.DestinationID{ID: r.DestinationID},
		Tenant: hub.TenantID(r.TenantID), Run: r.Run,
		Attempt: hub.Attempt{
			ID: hub.AttemptID{ID: r.ID}, Number: r.Number, Started: r.StartedAt,
			Timings: hub.Timings{
				DNS: detail.DNSMicros, Connect: detail.ConnectMicros, TLS: detail.TLSMicros,
				FirstByte: detail.FirstByteMicros, Total: r.TotalUs,
			},
			Answer: hub.Answer{
				Status: r.Status, Headers: detail.ResponseHeaders, Snippet: detail.Snippet, Truncated: detail.Truncated,
				RetryAfter: detail.RetryAfter, RemoteIP: detail.RemoteIP, TLSVersion: detail.TLSVersion,
			},
			Failure:     hub.Failure{Class: hub.ErrorClass(r.ErrorClass), Phase: detail.FailurePhase, Detail: detail.FailureDetail},
			TraceParent: detail.TraceParent,
		},
		Decision: hub.Decision{
			State: hub.State(r.State), DeadReason: detail.DeadReason, Counted: detail.Counted, Reason: detail.Reason,
		},
	}
	if r.NextAt != nil {
		a.Decision.NextAt = *r.NextAt
	}
	return a, nil
}
