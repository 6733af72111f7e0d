package controlplane

import (
	"testing"
	"time"

	"github.com/streaming-hub/streaming-hub/db"
	"github.com/streaming-hub/streaming-hub/hub"
	"github.com/streaming-hub/streaming-hub/hub/health"
)

func TestExplainSpan(t *testing.T) {
	const hour = time.Hour
	for _, c := range []struct {
		name       string
		first      time.Duration // before noon
		last       time.Duration
		n          int64
		killSwitch bool
		want       string
	}{
		{"not_spread", 2 * hour, hour, 3, false,
			"failing since 10:04:00 UTC, 3 failures, the last one at 11:04:00 UTC; nothing follows unless it fails again at 22:04:00 UTC or later"},
		{"spread", 24 * hour, hour, 1, false,
			"failing since 2026-01-30 12:04:00 UTC, 1 failure, the last one at 11:04:00 UTC; it is disabled at 2026-02-04 12:04:00 UTC if nothing changes"},
		{"spread_behind_the_kill_switch", 24 * hour, hour, 3, true,
			"failing since 2026-01-30 12:04:00 UTC, 3 failures, the last one at 11:04:00 UTC; it is disabled at 2026-02-04 12:04:00 UTC if nothing changes and the kill switch is released"},
		{"trips", 120 * hour, hour, 3, false,
			"failing since 2026-01-26 12:04:00 UTC, 3 failures, the last one at 11:04:00 UTC; that is enough to disable it"},
		{"trips_behind_the_kill_switch", 120 * hour, hour, 3, true,
			"failing since 2026-01-26 12:04:00 UTC, 3 failures, the last one at 11:04:00 UTC; it would be disabled, and the kill switch keeps it from that"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := FailurePolicies{Span: health.DefaultSpan(), KillSwitch: c.killSwitch, Now: func() time.Time { return noon }}
			got := p.ExplainSpan(&db.FailureSpan{Span: health.Span{FirstFailureAt: noon.Add(-c.first), LastFailureAt: noon.Add(-c.last), FailureCount: c.n}})
			if got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

func TestExplainSpan_gone_behind_the_kill_switch(t *testing.T) {
	f := &db.FailureSpan{Span: health.Span{FirstFailureAt: noon, LastFailureAt: noon, FailureCount: 1}, TrippedAt: noon}
	for killSwitch, want := range map[bool]string{
		true:  "it would be disabled, because its receiver answered 410 Gone, and the kill switch keeps it from that",
		false: "nothing follows unless it fails again at 2026-02-01 00:04:00 UTC or later",
	} {
		p := FailurePolicies{Span: health.DefaultSpan(), KillSwitch: killSwitch, Now: func() time.Time { return noon }}
		if got := p.ExplainSpan(f); got != "failing since 12:04:00 UTC, 1 failure, the last one at 12:04:00 UTC; "+want {
			t.Errorf("kill switch %v: %s", killSwitch, got)
		}
	}
}

// With the kill switch the data plane stores counts and no verdict; it is
// shown all the same.
func TestShown(t *testing.T) {
	counts := health.Rate{Attempts: 101, Failures: 90, LastSuccessAt: noon, Judged: health.Active, JudgedAt: noon}
	strict := hub.FailurePolicy{Kind: hub.FailureRate, FreezeAnyRow: 1}
	row := counts
	row.Row = 1
	for _, c := range []struct {
		name       string
		policy     hub.FailurePolicy
		killSwitch bool
		rate       health.Rate
		want       health.RateState
	}{
		{"without_it_as_stored", hub.FailurePolicy{Kind: hub.FailureRate}, false, counts, health.Active},
		{"with_it_as_the_counts_say", hub.FailurePolicy{Kind: hub.FailureRate}, true, counts, health.Disabled},
		{"by_the_thresholds_of_the_policy", strict, true, row, health.Frozen},
		{"of_another_policy_as_stored", hub.FailurePolicy{}, true, counts, health.Active},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := FailurePolicies{KillSwitch: c.killSwitch, Now: func() time.Time { return noon }}
			got := p.Shown(&hub.Destination{FailurePolicy: c.policy}, c.rate)
			if got.Judged != c.want || got.Attempts != c.rate.Attempts || c.want != health.Active && !got.JudgedAt.IsZero() {
				t.Errorf("shown %+v", got)
			}
		})
	}
}

func TestExplainRate(t *testing.T) {
	disabled := health.Rate{Attempts: 101, Failures: 90, Row: 1, Judged: health.Disabled, JudgedAt: noon, NextTryAt: noon.Add(10 * time.Minute)}
	frozen := disabled
	frozen.Judged = health.Frozen
	for _, c := range []struct {
		name       string
		r          health.Rate
		after      time.Duration
		killSwitch bool
		want       string
	}{
		{"active", health.Rate{Attempts: 1, Judged: health.Active}, 0, false, "active: 0 of 1 attempt failed since it was last enabled"},
		{"disabled", disabled, time.Minute, false,
			"disabled since 12:04:00 UTC: 90 of 101 attempts failed since it was last enabled, 1 failure in a row; one delivery is tried at 12:14:00 UTC"},
		{"try_due", disabled, 10 * time.Minute, false,
			"disabled since 12:04:00 UTC: 90 of 101 attempts failed since it was last enabled, 1 failure in a row; the next delivery that is due is tried"},
		{"frozen", frozen, 0, false,
			"frozen since 12:04:00 UTC: 90 of 101 attempts failed since it was last enabled, 1 failure in a row; nothing is tried until somebody enables it"},
		{"frozen_behind_the_kill_switch", frozen, 0, true,
			"active: 90 of 101 attempts failed since it was last enabled, 1 failure in a row; it would be frozen, and the kill switch keeps it from that"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := FailurePolicies{KillSwitch: c.killSwitch, Now: func() time.Time { return noon.Add(c.after) }}
			if got := p.ExplainRate(&hub.Destination{}, c.r); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

func TestSubscriptionHealth(t *testing.T) {
	on, user := &hub.EventSubscription{Enabled: true}, &hub.EventSubscription{DisabledBy: hub.DisabledByUser}
	auto := &hub.EventSubscription{DisabledBy: hub.DisabledByAuto, DisabledAt: noon, DisabledReason: "410 Gone"}
	span, rate := &hub.Destination{}, &hub.Destination{FailurePolicy: hub.FailurePolicy{Kind: hub.FailureRate}}
	failing := &db.FailureSpan{Span: health.Span{FirstFailureAt: noon, LastFailureAt: noon, FailureCount: 1}}
	const byHub = "disabled by the hub since 12:04:00 UTC (410 Gone); verify or enable it to go on"
	for _, c := range []struct {
		name  string
		h     SubscriptionHealth
		state health.RateState
		says  string
	}{
		{"healthy", SubscriptionHealth{Subscription: on, Destination: span}, health.Active, "nothing has failed since the last success"},
		{"failing", SubscriptionHealth{Subscription: on, Destination: span, Span: failing}, health.Active, "failing since 12:04:00 UTC, 1 failure, the last one at 12:04:00 UTC; nothing follows unless it fails again at 2026-02-01 00:04:00 UTC or later"},
		{"disabled_by_the_hub", SubscriptionHealth{Subscription: auto, Destination: span, Span: failing}, health.Disabled, byHub},
		{"disabled_by_the_hub_under_the_other_policy", SubscriptionHealth{Subscription: auto, Destination: rate, Rate: health.Rate{Judged: health.Active}}, health.Disabled, byHub},
		{"disabled_by_a_user_is_no_verdict", SubscriptionHealth{Subscription: user, Destination: span}, health.Active, "nothing has failed since the last success"},
		{"destination_is_gone", SubscriptionHealth{Subscription: on, Rate: health.Rate{Judged: health.Frozen}}, health.Active, "nothing has failed since the last success"},
		{"rate_of_its_destination", SubscriptionHealth{Subscription: on, Destination: rate, Rate: health.Rate{Judged: health.Frozen, JudgedAt: noon}}, health.Frozen,
			"its destination is frozen since 12:04:00 UTC: 0 of 0 attempts failed since it was last enabled; nothing is tried until somebody enables it"},
		{"rate_of_a_policy_that_was_replaced", SubscriptionHealth{Subscription: on, Destination: span, Rate: health.Rate{Judged: health.Frozen}}, health.Active, "nothing has failed since the last success"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := FailurePolicies{Span: health.DefaultSpan(), Now: func() time.Time { return noon }}
			if got := c.h.State(); got != c.state {
				t.Errorf("state %s, want %s", got, c.state)
			}
			if got := p.ExplainHealth(&c.h); got != c.says {
				t.Errorf("got  %s\nwant %s", got, c.says)
			}
		})
	}
}
