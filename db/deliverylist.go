package db

import (
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/streaming-hub/streaming-hub/db/internal/dbsqlc"
	"github.com/streaming-hub/streaming-hub/hub"
)

// Bounds of one page's work, in birth rows: how many are looked at together,
// and after how many a page with a filter ends however few it found. 2000 rows
// cost some 30 ms.
const (
	walkChunk = 250
	walkLimit = 2000
)

// DeliveryFilter says which deliveries are listed; zero fields do not filter.
type DeliveryFilter struct {
	Tenant       hub.TenantID
	Subscription hub.SubscriptionID
	Destination  hub.DestinationID
	Event        hub.EventID
	States       []hub.State
}

// narrow reports whether few of the rows that are walked may pass.
func (f *DeliveryFilter) narrow() bool { return len(f.States) > 0 || !f.Destination.IsZero() }

// ByEnd reports whether the list is walked by the ends of deliveries, the
// latest end first, instead of by their birth. So it is when only dead or
// discarded ones are wanted, and nothing narrower drives the list.
func (f *DeliveryFilter) ByEnd() bool {
	ends := len(f.States) > 0 && !slices.ContainsFunc(f.States, func(s hub.State) bool {
		return s != hub.Dead && s != hub.Discarded
	})
	return ends && f.Subscription.IsZero() && f.Event.IsZero()
}

// unfinished reports whether only deliveries pass that have a queue row.
func (f *DeliveryFilter) unfinished() bool {
	return len(f.States) > 0 && !slices.ContainsFunc(f.States, func(s hub.State) bool { return s.Settled() })
}

func (f *DeliveryFilter) passes(s *hub.Standing) bool {
	return (f.Tenant == "" || s.Tenant == f.Tenant) &&
		(f.Subscription.IsZero() || s.Subscription == f.Subscription) &&
		(f.Destination.IsZero() || s.Destination == f.Destination) &&
		(f.Event.IsZero() || s.Event == f.Event) &&
		(len(f.States) == 0 || slices.Contains(f.States, s.State))
}

// DeliveryPage is a page of deliveries and the snapshot in which it was read.
type DeliveryPage struct {
	Deliveries []hub.Standing
	// Positions are the places of the deliveries in the walk.
	Positions []hub.ID
	// More says that the walk goes on from End; there may be nothing left.
	More     bool
	End      hub.ID
	Snapshot string
}

// DeliveryPage reads up to limit deliveries behind the position before, the
// newest first. Its work is bounded whatever the history holds; a page can be
// short while More is true.
func (d *DB) DeliveryPage(ctx context.Context, f DeliveryFilter, before hub.ID, limit int) (page DeliveryPage, err error) {
	err = pgx.BeginTxFunc(ctx, d.pool, snapshotRead, func(tx pgx.Tx) error {
		if err := d.ofOneTenant(ctx, tx, &f); err != nil {
			return err
		}
		if err := d.walk(ctx, tx, &f, before, limit, &page); err != nil {
			return err
		}
		page.Snapshot, err = d.queries.FeedSnapshot(ctx, tx)
		return err
	})
	if err != nil {
		return page, fmt.Errorf("list deliveries: %w", err)
	}
	return page, nil
}

// ofOneTenant adds to a filter by destination the destination's tenant, so that
// the walk is through that tenant's deliveries only.
func (d *DB) ofOneTenant(ctx context.Context, tx pgx.Tx, f *DeliveryFilter) error {
	if f.Tenant != "" || f.Destination.IsZero() {
		return nil
	}
	rows, err := d.queries.DestinationsByID(ctx, tx, []hub.ID{f.Destination.ID})
	if len(rows) > 0 {
		f.Tenant = hub.TenantID(rows[0].TenantID)
	}
	return err
}

func (d *DB) walk(ctx context.Context, tx pgx.Tx, f *DeliveryFilter, before hub.ID, limit int, page *DeliveryPage) error {
	chunk := firstChunk(limit, f.narrow())
	page.End = before
	for scanned := 0; ; chunk = max(chunk, walkChunk) {
		births, positions, end, err := d.births(ctx, tx, f, page.End, chunk)
		if err != nil {
			return err
		}
		if f.unfinished() {
			if births, positions, err = d.onlyQueued(ctx, tx, births, positions); err != nil {
				return err
			}
		}
		standings, err := d.standings(ctx, tx, births)
		if err != nil {
			return err
		}
		for i := range standings {
			if !f.passes(&standings[i]) {
				continue
			}
			if len(page.Deliveries) == limit {
				page.End, page.More = page.Positions[limit-1], true
				return nil
			}
			page.Deliveries = append(page.Deliveries, standings[i])
			page.Positions = append(page.Positions, positions[i])
		}
		if end.IsZero() {
			return nil
		}
		page.End = end
		if scanned += chunk; scanned >= walkLimit {
			page.More = true
			return nil
		}
	}
}

