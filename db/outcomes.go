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
	TraceParent     string         `json:"traceparent,omitempty"` // sent in place of the event's
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
		FailurePhase: a.Failure.Phase, FailureDetail: a.Failure.Detail, TraceParent: a.TraceParent,
		DeadReason: o.Decision.DeadReason, Counted: o.Decision.Counted, Reason: o.Decision.Reason,
	}
}

// RecordOutcomes writes a flush of outcomes in one transaction of two round
// trips, and wakes the feed readers. feedID is a fresh id for the feed's row.
// It returns the deliveries that were recorded: the others had lost their
// lease, and nothing of them is kept.
func (d *DB) RecordOutcomes(ctx context.Context, feedID hub.ID, outcomes []hub.Outcome) (map[hub.DeliveryID]bool, error) {
	conn, err := d.pool.Acquire(ctx)
	if err != nil {
		return nil, fmt.Errorf("get a connection for outcomes: %w", err)
	}
	defer conn.Release() // a connection still inside a transaction is closed
	held, err := d.moveOn(ctx, conn.Conn(), outcomes)
	if err == nil {
		err = d.writeHistory(ctx, conn.Conn(), feedID, outcomes, held)
	}
	if err != nil {
		return nil, fmt.Errorf("record %d outcomes: %w", len(outcomes), err)
	}
	recorded := make(map[hub.DeliveryID]bool, len(held))
	for f := range held {
		recorded[f.delivery] = true
	}
	return recorded, nil
}

// fence is a lease that an outcome was made under. A worker that stood still
// and the one that took its delivery over may meet in one flush, so the
// delivery alone does not say whose outcome counts.
type fence struct {
	delivery hub.DeliveryID
	token    int64
}

// moveOn begins the transaction and takes the queue rows a step further,
// those whose token still holds; it returns these.
func (d *DB) moveOn(ctx context.Context, conn *pgx.Conn, outcomes []hub.Outcome) (map[fence]bool, error) {
	var settle dbsqlc.SettleQueueParams
	var again dbsqlc.RescheduleQueueParams
	for i := range outcomes {
		o := &outcomes[i]
		if o.Decision.State != hub.Waiting {
			settle.Ids = append(settle.Ids, o.Delivery.ID.ID)
			settle.LeaseTokens = append(settle.LeaseTokens, o.Token)
			continue
		}
		again.Ids = append(again.Ids, o.Delivery.ID.ID)
		again.LeaseTokens = append(again.LeaseTokens, o.Token)
		again.NextAts = append(again.NextAts, o.Decision.NextAt)
		again.Numbers = append(again.Numbers, o.Attempt.Number)
		again.RunAttempts = append(again.RunAttempts, o.Delivery.RunAttempts+counted(o))
		again.StartedAts = append(again.StartedAts, o.Attempt.Started)
		again.LastAts = append(again.LastAts, o.Decision.LastAt)
	}
	held := make(map[fence]bool, len(outcomes))
	read := func(rows pgx.Rows) error {
		for rows.Next() {
			var f fence
			if err := rows.Scan(&f.delivery.ID, &f.token); err != nil {
				return err
			}
			held[f] = true
		}
		return rows.Err()
	}
	var batch pgx.Batch
	line := &pipeline{batch: &batch}
	batch.Queue("begin")
	if len(settle.Ids) > 0 {
		if _, err := d.queries.SettleQueue(ctx, line, settle); !errors.Is(err, errQueued) {
			return nil, err
		}
		line.queue(read)
	}
	if len(again.Ids) > 0 {
		if _, err := d.queries.RescheduleQueue(ctx, line, again); !errors.Is(err, errQueued) {
			return nil, err
		}
		line.queue(read)
	}
	return held, conn.SendBatch(ctx, &batch).Close()
}

func counted(o *hub.Outcome) int32 {
	if o.Decision.Counted {
		return 1
	}
	return 0
}

