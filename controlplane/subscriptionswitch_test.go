package controlplane_test

import (
	"strings"
	"testing"
	"time"

	"github.com/streaming-hub/streaming-hub/controlplane"
	"github.com/streaming-hub/streaming-hub/hub"
)

func TestDelete(t *testing.T) {
	o := newOffice(t)
	made := o.active("https://a.example/hook")
	o.chores()
	o.span(&made)
	remove := func(a controlplane.Actor) (hub.EventSubscription, string) {
		got, mistakes, err := o.Delete(t.Context(), a, made.ID)
		if err != nil {
			t.Fatal(err)
		}
		return got, told(mistakes)
	}
	foreign := acme
	foreign.Tenant = "bolt"
	if _, got := remove(foreign); got != "NOT_FOUND id" {
		t.Errorf("another tenant's delete: %s", got)
	}
	first, _ := remove(acme)
	if !first.DeletedAt.Equal(o.clock) || first.Deliverable() {
		t.Errorf("%+v", first)
	}
	o.wantChores("its_lane", lane(made.ID, made.Destination))
	o.wantSpans("its_failures_are_forgotten", 0)
	version := o.configVersion()
	o.clock = o.clock.Add(time.Hour)
	if again, _ := remove(acme); !again.DeletedAt.Equal(first.DeletedAt) || o.configVersion() != version || len(o.audited("delete_event_subscription")) != 1 {
		t.Errorf("deleting again: %+v", again)
	}
	o.wantChores("deleting_again_asks_for_nothing")
	list, err := o.Page(t.Context(), acme, "", controlplane.Newest, 10)
	if err != nil || len(list) != 0 {
		t.Errorf("the list has %v, %v", list, err)
	}
	if now := o.read(made.ID); now.DeletedAt.IsZero() {
		t.Errorf("history has %+v", now)
	}
	for name, change := range map[string]func() ([]controlplane.UserError, error){
		"update": func() ([]controlplane.UserError, error) {
			_, m, err := o.Update(t.Context(), acme, controlplane.SubscriptionUpdate{ID: made.ID, Version: first.Version})
			return m, err
		},
		"enable": func() ([]controlplane.UserError, error) {
			_, m, err := o.Enable(t.Context(), acme, made.ID)
			return m, err
		},
		"disable": func() ([]controlplane.UserError, error) {
			_, m, err := o.Disable(t.Context(), acme, made.ID, "")
			return m, err
		},
		"verify": func() ([]controlplane.UserError, error) {
			_, m, err := o.Verify(t.Context(), acme, made.ID)
			return m, err
		},
		"test": func() ([]controlplane.UserError, error) {
			_, m, err := o.SendTest(t.Context(), acme, made.ID, "")
			return m, err
		},
	} {
		if mistakes, err := change(); err != nil || told(mistakes) != "NOT_FOUND id" {
			t.Errorf("%s of a deleted one: %s, %v", name, told(mistakes), err)
		}
	}
	if configs, err := o.DB.TenantConfigs(t.Context(), []hub.TenantID{"acme"}); err != nil || len(configs["acme"].Subscriptions) != 0 {
		t.Errorf("the data plane still knows it: %v", err)
	}
}

