package db_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/streaming-hub/streaming-hub/db"
	"github.com/streaming-hub/streaming-hub/hub"
	"github.com/streaming-hub/streaming-hub/hub/breaker"
	"github.com/streaming-hub/streaming-hub/hub/health"
)

var (
	spanPolicy = hub.FailurePolicy{Kind: hub.FailureSpan}
	ratePolicy = hub.FailurePolicy{Kind: hub.FailureRate}
)

// becomesPolicy changes the failure policy of a destination.
func (l *lab) becomesPolicy(lane db.Lane, policy hub.FailurePolicy, now time.Time) {
	l.Helper()
	_, err := l.db.ChangeDestination(l.Context(), db.DestinationChange{
		Tenant: lane.Tenant, ID: lane.Destination, Now: now, FeedID: newID(),
		Decide: func(s *db.DestinationState) (*db.DestinationEdit, error) {
			edit := db.DestinationEdit{Destination: s.Destination}
			edit.Destination.FailurePolicy = policy
			return &edit, nil
		},
		Notice: hub.Notice{Kind: hub.NoticeSecretRotated, At: now, Tenant: lane.Tenant, Destination: lane.Destination},
		Audit: func(_, _ *db.DestinationState) db.AuditEntry {
			return db.AuditEntry{ID: newID(), Tenant: lane.Tenant, ActorName: "test", Action: "test", Object: "dst"}
		},
	})
	if err != nil {
		l.Fatal(err)
	}
}

// told are the kinds of notices in the feed, without the one of the change.
func (l *lab) told() (kinds []hub.NoticeKind) {
	l.Helper()
	for _, item := range l.feed() {
		if item.Notice != nil && item.Notice.Kind != hub.NoticeSecretRotated {
			kinds = append(kinds, item.Notice.Kind)
		}
	}
	return kinds
}

func (l *lab) rateOf(lane db.Lane) health.Rate {
	l.Helper()
	list, err := l.db.RatesOf(l.Context(), []hub.DestinationID{lane.Destination})
	if err != nil || len(list) != 1 {
		l.Fatalf("%d rates, %v", len(list), err)
	}
	return list[0].Rate
}

func TestChangeDestination_away_from_FAILURE_RATE(t *testing.T) {
	t.Parallel()
	now := kept()
	anew := health.Rate{LastSuccessAt: now, Judged: health.Active, JudgedAt: now}
	t.Run("what_was_held_for_a_frozen_one_goes_on", func(t *testing.T) {
		t.Parallel()
		d := newDepot(t, 3, 2)
		d.becomesPolicy(d.lane, ratePolicy, now)
		d.changeRates(judged(health.Frozen, now), d.lane)
		d.finish()
		d.wantHeld(3)
		d.becomesPolicy(d.lane, spanPolicy, now)
		d.finish()
		d.wantHeld(0)
		d.wantOthers()
		if diff := cmp.Diff(anew, d.rateOf(d.lane)); diff != "" {
			t.Errorf("rate (-want +got):\n%s", diff)
		}
		if off, err := d.db.RatesNotActive(t.Context(), 10); err != nil || len(off) != 0 {
			t.Errorf("off are %+v, %v", off, err)
		}
		// No stampede: one probe goes first.
		if s := d.storedBreakers(time.Time{}, 10); len(s) != 1 || s[0].State.Phase != breaker.Open || s[0].State.Cause != breaker.CauseEnabled || !s[0].State.NextProbeAt.Equal(now) {
			t.Errorf("breakers are %+v", s)
		}
		if told := d.told(); !slices.Equal(told, []hub.NoticeKind{hub.NoticeRecovered}) {
			t.Errorf("told %v", told)
		}
	})
	t.Run("disabled_one_is_active", func(t *testing.T) {
		t.Parallel()
		d := newDepot(t, 1, 0)
		d.becomesPolicy(d.lane, ratePolicy, now)
		d.changeRates(judged(health.Disabled, now), d.lane)
		d.becomesPolicy(d.lane, spanPolicy, now)
		if diff := cmp.Diff(anew, d.rateOf(d.lane)); diff != "" {
			t.Errorf("rate (-want +got):\n%s", diff)
		}
		if told := d.told(); !slices.Equal(told, []hub.NoticeKind{hub.NoticeRecovered}) {
			t.Errorf("told %v", told)
		}
	})
	t.Run("active_one_is_not_restarted", func(t *testing.T) {
		t.Parallel()
		d := newDepot(t, 1, 0)
		d.becomesPolicy(d.lane, ratePolicy, now)
		d.becomesPolicy(d.lane, spanPolicy, now)
		d.wantCount("breakers", 0, "SELECT count(*) FROM circuit_breakers")
		if told := d.told(); len(told) != 0 {
			t.Errorf("told %v", told)
		}
	})
	t.Run("outcomes_that_come_late_are_not_counted", func(t *testing.T) {
		t.Parallel()
		d := newDepot(t, 1, 0)
		d.becomesPolicy(d.lane, ratePolicy, now)
		d.changeRates(judged(health.Active, now), d.lane)
		d.becomesPolicy(d.lane, spanPolicy, now)
		d.changeRates(judged(health.Frozen, now), d.lane)
		if diff := cmp.Diff(anew, d.rateOf(d.lane)); diff != "" {
			t.Errorf("rate (-want +got):\n%s", diff)
		}
	})
	t.Run("what_is_left_of_it_keeps_nothing_back", func(t *testing.T) {
		t.Parallel()
		d := newDepot(t, 2, 0)
		d.exec(`INSERT INTO failure_rates (destination_id, tenant_id, attempts, failures, failures_in_row, last_success_at, state, changed_at)
			VALUES ($1, 'acme', 50000, 50000, 50000, now(), 'FROZEN', now())`, text(d.lane.Destination))
		if off, err := d.db.RatesNotActive(t.Context(), 10); err != nil || len(off) != 0 {
			t.Errorf("off are %+v, %v", off, err)
		}
		d.chore(d.lane)
		d.finish()
		d.wantHeld(0)
	})
}

