package db

import (
	"context"

	"github.com/streaming-hub/streaming-hub/db/internal/dbsqlc"
	"github.com/streaming-hub/streaming-hub/hub"
)

// itemMoves are the items of replay jobs that recorded outcomes take further.
type itemMoves struct {
	dbsqlc.MoveReplayItemsParams
}

// add notes what an outcome means for the item whose run it is of, if any.
func (m *itemMoves) add(d *hub.Delivery, state hub.ItemState) {
	if d.Job.IsZero() || state == "" {
		return
	}
	m.JobIds = append(m.JobIds, d.Job.ID)
	m.DeliveryIds = append(m.DeliveryIds, d.ID.ID)
	m.States = append(m.States, string(state))
}

// planAnew makes the planner look at the size that a table has now, until the
// transaction ends. Plans that are kept would be those of the moment in which
// a partition of items was empty.
const planAnew = `SET LOCAL plan_cache_mode = force_custom_plan`

// moveItems writes the moves, in the transaction or pipeline of the outcomes.
func (d *DB) moveItems(ctx context.Context, to dbsqlc.DBTX, m *itemMoves) error {
	if len(m.JobIds) == 0 {
		return nil
	}
	if _, err := to.Exec(ctx, planAnew); err != nil {
		return err
	}
	return d.queries.MoveReplayItems(ctx, to, m.MoveReplayItemsParams)
}

// itemAfter is where an outcome takes an item; "" when it stays, because the
// try used up no attempt.
func itemAfter(d *hub.Decision) hub.ItemState {
	switch {
	case d.State == hub.Delivered:
		return hub.ItemDelivered
	case d.State != hub.Waiting:
		return hub.ItemDead
	case d.Counted:
		return hub.ItemFailing
	}
	return ""
}
