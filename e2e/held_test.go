package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
)

// untried refuses every request without a word about the receiver's health: it
// answers 422, which fails the attempt and leaves the circuit alone.
const untried = `{"answers":[{"status":422}]}`

// fine is a receiver that takes everything.
const fine = `{"answers":[{"status":200}]}`

// TestHeldAndResumed keeps deliveries waiting at a receiver that fails, and
// shows what becomes of them when their subscription is disabled, enabled,
// moved to another URL, verified there, and deleted.
func TestHeldAndResumed(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	defer cancel()
	d := newDesk(t, startDev(ctx, t, stateDir(t)).state)
	const old, moved, n = "/hooks/old", "/hooks/moved", 5
	// Fails at once and again a second later, and so on: without jitter.
	patient := map[string]any{"exponential": map[string]any{"unit": "PT1S", "attempts": 20}}
	s := d.subscribe(ctx, t, "held", old, map[string]any{"retryPolicy": patient})

	script(ctx, t, d.st, old, untried)
	d.publish(ctx, t, "held", numbered("before", n)...)
	d.all(ctx, t, s.ID, n, "waiting for a retry", func(one stands) bool { return one.State == "WAITING" && one.AttemptCount >= 2 })

	t.Run("disabled_they_are_held_and_new_events_make_none", func(t *testing.T) {
		d.do(ctx, t, "disableEventSubscription", "", map[string]any{"id": s.ID, "reason": "maintenance"}, nil)
		held := d.all(ctx, t, s.ID, n, "held", in("HELD"))
		for _, one := range held {
			if one.NextAttemptAt != nil || !strings.Contains(one.Explanation, "disabled") {
				t.Errorf("a held delivery is to be tried at %v: %s", one.NextAttemptAt, one.Explanation)
			}
		}
		if now := d.sub(ctx, t, s.ID); now.Enabled || now.DisabledBy != "USER" || now.DisabledReason != "maintenance" {
			t.Errorf("disabled it is %+v", now)
		}
		d.publish(ctx, t, "held", numbered("meanwhile", n)...)
		d.stored(ctx, t, "held", 2*n)
		if list := d.deliveries(ctx, t, s.ID); len(list) != n {
			t.Errorf("%d deliveries are there, want %d: events made some while it was disabled", len(list), n)
		}
	})

	t.Run("enabled_all_arrive", func(t *testing.T) {
		script(ctx, t, d.st, old, fine)
		d.do(ctx, t, "enableEventSubscription", "", map[string]any{"id": s.ID}, nil)
		list := d.all(ctx, t, s.ID, n, "delivered", in("DELIVERED"))
		d.numbersAreReal(ctx, t, old, list)
	})

	t.Run("moved_they_are_held_until_verified_and_go_to_the_new_URL", func(t *testing.T) {
		script(ctx, t, d.st, old, untried)
		d.publish(ctx, t, "held", numbered("moving", n)...)
		isMoving := func(one stands) bool { return strings.HasPrefix(one.Event.CeID, "moving") }
		d.all(ctx, t, s.ID, 2*n, "waiting or delivered", func(one stands) bool {
			return !isMoving(one) || one.State == "WAITING" && one.AttemptCount >= 2
		})
		var changed struct {
			EventSubscription sub
			SigningSecret     *string
		}
		d.do(ctx, t, "updateEventSubscription", "eventSubscription { "+subFields+" } signingSecret", map[string]any{
			"id": s.ID, "version": d.sub(ctx, t, s.ID).Version, "destination": map[string]any{"url": d.st.ReceiverURL + moved},
		}, &changed)
		if now := changed.EventSubscription; now.VerificationState != "PENDING" || now.Destination.URL != d.st.ReceiverURL+moved || now.Destination.ID == s.Destination.ID {
			t.Errorf("moved it is %+v", now)
		}
		if changed.SigningSecret != nil {
			t.Error("the move made a new signing secret; the old one goes along")
		}
		d.all(ctx, t, s.ID, 2*n, "held or delivered", func(one stands) bool { return !isMoving(one) || one.State == "HELD" })
		sentOld := len(d.came(ctx, t, old))
		// The secret goes along; the receiver has to know it for the new path too.
		d.knows(ctx, t, moved, d.rotated(ctx, t, changed.EventSubscription.Destination.ID))
		d.verify(ctx, t, s.ID)
		list := d.all(ctx, t, s.ID, 2*n, "delivered", in("DELIVERED"))
		for _, one := range list {
			if isMoving(one) && (one.Destination == nil || one.Destination.URL != d.st.ReceiverURL+moved) {
				t.Errorf("%s went to %+v", one.Event.CeID, one.Destination)
			}
		}
		got := d.came(ctx, t, moved)
		if len(got) != n {
			t.Errorf("%d requests came to the new URL, want %d", len(got), n)
		}
		for _, r := range got {
			if !strings.HasPrefix(r.Headers.Get("Ce-Id"), "moving") || !r.Verified {
				t.Errorf("to the new URL came %s, verified: %v", r.Headers.Get("Ce-Id"), r.Verified)
			}
		}
		if again := len(d.came(ctx, t, old)); again != sentOld {
			t.Errorf("%d requests came to the old URL after the move", again-sentOld)
		}
	})

	t.Run("deleted_what_waits_dies_and_is_told", func(t *testing.T) {
		script(ctx, t, d.st, moved, untried)
		d.publish(ctx, t, "held", numbered("deleted", n)...)
		isDeleted := func(one stands) bool { return one.Event != nil && strings.HasPrefix(one.Event.CeID, "deleted") }
		d.all(ctx, t, s.ID, 3*n, "waiting or delivered", func(one stands) bool {
			return !isDeleted(one) || one.State == "WAITING" && one.AttemptCount >= 2
		})
		told := d.follow(ctx, t, "deadLetterAdded", `, filter: {tenantId: "held"}`,
			`... on DeliveryOutcome { deliveryId state deadReason attemptNumber attemptCount }`)
		d.do(ctx, t, "deleteEventSubscription", "", map[string]any{"id": s.ID}, nil)
		list := d.all(ctx, t, s.ID, 3*n, "dead or delivered", func(one stands) bool {
			return !isDeleted(one) || one.State == "DEAD" && one.DeadReason == "SUBSCRIPTION_DELETED"
		})
		want := map[string]int{}
		for _, one := range list {
			if isDeleted(one) {
				want[one.ID] = one.AttemptCount
			}
		}
		for range n {
			var o struct {
				DeliveryID, State, DeadReason string
				AttemptNumber                 *int
				AttemptCount                  int
			}
			told.next(ctx, t, &o)
			count, there := want[o.DeliveryID]
			if !there || o.State != "DEAD" || o.DeadReason != "SUBSCRIPTION_DELETED" || o.AttemptNumber != nil || o.AttemptCount != count {
				t.Errorf("told was %+v, want one of %v", o, want)
			}
			delete(want, o.DeliveryID)
		}
		if rest := told.rest(); len(rest) > 0 {
			t.Errorf("further dead letters are told: %v", rest)
		}
		var page struct {
			DeadLetters struct {
				Nodes []struct{ ID, DeadReason string }
			}
		}
		d.ask(ctx, t, `query($s: ID!) { deadLetters(filter: {eventSubscriptionId: $s, reason: SUBSCRIPTION_DELETED}) { nodes { id deadReason } } }`,
			map[string]any{"s": s.ID}, &page)
		if len(page.DeadLetters.Nodes) != n {
			t.Errorf("deadLetters has %v, want %d", page.DeadLetters.Nodes, n)
		}
		d.publish(ctx, t, "held", "late")
		d.stored(ctx, t, "held", 4*n+1)
		if list := d.deliveries(ctx, t, s.ID); len(list) != 3*n {
			t.Errorf("an event after the end made a delivery: %d, want %d", len(list), 3*n)
		}
	})
}

// stored waits until a tenant has n events.
func (d *desk) stored(ctx context.Context, t *testing.T, tenant string, n int) {
	t.Helper()
	var page struct {
		Events struct{ Nodes []struct{ Seq string } }
	}
	eventually(ctx, t, func() bool {
		d.ask(ctx, t, `query($t: String!) { events(first: 100, filter: {tenantId: $t}) { nodes { seq } } }`, map[string]any{"t": tenant}, &page)
		return len(page.Events.Nodes) == n
	}, func() string {
		return fmt.Sprintf("%d events of %s are stored, want %d", len(page.Events.Nodes), tenant, n)
	})
}

// rotated is a new signing secret of a destination, without overlap.
func (d *desk) rotated(ctx context.Context, t *testing.T, destination string) string {
	t.Helper()
	var made struct{ SigningSecret string }
	d.do(ctx, t, "rotateSigningSecret", "signingSecret", map[string]any{"id": destination, "overlap": "PT0S"}, &made)
	return made.SigningSecret
}