func TestDisable_and_Enable(t *testing.T) {
	o := newOffice(t)
	made := o.active("https://a.example/hook")
	o.chores()
	disable := func(reason string) (hub.EventSubscription, string) {
		got, mistakes, err := o.Disable(t.Context(), acme, made.ID, reason)
		if err != nil {
			t.Fatal(err)
		}
		return got, told(mistakes)
	}
	enable := func() hub.EventSubscription {
		got, mistakes, err := o.Enable(t.Context(), acme, made.ID)
		if err != nil || mistakes != nil {
			t.Fatal(mistakes, err)
		}
		return got
	}
	o.span(&made)
	version := o.configVersion()
	if got := enable(); got.Version != made.Version || o.configVersion() != version || len(o.audited("enable_event_subscription")) != 0 {
		t.Errorf("enabling an enabled one changed it: %+v", got)
	}
	o.wantSpans("enabling_an_enabled_one_forgets_nothing", 1)
	if _, got := disable(strings.Repeat("x", 501)); got != "INVALID reason" {
		t.Errorf("501 characters of reason: %s", got)
	}
	got, _ := disable("holiday")
	if got.Enabled || got.DisabledBy != hub.DisabledByUser || got.DisabledReason != "holiday" || !got.DisabledAt.Equal(o.clock) || got.Version != made.Version+1 {
		t.Errorf("disabled: %+v", got)
	}
	o.wantChores("disabled", lane(made.ID, made.Destination))
	if again, _ := disable("other"); again.DisabledReason != "holiday" || again.Version != got.Version {
		t.Errorf("disabling again changed it: %+v", again)
	}
	o.wantSpans("disabling_forgets_nothing", 1)
	if got := enable(); !got.Enabled || got.DisabledBy != "" || got.DisabledReason != "" || !got.DisabledAt.IsZero() || got.Version != made.Version+2 {
		t.Errorf("enabled: %+v", got)
	}
	o.wantChores("enabled", lane(made.ID, made.Destination))
	o.wantSpans("enabling_forgets_the_failures", 0)
	o.disabled(made.ID, hub.DisabledByAuto)
	if got, _ := disable("for good"); got.DisabledBy != hub.DisabledByUser || got.DisabledReason != "for good" {
		t.Errorf("a person takes over what the hub disabled: %+v", got)
	}
	o.wantChores("it_was_off_already")
}

func TestEnableDestination(t *testing.T) {
	o := newOffice(t)
	one, two := o.active("https://a.example/hook"), o.active("https://a.example/hook")
	o.chores()
	dest := one.Destination
	rate := func(state string) {
		o.exec(`DELETE FROM failure_rates`)
		o.exec(`INSERT INTO failure_rates (destination_id, tenant_id, attempts, failures, failures_in_row, last_success_at, state, state_since, changed_at)
			VALUES ($1, 'acme', 200, 190, 9, '2026-01-01Z', $2, '2026-02-01Z', '2026-02-01Z')`, dest.String(), state)
	}
	enable := func(a controlplane.Actor) string {
		_, mistakes, err := o.EnableDestination(t.Context(), a, dest)
		if err != nil {
			t.Fatal(err)
		}
		return told(mistakes)
	}
	foreign := acme
	foreign.Tenant = "bolt"
	if got := enable(foreign); got != "NOT_FOUND id" {
		t.Errorf("another tenant: %s", got)
	}
	if got := enable(acme); got != "" || len(o.audited("enable_destination")) != 0 {
		t.Errorf("one that never failed: %s", got)
	}
	rate("ACTIVE")
	enable(acme)
	if n := o.count(`SELECT attempts FROM failure_rates`); n != 200 {
		t.Errorf("an active one has %d attempts after enabling, want the 200 it had", n)
	}
	o.wantChores("active_ones_stay")
	for _, state := range []string{"DISABLED", "FROZEN"} {
		rate(state)
		o.clock = o.clock.Add(time.Second)
		enable(acme)
		if n := o.count(`SELECT count(*) FROM failure_rates WHERE state = 'ACTIVE' AND attempts = 0 AND failures = 0 AND failures_in_row = 0
			AND last_success_at = '2026-01-01Z' AND next_try_at IS NULL AND changed_at > now() - interval '1 minute'`); n != 1 {
			t.Errorf("%s was not enabled", state)
		}
		o.wantChores(state, lane(one.ID, dest), lane(two.ID, dest))
	}
	if got := strings.Join(o.audited("enable_destination"), " "); got != `{"state":"DISABLED"} → {"state":"ACTIVE"} {"state":"FROZEN"} → {"state":"ACTIVE"}` {
		t.Errorf("audit: %s", got)
	}
}
