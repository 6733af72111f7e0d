package db

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/streaming-hub/streaming-hub/db/internal/dbsqlc"
	"github.com/streaming-hub/streaming-hub/hub"
)

// EventHead is an event without its body.
type EventHead struct {
	Event     hub.Event // Body is nil
	BodyBytes int32
}

// EventPage is a page of events and the snapshot in which it was read.
type EventPage struct {
	Events   []EventHead
	Snapshot string
}

// snapshotRead is a transaction whose statements all see the same moment.
var snapshotRead = pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}

// EventPageOfTenant reads up to limit events of a tenant with a smaller seq
// than before, the newest first.
func (d *DB) EventPageOfTenant(ctx context.Context, tenant hub.TenantID, before int64, limit int) (EventPage, error) {
	return d.eventPage(ctx, func(tx pgx.Tx) ([]dbsqlc.EventHeadsByIDRow, error) {
		rows, err := d.queries.EventPageOfTenant(ctx, tx, dbsqlc.EventPageOfTenantParams{
			TenantID: string(tenant), Before: before, Page: int32(limit),
		})
		same := make([]dbsqlc.EventHeadsByIDRow, len(rows))
		for i, r := range rows {
			same[i] = dbsqlc.EventHeadsByIDRow(r)
		}
		return same, err
	})
}

// EventPage reads up to limit events of all tenants with smaller ids than
// before, the newest first.
func (d *DB) EventPage(ctx context.Context, before hub.ID, limit int) (EventPage, error) {
	return d.eventPage(ctx, func(tx pgx.Tx) ([]dbsqlc.EventHeadsByIDRow, error) {
		rows, err := d.queries.EventPage(ctx, tx, dbsqlc.EventPageParams{Before: before, Page: int32(limit)})
		same := make([]dbsqlc.EventHeadsByIDRow, len(rows))
		for i, r := range rows {
			same[i] = dbsqlc.EventHeadsByIDRow(r)
		}
		return same, err
	})
}

func (d *DB) eventPage(ctx context.Context, read func(pgx.Tx) ([]dbsqlc.EventHeadsByIDRow, error)) (page EventPage, err error) {
	err = pgx.BeginTxFunc(ctx, d.pool, snapshotRead, func(tx pgx.Tx) error {
		rows, err := read(tx)
		if err != nil {
			return err
		}
		if page.Events, err = eventHeadsOf(rows); err != nil {
			return err
		}
		page.Snapshot, err = d.queries.FeedSnapshot(ctx, tx)
		return err
	})
	if err != nil {
		return page, fmt.Errorf("list events: %w", err)
	}
	return page, nil
}

// EventHeadsByID reads events without bodies; those that do not exist are
// missing.
func (d *DB) EventHeadsByID(ctx context.Context, ids []hub.EventID) ([]EventHead, error) {
	keys, lowest, highest := eventKeys(ids)
	rows, err := d.queries.EventHeadsByID(ctx, d.pool, dbsqlc.EventHeadsByIDParams{Ids: keys, Lowest: lowest, Highest: highest})
	if err != nil {
		return nil, fmt.Errorf("read %d events: %w", len(ids), err)
	}
	return eventHeadsOf(rows)
}

// EventBodies reads the bodies of events; those that do not exist are missing.
func (d *DB) EventBodies(ctx context.Context, ids []hub.EventID) (map[hub.EventID][]byte, error) {
	keys, lowest, highest := eventKeys(ids)
	rows, err := d.queries.EventBodiesByID(ctx, d.pool, dbsqlc.EventBodiesByIDParams{Ids: keys, Lowest: lowest, Highest: highest})
	if err != nil {
		return nil, fmt.Errorf("read the bodies of %d events: %w", len(ids), err)
	}
	bodies := make(map[hub.EventID][]byte, len(rows))
	for _, r := range rows {
		bodies[hub.EventID{ID: r.ID}] = r.Body
	}
	return bodies, nil
}

func eventHeadsOf(rows []dbsqlc.EventHeadsByIDRow) ([]EventHead, error) {
	list := make([]EventHead, len(rows))
	for i := range rows {
		r, e := &rows[i], &list[i].Event
		*e = hub.Event{
			ID: hub.EventID{ID: r.ID}, Tenant: hub.TenantID(r.TenantID), Seq: r.Seq, CEID: r.CeID, Source: r.Source,
			SchemaVersion: r.SchemaVersion, SchemaMajor: r.SchemaMajor, ReceivedAt: r.ReceivedAt,
			Record: hub.RecordPosition{Topic: r.Topic, Partition: r.KafkaPartition, Offset: r.KafkaOffset},
		}
		list[i].BodyBytes = r.BodyBytes
		if err := decodeContext(r.Context, e); err != nil {
			return nil, err
		}
	}
	return list, nil
}

func eventKeys(ids []hub.EventID) (keys []hub.ID, lowest, highest hub.ID) {
	keys = make([]hub.ID, len(ids))
	for i, id := range ids {
		keys[i] = id.ID
	}
	lowest, highest = bounds(keys)
	return keys, lowest, highest
}

// bounds are the smallest and the largest of ids, zero of none.
func bounds(ids []hub.ID) (lowest, highest hub.ID) {
	for i, id := range ids {
		if i == 0 || bytes.Compare(id[:], lowest[:]) < 0 {
			lowest = id
		}
		if i == 0 || bytes.Compare(id[:], highest[:]) > 0 {
			highest = id
		}
	}
	return lowest, highest
}

// clockSlack is how far the clocks of two of the hub's processes may lie
// apart: a row that follows from another can carry an older time by as much.
const clockSlack = time.Hour

// followers is the lowest id that a row can have which was made because of one
// of the given rows.
func followers(of []hub.ID) hub.ID {
	lowest, _ := bounds(of)
	return hub.FloorID(lowest.Time().Add(-clockSlack))
}
