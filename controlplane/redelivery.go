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

const (
	maxIdempotencyKey = 200 // characters
	// keyHorizon is for how long an idempotency key is remembered.
	keyHorizon = 24 * time.Hour
	// doubleClick is within which time two calls without a key are one, however
	// fast the run of the first one ends: 500 ms, as pointing devices have it.
	doubleClick = 500 * time.Millisecond
)

// Begin gives one delivery a fresh run, due at once, and returns where it then
// stands. id is a global id. key is the caller's idempotency key, nil for none:
// a repeated call with the same key begins nothing and has the same answer.
func (r *Redelivery) Begin(ctx context.Context, a Actor, id string, key *string) (hub.Standing, []UserError, error) {
	asked := r.Now()
	refuse := func(e UserError) (hub.Standing, []UserError, error) { return hub.Standing{}, []UserError{e}, nil }
	if key != nil {
		if err := checkText("idempotency key", *key, maxIdempotencyKey); err != nil || *key == "" {
			return refuse(userError(Invalid, []string{"input", "idempotencyKey"}, "an idempotency key has 1 to %d characters of plain text", maxIdempotencyKey))
		}
	}
	delivery, ok := ParseGlobalID(DeliveryIDs, id)
	found, err := (&History{DB: r.DB}).DeliveriesByID(ctx, a, []hub.DeliveryID{{ID: delivery}})
	if err != nil {
		return hub.Standing{}, nil, err
	}
	if !ok || len(found) == 0 {
		return refuse(userError(NotFound, []string{"input", "id"}, "there is no such delivery"))
	}
	request := db.RunRequest{
		Delivery: hub.DeliveryID{ID: delivery}, Tenant: found[0].Tenant, Actor: a.Token,
		Action: auditRedeliver, Object: GlobalID(DeliveryIDs, delivery),
		KeyFrom: asked.Add(-keyHorizon), ClickFrom: asked.Add(-doubleClick),
	}
	if key != nil {
		request.Key = *key
	}
	request.Judge = func(st *db.RunState) (bool, error) { return judgeRun(st, request.Object) }
	request.Audit = func(before, after *hub.Standing) db.AuditEntry {
		is := runOf(after)
		is.IdempotencyKey = request.Key
		// By the clock of now: the call may have waited for another one.
		return a.auditEntry(r.Now(), r.Random, after.Tenant, auditRedeliver, request.Object, runOf(before), is)
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

// judgeRun decides whether a delivery gets a fresh run. object is its global
// id. The error, a UserError, says why not; neither a run nor an error is the
// answer to a call that was made before.
func judgeRun(st *db.RunState, object string) (begin bool, err error) {
	path := []string{"input", "id"}
	no := func(code UserErrorCode, message string) (bool, error) {
		return false, userError(code, path, "%s", message)
	}
	switch {
	case st.KeyObject == object:
		return false, nil
	case st.KeyObject != "":
		return false, userError(Conflict, []string{"input", "idempotencyKey"}, "this idempotency key was used for another delivery; use a new one")
	case st.Standing.State == hub.InFlight:
		return no(Conflict, "an attempt of the delivery is being made already")
	case st.Standing.State == hub.Held:
		return no(Conflict, "the delivery is held and goes on by itself: "+whyHeld(st.Subscription))
	case !st.Standing.State.Settled():
		return no(Conflict, "it is waiting already: the delivery has its next attempt planned")
	case st.JustBegun:
		return no(Conflict, "it was redelivered a moment ago; to do so again, ask again")
	case st.Subscription == nil || !st.Subscription.Deliverable():
		return no(Invalid, "it cannot be redelivered: "+whyHeld(st.Subscription))
	case st.Event == nil:
		return no(Invalid, "it cannot be redelivered: its event is past its retention and not stored any more")
	}
	return true, nil
}
