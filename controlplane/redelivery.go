package controlplane

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/streaming-hub/streaming-hub/db"
	"github.com/streaming-hub/streaming-hub/hub"
)

// Redelivery gives settled deliveries a fresh run of their retry policy.
type Redelivery struct {
	DB     *db.DB
	Now    func() time.Time
	Random io.Reader // crypto/rand.Reader
}

// doubleClick is within which time two calls without an idempotency key are
// one, however fast the run of the first one ends: 500 ms, as pointing devices
// have it.
const doubleClick = 500 * time.Millisecond

// Begin gives one delivery a fresh run, due at once, and returns where it then
// stands. id is a global id. keyed says that the call has an idempotency key:
// then it is no double click.
func (r *Redelivery) Begin(ctx context.Context, a Actor, id string, keyed bool) (hub.Standing, []UserError, error) {
	asked := r.Now()
	refuse := func(e UserError) (hub.Standing, []UserError, error) { return hub.Standing{}, []UserError{e}, nil }
	delivery, ok := ParseGlobalID(DeliveryIDs, id)
	found, err := (&History{DB: r.DB}).DeliveriesByID(ctx, a, []hub.DeliveryID{{ID: delivery}})
	if err != nil {
		return hub.Standing{}, nil, err
	}
	if !ok || len(found) == 0 {
		return refuse(userError(NotFound, []string{"input", "id"}, "there is no such delivery"))
	}
	request := db.RunRequest{
		Delivery: hub.DeliveryID{ID: delivery}, Tenant: found[0].Tenant,
		Action: auditRedeliver, Object: GlobalID(DeliveryIDs, delivery), Judge: judgeRun,
	}
	if !keyed {
		request.ClickFrom = asked.Add(-doubleClick)
	}
	request.Audit = func(before, after *hub.Standing) db.AuditEntry {
		// By the clock of now: the call may have waited for another one.
		return a.auditEntry(r.Now(), r.Random, after.Tenant, auditRedeliver, request.Object, runOf(before), runOf(after))
	}
	now, err := r.DB.BeginRun(ctx, request)
	var refused UserError
	switch {
	case errors.As(err, &refused):
		return refuse(refused)
	case errors.Is(err, db.ErrChanged):
		return refuse(userError(Conflict, []string{"input", "id"}, "the delivery changed meanwhile; read it again"))
	}
	return now, nil, err
}

// judgeRun decides whether a delivery gets a fresh run; the error, a UserError,
// says why not.
func judgeRun(st *db.RunState) (begin bool, err error) {
	path := []string{"input", "id"}
	no := func(code UserErrorCode, message string) (bool, error) {
		return false, userError(code, path, "%s", message)
	}
	switch {
	case st.Standing.State == hub.InFlight:
		return no(Conflict, "an attempt of the delivery is being made already")
	case st.Standing.State == hub.Held:
		return no(Conflict, "the delivery is held and goes on by itself: "+whyUndeliverable(st.Subscription))
	case !st.Standing.State.Settled():
		return no(Conflict, "it is waiting already: the delivery has its next attempt planned")
	case st.JustBegun:
		return no(Conflict, "it was redelivered a moment ago; to do so again, ask again")
	case st.Event != nil && st.Event.Event.Seq == 0:
		return no(Invalid, "it cannot be redelivered: it was a test event; send another one")
	case st.Subscription == nil || !st.Subscription.Deliverable():
		return no(Invalid, "it cannot be redelivered: "+whyUndeliverable(st.Subscription))
	case st.Event == nil:
		return no(Invalid, "it cannot be redelivered: its event is past its retention and not stored any more")
	}
	return true, nil
}
