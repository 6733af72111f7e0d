package db

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/streaming-hub/streaming-hub/db/internal/dbsqlc"
	"github.com/streaming-hub/streaming-hub/hub"
)

// AttemptDetail is the JSON in attempts.detail: what people read and no query
// filters by. The request headers are not in it: they follow from event,
// delivery and attempt.
type AttemptDetail struct {
	DNSMicros       int32          `json:"dnsUs,omitempty"`
	ConnectMicros   int32          `json:"connectUs,omitempty"`
	TLSMicros       int32          `json:"tlsUs,omitempty"`
	FirstByteMicros int32          `json:"firstByteUs,omitempty"`
	ResponseHeaders []hub.Header   `json:"headers,omitempty"`
	Snippet         string         `json:"snippet,omitempty"`
	Truncated       bool           `json:"truncated,omitempty"`
	RetryAfter      string         `json:"retryAfter,omitempty"`
	RemoteIP        string         `json:"remoteIp,omitempty"`
	TLSVersion      string         `json:"tls,omitempty"`
	FailurePhase    hub.Phase      `json:"phase,omitempty"`
	FailureDetail   string         `json:"failure,omitempty"`
	DeadReason      hub.DeadReason `json:"deadReason,omitempty"`
	Counted         bool           `json:"counted"`
	Reason          string         `json:"reason"`
}

func detailOf(o *hub.Outcome) AttemptDetail {
	a := &o.Attempt
	return AttemptDetail{
		DNSMicros: a.Timings.DNS, ConnectMicros: a.Timings.Connect, TLSMicros: a.Timings.TLS,
		FirstByteMicros: a.Timings.FirstByte, ResponseHeaders: a.Answer.Headers,
		Snippet: a.Answer.Snippet, Truncated: a.Answer.Truncated, RetryAfter: a.Answer.RetryAfter,
		RemoteIP: a.Answer.RemoteIP, TLSVersion: a.Answer.TLSVersion,
		FailurePhase: a.Failure.Phase, FailureDetail: a.Failure.Detail,
		DeadReason: o.Decision.DeadReason, Counted: o.Decision.Counted, Reason: o.Decision.Reason,
	}
}

// RecordOutcomes writes a flush of outcomes in one transaction and one round
// trip, and wakes the feed readers. feedID is a fresh id for the feed's row.
// It returns the deliveries that were recorded: the others had lost their
// lease, and nothing of them is kept.
func (d *DB) RecordOutcomes(ctx context.Context, feedID hub.ID, outcomes []hub.Outcome) (map[hub.DeliveryID]bool, error) {
	p, err := outcomeParams(feedID, outcomes)
	if err != nil {
		return nil, err
	}
	recorded := make(map[hub.DeliveryID]bool, len(outcomes))
	var batch pgx.Batch // one implicit transaction
	line := &pipeline{batch: &batch}
	if _, err := d.queries.RecordOutcomes(ctx, line, p); !errors.Is(err, errQueued) {
		return nil, err
	}
	batch.Queue(line.sql, line.args...).Query(func(rows pgx.Rows) error {
		for rows.Next() {
			var id hub.DeliveryID
			if err := rows.Scan(&id.ID); err != nil {
				return err
			}
			recorded[id] = true
		}
		return rows.Err()
	})
	batch.Queue(dbsqlc.NotifyOutcomes)
	if err := d.pool.SendBatch(ctx, &batch).Close(); err != nil {
		return nil, fmt.Errorf("record %d outcomes: %w", len(outcomes), err)
	}
	return recorded, nil
}

func outcomeParams(feedID hub.ID, outcomes []hub.Outcome) (p dbsqlc.RecordOutcomesParams, err error) {
	n := len(outcomes)
	p = dbsqlc.RecordOutcomesParams{
		DeliveryIds: make([]hub.ID, n), LeaseTokens: make([]int64, n), AttemptIds: make([]hub.ID, n),
		TenantIds: make([]string, n), EventIds: make([]hub.ID, n), SubscriptionIds: make([]hub.ID, n),
		DestinationIds: make([]hub.ID, n), Runs: make([]int32, n), Numbers: make([]int32, n),
		StartedAts: make([]time.Time, n), TotalUs: make([]int32, n), Statuses: make([]int32, n),
		ErrorClasses: make([]string, n), States: make([]string, n), DeadReasons: make([]string, n),
		NextAts: make([]time.Time, n), RunAttempts: make([]int32, n), LastErrors: make([]string, n),
		Details: make([][]byte, n), FeedItems: make([][]byte, n), FeedID: feedID,
	}
	for i := range outcomes {
		o := &outcomes[i]
		del, att, dec := &o.Delivery, &o.Attempt, &o.Decision
		p.DeliveryIds[i], p.LeaseTokens[i], p.AttemptIds[i] = del.ID.ID, o.Token, att.ID.ID
		p.TenantIds[i], p.EventIds[i] = string(del.Tenant), del.Event.ID
		p.SubscriptionIds[i], p.DestinationIds[i] = del.Subscription.ID, del.Destination.ID
		p.Runs[i], p.Numbers[i], p.StartedAts[i] = del.Run, att.Number, att.Started
		p.TotalUs[i], p.Statuses[i] = att.Timings.Total, att.Answer.Status
		p.ErrorClasses[i], p.States[i] = string(att.Failure.Class), string(dec.State)
		p.DeadReasons[i], p.LastErrors[i] = string(dec.DeadReason), att.Failure.Detail
		p.NextAts[i] = att.Started // read only when the state is WAITING
		if dec.State == hub.Waiting {
			p.NextAts[i] = dec.NextAt
		} else {
			p.SettledIds, p.SettledTokens = append(p.SettledIds, del.ID.ID), append(p.SettledTokens, o.Token)
		}
		p.RunAttempts[i] = del.RunAttempts
		if dec.Counted {
			p.RunAttempts[i]++
		}
		if p.Details[i], err = json.Marshal(detailOf(o)); err != nil {
			return p, fmt.Errorf("encode attempt %s: %w", att.ID, err)
		}
		if p.FeedItems[i], err = json.Marshal(feedItemOf(o)); err != nil {
			return p, fmt.Errorf("encode feed item of %s: %w", att.ID, err)
		}
	}
	return p, nil
}

func feedItemOf(o *hub.Outcome) FeedItem {
	item := FeedItem{
		Delivery: o.Delivery.ID, Event: o.Delivery.Event, Tenant: o.Delivery.Tenant,
		Subscription: o.Delivery.Subscription, Destination: o.Delivery.Destination,
		Attempt: o.Attempt.ID, Number: o.Attempt.Number, State: o.Decision.State,
		DeadReason: o.Decision.DeadReason, Status: o.Attempt.Answer.Status, ErrorClass: o.Attempt.Failure.Class,
		EventType: o.EventType, Source: o.Source,
		StartedMicros: o.Attempt.Started.UnixMicro(), TotalMicros: o.Attempt.Timings.Total,
	}
	if o.Decision.State == hub.Waiting {
		item.NextMicros = o.Decision.NextAt.UnixMicro()
	}
	return item
}
