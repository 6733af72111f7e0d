package db

import (
	"context"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/streaming-hub/streaming-hub/db/internal/dbsqlc"
	"github.com/streaming-hub/streaming-hub/hub"
)

// releaseRuns gives the deliveries of items a fresh run, those that still can
// have one.
func (d *DB) releaseRuns(ctx context.Context, tx pgx.Tx, j *hub.ReplayJob, items []dbsqlc.ReplayItemsFromRow) (release, error) {
	ids := make([]hub.ID, len(items))
	notes := make(release, len(items))
	for i := range items {
		ids[i] = items[i].DeliveryID
		notes[ids[i]] = "it is past its retention"
	}
	lowest, highest := bounds(ids)
	births, err := d.queries.LockDeliveries(ctx, tx, dbsqlc.LockDeliveriesParams{Ids: ids, Lowest: lowest, Highest: highest})
	if err != nil {
		return nil, err
	}
	list, err := d.standings(ctx, tx, births)
	if err != nil {
		return nil, err
	}
	facts, err := d.runFacts(ctx, tx, list)
	if err != nil {
		return nil, err
	}
	states := statesOf(&j.Filter)
	p := dbsqlc.InsertReplayRunsParams{JobID: j.ID.ID}
	for i := range list {
		s := &list[i]
		event, stored := facts.events[s.Event.ID]
		sub := facts.subs[s.Subscription]
		note := whySkipped(states, s.State, sub, stored)
		if notes[s.Delivery.ID.ID] = note; note != "" {
			continue
		}
		s.Delivery.Destination = sub.Destination // lanes are kept by where attempts go now
		s.Delivery.Run++
		addRun(&p, &s.Delivery, event.BodyBytes)
	}
	return notes, d.insertRuns(ctx, tx, p, notes)
}

// whySkipped says why a delivery that was frozen gets no run after all, "" when
// it gets one.
func whySkipped(wanted []hub.State, now hub.State, sub *hub.EventSubscription, stored bool) string {
	switch {
	case !now.Settled():
		return "unfinished: " + strings.ToLower(strings.ReplaceAll(string(now), "_", " "))
	case !slices.Contains(wanted, now):
		return strings.ToLower(string(now)) + " meanwhile"
	}
	return undeliverable(sub, stored)
}

func addRun(p *dbsqlc.InsertReplayRunsParams, v *hub.Delivery, bodyBytes int32) {
	p.Ids, p.TenantIds = append(p.Ids, v.ID.ID), append(p.TenantIds, string(v.Tenant))
	p.DestinationIds, p.SubscriptionIds = append(p.DestinationIds, v.Destination.ID), append(p.SubscriptionIds, v.Subscription.ID)
	p.EventIds, p.Runs = append(p.EventIds, v.Event.ID), append(p.Runs, v.Run)
	p.Attempts, p.BodyBytes = append(p.Attempts, v.Attempts), append(p.BodyBytes, bodyBytes)
}

// insertRuns makes the queue rows, and notes which were there already.
func (d *DB) insertRuns(ctx context.Context, tx pgx.Tx, p dbsqlc.InsertReplayRunsParams, notes release) error {
	if len(p.Ids) == 0 {
		return nil
	}
	made, err := d.queries.InsertReplayRuns(ctx, tx, p)
	if err != nil || len(made) == len(p.Ids) {
		return err
	}
	for _, id := range p.Ids {
		notes[id] = "unfinished: begun meanwhile"
	}
	for _, id := range made {
		notes[id] = ""
	}
	return nil
}

// releaseEvents makes the deliveries of a backfill's items: birth and queue
// rows. The subscription's row lock keeps other backfills of it from making
// one of the same event; ingest makes them with the event only.
func (d *DB) releaseEvents(ctx context.Context, tx pgx.Tx, j *hub.ReplayJob, items []dbsqlc.ReplayItemsFromRow) (release, error) {
	subs, err := d.queries.LockBackfilled(ctx, tx, []hub.ID{j.Range.Subscription.ID})
	if err != nil {
		return nil, err
	}
	var sub *hub.EventSubscription
	if len(subs) > 0 {
		found := subscriptionOf(&subs[0])
		sub = &found
	}
	events := make([]hub.ID, len(items))
	for i := range items {
		events[i] = items[i].EventID
	}
	births, err := d.queries.BirthsOfEvents(ctx, tx, dbsqlc.BirthsOfEventsParams{EventIds: events, Lowest: followers(events)})
	if err != nil {
		return nil, err
	}
	has := make(map[Pair]bool)
	for i := range births {
		has[pairOf(&births[i])] = true
	}
	facts, err := d.eventFacts(ctx, tx, events)
	if err != nil {
		return nil, err
	}
	notes := make(release, len(items))
	p := dbsqlc.InsertReplayRunsParams{JobID: j.ID.ID}
	for i := range items {
		it := &items[i]
		event, stored := facts[it.EventID]
		v := hub.Delivery{
			ID: hub.DeliveryID{ID: it.DeliveryID}, Event: hub.EventID{ID: it.EventID}, Tenant: hub.TenantID(it.TenantID),
			Subscription: hub.SubscriptionID{ID: it.SubscriptionID}, Run: 1,
		}
		note := undeliverable(sub, stored)
		if note == "" && has[Pair{Event: v.Event, Subscription: v.Subscription}] {
			note = "it got a delivery meanwhile"
		}
		if notes[it.DeliveryID] = note; note == "" {
			v.Destination = sub.Destination
			addRun(&p, &v, event.BodyBytes)
		}
	}
	if len(p.Ids) > 0 {
		if err := d.queries.InsertBirths(ctx, tx, dbsqlc.InsertBirthsParams{
			Ids: p.Ids, TenantIds: p.TenantIds, EventIds: p.EventIds, SubscriptionIds: p.SubscriptionIds, DestinationIds: p.DestinationIds,
		}); err != nil {
			return nil, err
		}
	}
	return notes, d.insertRuns(ctx, tx, p, notes)
}