// births reads a chunk of the walk: birth rows, their places in it, and the
// place where the chunk ends, zero at the end of the list.
func (d *DB) births(ctx context.Context, tx pgx.Tx, f *DeliveryFilter, before hub.ID, chunk int) (births []dbsqlc.Delivery, positions []hub.ID, end hub.ID, err error) {
	q, n := d.queries, int32(chunk)
	switch {
	case f.ByEnd():
		return d.ends(ctx, tx, f, before, chunk)
	case !f.Event.IsZero():
		births, err = q.BirthsOfEvent(ctx, tx, dbsqlc.BirthsOfEventParams{
			EventID: f.Event.ID, Lowest: followers([]hub.ID{f.Event.ID}), Before: before, Page: n,
		})
	case !f.Subscription.IsZero():
		births, err = q.BirthsOfSubscription(ctx, tx, dbsqlc.BirthsOfSubscriptionParams{
			SubscriptionID: f.Subscription.ID, Before: before, Page: n,
		})
	case f.Tenant != "":
		births, err = q.BirthsOfTenant(ctx, tx, dbsqlc.BirthsOfTenantParams{TenantID: string(f.Tenant), Before: before, Page: n})
	default:
		births, err = q.Births(ctx, tx, dbsqlc.BirthsParams{Before: before, Page: n})
	}
	positions = make([]hub.ID, len(births))
	for i := range births {
		positions[i] = births[i].ID
	}
	if len(births) == chunk {
		end = positions[chunk-1]
	}
	return births, positions, end, err
}

// onlyQueued keeps the deliveries that have a queue row, with their places:
// what became of the others need not be looked up.
func (d *DB) onlyQueued(ctx context.Context, tx pgx.Tx, births []dbsqlc.Delivery, positions []hub.ID) ([]dbsqlc.Delivery, []hub.ID, error) {
	ids := make([]hub.ID, len(births))
	for i := range births {
		ids[i] = births[i].ID
	}
	rows, err := d.queries.QueuedByID(ctx, tx, ids)
	queued := make(map[hub.ID]bool, len(rows))
	for i := range rows {
		queued[rows[i].ID] = true
	}
	kept, places := births[:0], positions[:0]
	for i := range births {
		if queued[births[i].ID] {
			kept, places = append(kept, births[i]), append(places, positions[i])
		}
	}
	return kept, places, err
}

// ends reads a chunk of the walk by ends. A delivery that ended several times,
// because it was replayed in between, stands at its last end only.
func (d *DB) ends(ctx context.Context, tx pgx.Tx, f *DeliveryFilter, before hub.ID, chunk int) (births []dbsqlc.Delivery, positions []hub.ID, end hub.ID, err error) {
	var rows []dbsqlc.EndsRow
	if f.Tenant == "" {
		rows, err = d.queries.Ends(ctx, tx, dbsqlc.EndsParams{Before: before, Page: int32(chunk)})
	} else {
		var own []dbsqlc.EndsOfTenantRow
		own, err = d.queries.EndsOfTenant(ctx, tx, dbsqlc.EndsOfTenantParams{TenantID: string(f.Tenant), Before: before, Page: int32(chunk)})
		for _, r := range own {
			rows = append(rows, dbsqlc.EndsRow(r))
		}
	}
	if err != nil || len(rows) == 0 {
		return nil, nil, end, err
	}
	if len(rows) == chunk {
		end = rows[chunk-1].ID
	}
	ids := make([]hub.ID, len(rows))
	for i, r := range rows {
		ids[i] = r.DeliveryID
	}
	last, err := d.lastEnds(ctx, tx, ids)
	if err != nil {
		return nil, nil, end, err
	}
	byID, err := d.birthsByID(ctx, tx, ids)
	if err != nil {
		return nil, nil, end, err
	}
	for _, r := range rows {
		if b, ok := byID[r.DeliveryID]; ok && last[r.DeliveryID].ID == r.ID {
			births, positions = append(births, b), append(positions, r.ID)
		}
	}
	return births, positions, end, nil
}

func (d *DB) birthsByID(ctx context.Context, tx dbsqlc.DBTX, ids []hub.ID) (map[hub.ID]dbsqlc.Delivery, error) {
	lowest, highest := bounds(ids)
	rows, err := d.queries.BirthsByID(ctx, tx, dbsqlc.BirthsByIDParams{Ids: ids, Lowest: lowest, Highest: highest})
	byID := make(map[hub.ID]dbsqlc.Delivery, len(rows))
	for _, r := range rows {
		byID[r.ID] = r
	}
	return byID, err
}

func (d *DB) lastEnds(ctx context.Context, tx dbsqlc.DBTX, ids []hub.ID) (map[hub.ID]dbsqlc.LastEndsRow, error) {
	rows, err := d.queries.LastEnds(ctx, tx, dbsqlc.LastEndsParams{DeliveryIds: ids, Lowest: followers(ids)})
	byID := make(map[hub.ID]dbsqlc.LastEndsRow, len(rows))
	for _, r := range rows {
		byID[r.DeliveryID] = r
	}
	return byID, err
}

// DeliveriesByID reads where deliveries stand; those that do not exist are
// missing.
func (d *DB) DeliveriesByID(ctx context.Context, ids []hub.DeliveryID) (list []hub.Standing, err error) {
	keys := deliveryKeys(ids)
	err = pgx.BeginTxFunc(ctx, d.pool, snapshotRead, func(tx pgx.Tx) error {
		byID, err := d.birthsByID(ctx, tx, keys)
		if err != nil {
			return err
		}
		births := make([]dbsqlc.Delivery, 0, len(byID))
		for _, b := range byID {
			births = append(births, b)
		}
		list, err = d.standings(ctx, tx, births)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read %d deliveries: %w", len(ids), err)
	}
	return list, nil
}

func deliveryKeys(ids []hub.DeliveryID) []hub.ID {
	keys := make([]hub.ID, len(ids))
	for i, id := range ids {
		keys[i] = id.ID
	}
	return keys
}
