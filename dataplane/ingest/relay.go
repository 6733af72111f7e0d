package ingest

import (
	"context"
	"fmt"
	"time"

	"github.com/streaming-hub/streaming-hub/db"
	"github.com/streaming-hub/streaming-hub/hub"
	"github.com/streaming-hub/streaming-hub/hub/wire"
)

const (
	// relayEvery is how soon an operational event follows what it tells of.
	relayEvery = time.Second
	// relayRows bounds the feed rows of one step, of up to 500 items each.
	relayRows = 20
	// relayName is the relay's row in the database.
	relayName = "operational"
)

// Feed is the live feed, as the relay reads it: the outbox of what the hub
// tells of itself, written in the transaction of what happened.
type Feed interface {
	RelayPlace(ctx context.Context, relay string) (db.FeedPlace, error)
	NotableFeedRows(ctx context.Context, after db.FeedPlace, limit int) ([]db.FeedRow, error)
	MoveRelay(ctx context.Context, relay string, to db.FeedPlace) error
}

// Relay makes events of the reserved tenant out of what the feed tells: a
// subscription was disabled, a delivery died, and so on. They are stored, matched
// and delivered like any other. Nothing is told of the reserved tenant itself,
// so that a webhook that fails cannot feed itself. Replicas may relay at the
// same time: an event's id comes from its place in the feed, and a repeat is a
// duplicate. It works until ctx ends.
func (c *Consumer) Relay(ctx context.Context, f Feed) error {
	tick := time.NewTicker(relayEvery)
	defer tick.Stop()
	for {
		err := c.relayAll(ctx, f)
		if ctx.Err() != nil {
			return nil
		}
		c.outages.Failed("relay operational events", err)
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// relayAll works until the feed tells nothing new.
func (c *Consumer) relayAll(ctx context.Context, f Feed) error {
	place, err := f.RelayPlace(ctx, relayName)
	if err != nil {
		return err
	}
	for {
		rows, err := f.NotableFeedRows(ctx, place, relayRows)
		if err != nil || len(rows) == 0 {
			return err
		}
		deadWanted, err := c.anybodyWants(ctx)
		if err != nil {
			return err
		}
		var records []Record
		for _, r := range rows {
			items, err := db.ParseFeedItems(r.Lines)
			if err != nil {
				c.deps.Log.Error("a row of the live feed is not readable; its operational events are lost", "row", r.Place.Row.String(), "error", err)
			}
			for i := range items {
				if o, ok := operational(&items[i], fmt.Sprintf("%s-%d", r.Place.Row, i), deadWanted); ok {
					records = append(records, factRecord(o.Fact(c.deps.Rules.TypePrefix)))
				}
			}
			place = r.Place
		}
		for len(records) > 0 {
			n := min(len(records), 500)
			if err := c.storeRecords(ctx, records[:n], askFor(records[:n]), nil, func() {}); err != nil {
				return err
			}
			records = records[n:]
		}
		if err := f.MoveRelay(ctx, relayName, place); err != nil {
			return err
		}
	}
}

// anybodyWants reports whether the reserved tenant has a subscription at all.
// Without one, dead letters make no events: there may be a million of them.
func (c *Consumer) anybodyWants(ctx context.Context) (bool, error) {
	tenants, err := c.deps.Tenants.AtVersion(ctx, map[hub.TenantID]int64{hub.HubTenant: 0})
	if err != nil {
		return false, err
	}
	return tenants[hub.HubTenant].Subscriptions() > 0, nil
}

// operational is what an item of the feed tells outside.
func operational(i *db.FeedItem, id string, deadWanted bool) (wire.Operational, bool) {
	switch {
	case i.Tenant == hub.HubTenant:
		return wire.Operational{}, false
	case i.Notice != nil:
		return wire.OperationalOf(i.Notice, id)
	case i.State != hub.Dead || i.Test || !deadWanted:
		return wire.Operational{}, false
	}
	at := time.UnixMicro(i.StartedMicros).Add(time.Duration(i.TotalMicros) * time.Microsecond)
	return wire.Operational{
		ID: id, Resource: "delivery", Event: "dead_lettered", Subject: i.Delivery.String(), At: at,
		Data: wire.OperationalData{
			TenantID: i.Tenant, EventSubscriptionID: i.Subscription.String(), DestinationID: i.Destination.String(),
			DeliveryID: i.Delivery.String(), EventID: i.Event.String(), DeadReason: i.DeadReason, Attempts: i.Number,
		},
	}, true
}

// factRecord is an event of the hub's own as if it had been a record.
func factRecord(ev hub.Event) Record {
	return Record{
		Record: wire.Record{Topic: wire.HubSource, Value: ev.Body}, Verdict: wire.Verdict{Kind: wire.Accept, Event: ev},
		Key: wire.DedupKey(ev.Tenant, ev.Source, ev.CEID), Content: wire.ContentHash(ev.CEType, ev.Body),
	}
}

// askFor is what the transaction of judged records must lock and look up.
func askFor(records []Record) (ask db.IngestBatch) {
	for i := range records {
		ask.Keys = append(ask.Keys, records[i].Key)
	}
	ask.Tenants = []hub.TenantID{hub.HubTenant}
	return ask
}
