package controlplane_test

import (
	"crypto/rand"
	"testing"

	"github.com/streaming-hub/streaming-hub/controlplane"
	"github.com/streaming-hub/streaming-hub/db"
	"github.com/streaming-hub/streaming-hub/hub"
)

// Nobody reaches what is another tenant's, also where the database has no wall.
func TestReplays_of_others_do_not_exist(t *testing.T) {
	o := newOffice(t)
	r := &controlplane.Replays{DB: o.DB, Now: o.Now, Random: rand.Reader}
	d := &controlplane.Discarding{DB: o.DB, Now: o.Now, Random: rand.Reader}
	beta, platform := controlplane.Actor{Name: "b", Role: hub.Admin, Tenant: "beta"}, controlplane.Actor{Name: "p", Role: hub.Admin}
	pace := hub.ReplayPace{RatePerSecond: 1}
	sub := o.active("https://a.example/hook")
	sent, _, err := o.SendTest(t.Context(), acme, sub.ID, "")
	if err != nil {
		t.Fatal(err)
	}
	made := func(j hub.ReplayJob, mistakes []controlplane.UserError, err error) hub.ReplayJob {
		t.Helper()
		if err != nil || mistakes != nil {
			t.Fatal(mistakes, err)
		}
		return j
	}
	own := made(r.Preview(t.Context(), acme, controlplane.ReplayWish{Pace: pace}))
	wide := made(r.Preview(t.Context(), platform, controlplane.ReplayWish{Pace: pace}))
	named := func(prefix string, id hub.ID) *string { text := controlplane.GlobalID(prefix, id); return &text }
	subID, destID, delivery := named(controlplane.SubscriptionIDs, sub.ID.ID), named(controlplane.DestinationIDs, sub.Destination.ID), *named(controlplane.DeliveryIDs, sent.Delivery.ID.ID)

	for name, c := range map[string]struct {
		call func() (hub.ReplayJob, []controlplane.UserError, error)
		want string
	}{
		"subscription": {func() (hub.ReplayJob, []controlplane.UserError, error) {
			return r.Preview(t.Context(), beta, controlplane.ReplayWish{Subscription: subID, Pace: pace})
		}, "NOT_FOUND filter.eventSubscriptionId"},
		"destination": {func() (hub.ReplayJob, []controlplane.UserError, error) {
			return r.Preview(t.Context(), beta, controlplane.ReplayWish{Destination: destID, Pace: pace})
		}, "NOT_FOUND filter.destinationId"},
		"delivery": {func() (hub.ReplayJob, []controlplane.UserError, error) {
			return r.Preview(t.Context(), beta, controlplane.ReplayWish{Deliveries: []string{delivery}, Pace: pace})
		}, "NOT_FOUND filter.ids.0"},
		"backfill": {func() (hub.ReplayJob, []controlplane.UserError, error) {
			return r.PreviewBackfill(t.Context(), beta, controlplane.BackfillWish{Subscription: *subID, Pace: pace})
		}, "NOT_FOUND eventSubscriptionId"},
		"start": {func() (hub.ReplayJob, []controlplane.UserError, error) {
			return r.Start(t.Context(), beta, controlplane.ReplayStart{ID: *named(controlplane.JobIDs, own.ID.ID)})
		}, "NOT_FOUND id"},
		"cancel": {func() (hub.ReplayJob, []controlplane.UserError, error) {
			return r.Cancel(t.Context(), beta, *named(controlplane.JobIDs, own.ID.ID), "")
		}, "NOT_FOUND id"},
		"cancel_over_all_tenants": {func() (hub.ReplayJob, []controlplane.UserError, error) {
			return r.Cancel(t.Context(), acme, *named(controlplane.JobIDs, wide.ID.ID), "")
		}, "NOT_FOUND id"},
		"discard": {func() (hub.ReplayJob, []controlplane.UserError, error) {
			_, mistakes, err := d.Discard(t.Context(), beta, []string{delivery}, "x")
			return hub.ReplayJob{}, mistakes, err
		}, "NOT_FOUND ids.0"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, mistakes, err := c.call(); told(mistakes) != c.want || err != nil {
				t.Errorf("%s, %v", told(mistakes), err)
			}
		})
	}
	if n := o.count(`SELECT count(*) FROM replay_jobs WHERE version = 1 AND state = 'PREVIEWING'`); n != 2 {
		t.Errorf("%d jobs as they were", n)
	}
	if n := o.count(`SELECT count(*) FROM delivery_queue`); n != 1 {
		t.Error("the delivery of acme was given up")
	}
	for _, c := range []struct {
		a    controlplane.Actor
		f    hub.TenantID
		want int
	}{{acme, "", 1}, {acme, "acme", 1}, {acme, "beta", 0}, {beta, "", 0}, {beta, "acme", 0}, {platform, "", 2}, {platform, "acme", 1}} {
		page, moment, err := r.Page(t.Context(), c.a, db.ReplayJobFilter{Tenant: c.f}, controlplane.Newest, 10)
		if err != nil || len(page.Rows) != c.want || moment == "" {
			t.Errorf("%s lists %d jobs of %q at %q, want %d; %v", c.a.Name, len(page.Rows), c.f, moment, c.want, err)
		}
	}
	if list, err := r.ByID(t.Context(), acme, []hub.JobID{own.ID, wide.ID}); len(list) != 1 || list[0].ID != own.ID || err != nil {
		t.Errorf("%v, %v", list, err)
	}
}