func TestChangeDestination_to_FAILURE_RATE(t *testing.T) {
	t.Parallel()
	now := kept()
	d := newDepot(t, 1, 1)
	for _, sub := range []hub.SubscriptionID{d.sub, d.another} {
		d.changeSpans(ends(health.Failed, now.Add(-100*time.Hour)), db.FailureSpan{Subscription: sub, Tenant: "acme", Destination: d.lane.Destination})
	}
	elsewhere := d.newSpan("acme")
	d.changeSpans(ends(health.Failed, now), elsewhere)
	d.exec("UPDATE destinations SET created_at = now() - interval '1 year'")
	d.becomesPolicy(d.lane, ratePolicy, now)
	if diff := cmp.Diff(health.Rate{LastSuccessAt: now, Judged: health.Active, JudgedAt: now}, d.rateOf(d.lane)); diff != "" {
		t.Errorf("rate (-want +got):\n%s", diff)
	}
	d.wantCount("spans, of others", 1, "SELECT count(*) FROM failure_spans")
	if told := d.told(); !slices.Equal(told, []hub.NoticeKind{hub.NoticeSpanCleared, hub.NoticeSpanCleared}) {
		t.Errorf("told %v", told)
	}
}

func TestChangeDestination_other_thresholds(t *testing.T) {
	t.Parallel()
	now := kept()
	d := newDepot(t, 1, 0)
	d.becomesPolicy(d.lane, ratePolicy, now)
	disabled := health.Rate{Attempts: 200, Failures: 200, Row: 200, LastSuccessAt: now, Judged: health.Disabled, JudgedAt: now, NextTryAt: now.Add(9 * time.Minute)}
	d.changeRates(func(int, health.Rate) (health.Rate, []hub.Notice) { return disabled, nil }, d.lane)
	soon := ratePolicy
	soon.Percent, soon.TryEveryMillis = 100, time.Minute.Milliseconds()
	d.becomesPolicy(d.lane, soon, now)
	disabled.NextTryAt = now.Add(time.Minute)
	if diff := cmp.Diff(disabled, d.rateOf(d.lane)); diff != "" {
		t.Errorf("rate (-want +got):\n%s", diff)
	}
	if told := d.told(); len(told) != 0 {
		t.Errorf("told %v", told)
	}
}

// Enabling one event subscription enables the destination, for all who share
// it: what is held of the others goes on too.
func TestChangeSubscription_that_restarts_a_frozen_destination(t *testing.T) {
	t.Parallel()
	now := kept()
	d := newDepot(t, 2, 2)
	d.becomesPolicy(d.lane, ratePolicy, now)
	d.disable()
	d.changeRates(judged(health.Frozen, now), d.lane)
	d.finish()
	d.wantCount("held deliveries of both", 4, "SELECT count(*) FROM delivery_queue WHERE due_at = 'infinity'")
	if _, err := d.db.ChangeSubscription(t.Context(), db.SubscriptionChange{
		Tenant: "acme", ID: d.sub, Now: now, FeedID: newID(),
		Decide: func(s db.Subscribed) (db.SubscriptionEdit, error) {
			next := s.Subscription
			next.Enabled, next.DisabledBy = true, ""
			return db.SubscriptionEdit{Subscription: &next, Restart: true}, nil
		},
	}); err != nil {
		t.Fatal(err)
	}
	d.finish()
	d.wantHeld(0)
	d.wantOthers()
	if r := d.rateOf(d.lane); r.Judged != health.Active {
		t.Errorf("rate is %+v", r)
	}
	if told := d.told(); !slices.Equal(told, []hub.NoticeKind{hub.NoticeRecovered}) {
		t.Errorf("told %v", told)
	}
}

// The policy of a destination may also change with one of its subscriptions.
func TestChangeSubscription_that_changes_the_policy(t *testing.T) {
	t.Parallel()
	now := kept()
	d := newDepot(t, 2, 2)
	d.becomesPolicy(d.lane, ratePolicy, now)
	d.changeRates(judged(health.Frozen, now), d.lane)
	d.finish()
	if _, err := d.db.ChangeSubscription(t.Context(), db.SubscriptionChange{
		Tenant: "acme", ID: d.sub, Now: now, FeedID: newID(),
		Decide: func(s db.Subscribed) (db.SubscriptionEdit, error) {
			next := s.Subscription
			return db.SubscriptionEdit{Subscription: &next, Fit: func(have *db.DestinationState) (db.DestinationEdit, error) {
				edit := db.DestinationEdit{Destination: have.Destination}
				edit.Destination.FailurePolicy = spanPolicy
				return edit, nil
			}}, nil
		},
	}); err != nil {
		t.Fatal(err)
	}
	d.finish()
	d.wantHeld(0)
	d.wantOthers()
	if told := d.told(); !slices.Equal(told, []hub.NoticeKind{hub.NoticeRecovered}) {
		t.Errorf("told %v", told)
	}
}
