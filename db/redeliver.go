package db

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/streaming-hub/streaming-hub/db/internal/dbsqlc"
	"github.com/streaming-hub/streaming-hub/hub"
)

// RunRequest asks for a fresh run of a settled delivery.
type RunRequest struct {
	Delivery hub.DeliveryID
	Tenant   hub.TenantID // of the delivery
	// Action and Object are those of the audit log's entries for runs of this
	// delivery, by which earlier requests are found.
	Action, Object string
	// ClickFrom is since when another request counts as one with this one; zero
	// when none does.
	ClickFrom time.Time
	// Judge decides under the delivery's lock whether the run begins. Its error
	// ends the transaction and is returned inside the result's error.
	Judge func(*RunState) (begin bool, err error)
	// Audit makes the audit log's entry for the run.
	Audit func(before, after *hub.Standing) AuditEntry
}

// RunState is what there is when a run is asked for.
type RunState struct {
	Standing     hub.Standing
	Subscription *hub.EventSubscription // nil when it is gone
	Event        *EventHead             // nil when it is not stored any more
	// JustBegun says that a run was begun since ClickFrom.
	JustBegun bool
}

// BeginRun gives a delivery a fresh run, if the request's Judge says so, and
// returns where the delivery then stands. Attempt numbers go on; the policy
// counts attempts and age from the start of the run. It is ErrChanged when the
// delivery is gone, or unfinished all of a sudden.
func (d *DB) BeginRun(ctx context.Context, r RunRequest) (now hub.Standing, err error) {
	err = pgx.BeginFunc(ctx, d.pool, func(tx pgx.Tx) error {
		birth, st, err := d.runState(ctx, tx, &r)
		if err != nil {
			return err
		}
		now = st.Standing
		begin, err := r.Judge(st)
		if err != nil || !begin {
			return err
		}
		n, err := d.queries.InsertRun(ctx, tx, dbsqlc.InsertRunParams{
			ID: birth.ID, TenantID: birth.TenantID, SubscriptionID: birth.SubscriptionID, EventID: birth.EventID,
			// Where the attempts go now, should it differ from then: lanes are
			// kept by it.
			DestinationID: st.Subscription.Destination.ID,
			Run:           st.Standing.Run + 1, Attempts: st.Standing.Attempts, BodyBytes: st.Event.BodyBytes,
		})
		if err == nil && n == 0 {
			err = ErrChanged
		}
		if err == nil {
			err = d.queries.NotifyDue(ctx, tx)
		}
		if err != nil {
			return err
		}
		after, err := d.standings(ctx, tx, []dbsqlc.Delivery{birth})
		if err != nil {
			return err
		}
		now = after[0]
		return d.audit(ctx, tx, r.Audit(&st.Standing, &now))
	})
	if err != nil {
		return now, fmt.Errorf("begin a run of delivery %s: %w", r.Delivery, err)
	}
	return now, nil
}

// runState locks the delivery and reads what a run of it depends on.
func (d *DB) runState(ctx context.Context, tx pgx.Tx, r *RunRequest) (birth dbsqlc.Delivery, st *RunState, err error) {
	st = &RunState{}
	locked, err := d.queries.LockDelivery(ctx, tx, r.Delivery.ID)
	if err != nil {
		return birth, nil, err
	}
	if len(locked) == 0 {
		return birth, nil, ErrChanged
	}
	// The queue is read before the history: a delivery that is settled in
	// between is still seen as unfinished, and never as without an end.
	list, err := d.standings(ctx, tx, locked)
	if err != nil {
		return birth, nil, err
	}
	st.Standing = list[0]
	subs, err := d.queries.SubscriptionsByID(ctx, tx, []hub.ID{st.Standing.Subscription.ID})
	if err != nil {
		return birth, nil, err
	}
	if len(subs) > 0 {
		sub := subscriptionOf(&subs[0])
		st.Subscription = &sub
	}
	event := st.Standing.Event.ID
	rows, err := d.queries.EventHeadsByID(ctx, tx, dbsqlc.EventHeadsByIDParams{Ids: []hub.ID{event}, Lowest: event, Highest: event})
	if err != nil {
		return birth, nil, err
	}
	heads, err := eventHeadsOf(rows)
	if err != nil {
		return birth, nil, err
	}
	if len(heads) > 0 {
		st.Event = &heads[0]
	}
	return locked[0], st, d.earlierRuns(ctx, tx, r, st)
}

// earlierRuns reads in the audit log what this request repeats.
func (d *DB) earlierRuns(ctx context.Context, tx pgx.Tx, r *RunRequest, st *RunState) error {
	if r.ClickFrom.IsZero() {
		return nil
	}
	n, err := d.queries.ActionOn(ctx, tx, dbsqlc.ActionOnParams{
		TenantID: string(r.Tenant), Since: hub.FloorID(r.ClickFrom), Action: r.Action, Object: r.Object,
	})
	st.JustBegun = n > 0
	return err
}