// writeHistory writes the outcomes whose lease was held, and commits.
func (d *DB) writeHistory(ctx context.Context, conn *pgx.Conn, feedID hub.ID, outcomes []hub.Outcome, held map[fence]bool) error {
	var a dbsqlc.InsertAttemptsParams
	var dead dbsqlc.InsertDeadResultsParams
	var items itemMoves
	var feed []byte
	for i := range outcomes {
		o := &outcomes[i]
		if !held[fence{o.Delivery.ID, o.Token}] {
			continue
		}
		items.add(&o.Delivery, itemAfter(&o.Decision))
		detail, err := json.Marshal(detailOf(o))
		if err != nil {
			return fmt.Errorf("encode attempt %s: %w", o.Attempt.ID, err)
		}
		if len(feed) > 0 {
			feed = append(feed, '\n')
		}
		item := feedItemOf(o)
		feed = item.appendTo(feed)
		if o.Attempt.Number > 0 {
			addAttempt(&a, o, detail)
		}
		if o.Decision.State == hub.Dead {
			addDead(&dead, &Dead{
				Delivery: o.Delivery, ID: o.Attempt.ID.ID, Reason: o.Decision.DeadReason,
				Text: o.Attempt.Failure.Detail, Fingerprint: o.Decision.Fingerprint,
			})
		}
	}
	var batch pgx.Batch
	line := &pipeline{batch: &batch}
	if len(a.Ids) > 0 {
		if err := d.queries.InsertAttempts(ctx, line, a); err != nil {
			return err
		}
	}
	if len(feed) > 0 {
		if err := d.queries.InsertFeed(ctx, line, dbsqlc.InsertFeedParams{ID: feedID, Items: feed, Notable: len(dead.Ids) > 0}); err != nil {
			return err
		}
	}
	if len(dead.Ids) > 0 {
		if err := d.queries.InsertDeadResults(ctx, line, dead); err != nil {
			return err
		}
	}
	if err := d.moveItems(ctx, line, &items); err != nil {
		return err
	}
	batch.Queue("commit")
	return conn.SendBatch(ctx, &batch).Close()
}

func addAttempt(p *dbsqlc.InsertAttemptsParams, o *hub.Outcome, detail []byte) {
	d, a := &o.Delivery, &o.Attempt
	p.Ids = append(p.Ids, a.ID.ID)
	p.TenantIds = append(p.TenantIds, string(d.Tenant))
	p.DeliveryIds = append(p.DeliveryIds, d.ID.ID)
	p.EventIds = append(p.EventIds, d.Event.ID)
	p.SubscriptionIds = append(p.SubscriptionIds, d.Subscription.ID)
	p.DestinationIds = append(p.DestinationIds, d.Destination.ID)
	p.Runs = append(p.Runs, d.Run)
	p.Numbers = append(p.Numbers, a.Number)
	p.StartedAts = append(p.StartedAts, a.Started)
	p.TotalUs = append(p.TotalUs, a.Timings.Total)
	p.Statuses = append(p.Statuses, a.Answer.Status)
	p.ErrorClasses = append(p.ErrorClasses, string(a.Failure.Class))
	p.States = append(p.States, string(o.Decision.State))
	p.NextAts = append(p.NextAts, nextAt(o))
	p.Details = append(p.Details, detail)
}

// nextAt fills the column's array; it is read only of a delivery that waits.
func nextAt(o *hub.Outcome) time.Time {
	if o.Decision.State == hub.Waiting {
		return o.Decision.NextAt
	}
	return o.Attempt.Started
}

func feedItemOf(o *hub.Outcome) FeedItem {
	item := FeedItem{
		Delivery: o.Delivery.ID, Event: o.Delivery.Event, Tenant: o.Delivery.Tenant,
		Subscription: o.Delivery.Subscription, Destination: o.Delivery.Destination,
		Attempt: o.Attempt.ID, Number: o.Attempt.Number, State: o.Decision.State,
		DeadReason: o.Decision.DeadReason, Status: o.Attempt.Answer.Status, ErrorClass: o.Attempt.Failure.Class,
		EventType: o.EventType, Source: o.Source,
		StartedMicros: o.Attempt.Started.UnixMicro(), TotalMicros: o.Attempt.Timings.Total, Test: o.Delivery.Test,
	}
	if o.Decision.State == hub.Waiting {
		item.NextMicros = o.Decision.NextAt.UnixMicro()
	}
	if o.Decision.State == hub.Dead {
		item.Fingerprint = o.Decision.Fingerprint
	}
	if o.Attempt.Number == 0 {
		item.Attempt, item.Number = hub.AttemptID{}, o.Delivery.Attempts
	}
	return item
}
