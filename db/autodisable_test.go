package db_test

import (
	"sync"
	"testing"
	"time"

	"github.com/streaming-hub/streaming-hub/db"
	"github.com/streaming-hub/streaming-hub/hub"
	"github.com/streaming-hub/streaming-hub/hub/health"
)

// disabling asks to switch a subscription off, whatever its span.
func disabling(d *hub.Delivery, at time.Time) db.AutoDisable {
	return db.AutoDisable{
		Tenant: d.Tenant, Subscription: d.Subscription, FeedID: newID(), At: at,
		Judge: func(_ *hub.EventSubscription, span db.FailureSpan) (string, db.FailureSpan) {
			span.TrippedAt, span.Mark = at, 90
			return "it failed for days", span
		},
		Notice: func(reason string, after db.FailureSpan) hub.Notice {
			return hub.Notice{
				Kind: hub.NoticeAutoDisabled, At: at, Tenant: after.Tenant, Subscription: after.Subscription, Destination: after.Destination,
				Reason: reason, Span: &hub.SpanNotice{FailureCount: after.Span.FailureCount},
			}
		},
		Audit: func(before, after *hub.EventSubscription) db.AuditEntry {
			return db.AuditEntry{
				ID: newID(), Tenant: d.Tenant, ActorName: "hub", Action: "disable_event_subscription", Object: "sub",
				Before: before.Enabled, After: []any{after.Enabled, after.DisabledBy, after.DisabledReason, after.DisabledAt.Equal(at)},
			}
		},
	}
}

func (l *lab) configVersion() int {
	l.Helper()
	return l.count("SELECT config_version FROM tenant_counters WHERE tenant_id = 'acme'")
}

func TestDisableSubscription_happens_once_whoever_asks(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	_, d := l.owed("acme")
	now := kept()
	s := db.FailureSpan{Subscription: d.Subscription, Tenant: "acme", Destination: d.Destination}
	l.changeSpans(ends(health.Failed, now.Add(-200*time.Hour)), s)
	l.changeSpans(ends(health.Failed, now), s)
	version := l.configVersion()

	ready := make(chan struct{})
	did := make(chan bool, 4)
	var replicas sync.WaitGroup
	for range cap(did) {
		replicas.Go(func() {
			r := disabling(&d, now)
			<-ready
			done, err := l.db.DisableSubscription(t.Context(), r)
			if err != nil {
				t.Error(err)
			}
			did <- done
		})
	}
	close(ready)
	replicas.Wait()
	close(did)
	times := 0
	for done := range did {
		if done {
			times++
		}
	}
	if times != 1 {
		t.Errorf("%d of 4 did it, want 1", times)
	}
	l.wantCount("subscriptions that the hub switched off", 1, `SELECT count(*) FROM event_subscriptions WHERE id = $1 AND NOT enabled
		AND disabled_by = 'AUTO' AND disabled_reason = 'it failed for days' AND disabled_at = $2 AND verification_state = 'ACTIVE'`,
		text(d.Subscription), now)
	l.wantCount("chores", 1, "SELECT count(*) FROM lane_chores")
	l.wantCount("chores of its lane", 1, `SELECT count(*) FROM lane_chores WHERE subscription_id = $1 AND destination_id = $2
		AND tenant_id = 'acme' AND round = 1 AND NOT held AND not_before <= now()`, text(d.Subscription), text(d.Destination))
	l.wantCount("audit entries", 1, "SELECT count(*) FROM audit_log")
	l.wantCount("audit entries with before and after", 1, `SELECT count(*) FROM audit_log
		WHERE before = 'true' AND after = '[false, "AUTO", "it failed for days", true]'`)
	if got := l.configVersion(); got != version+1 {
		t.Errorf("the tenant's configuration went from version %d to %d, want one more", version, got)
	}
	items := l.feed()
	if len(items) != 1 || items[0].Notice == nil || items[0].Notice.Kind != hub.NoticeAutoDisabled || items[0].Subscription != d.Subscription ||
		items[0].Notice.Reason != "it failed for days" || items[0].Notice.Span.FailureCount != 2 {
		t.Errorf("feed = %+v, want one notice", items)
	}
	if got := l.spanOf(d.Subscription); !got.TrippedAt.Equal(now) || got.Mark != 90 || got.Span.FailureCount != 2 {
		t.Errorf("span = %+v", got)
	}
}

func TestDisableSubscription_is_all_or_nothing(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	_, d := l.owed("acme")
	version := l.configVersion()
	l.failCommits("event_subscriptions")
	if done, err := l.db.DisableSubscription(t.Context(), disabling(&d, kept())); err == nil {
		t.Errorf("a commit that failed is no error (done %v)", done)
	}
	for _, table := range []string{"lane_chores", "audit_log", "outcome_feed"} {
		l.wantCount("rows of "+table, 0, "SELECT count(*) FROM "+table)
	}
	if got := l.configVersion(); got != version {
		t.Errorf("the tenant's configuration went from version %d to %d", version, got)
	}
}

func TestDisableSubscription_judges_by_what_is_stored_now(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	_, d := l.owed("acme")
	now := kept()
	l.changeSpans(ends(health.Failed, now), db.FailureSpan{Subscription: d.Subscription, Tenant: "acme", Destination: d.Destination})
	r := disabling(&d, now)
	r.Judge = func(s *hub.EventSubscription, span db.FailureSpan) (string, db.FailureSpan) {
		if s.ID != d.Subscription || !s.Enabled || span.Span.FailureCount != 1 || span.Destination != d.Destination || !span.Span.LastFailureAt.Equal(now) {
			t.Errorf("judged by %+v and %+v", s, span)
		}
		return "", span
	}
	if _, err := l.db.DisableSubscription(t.Context(), r); err != nil {
		t.Error(err)
	}
}

func TestDisableSubscription_without_a_span_makes_none(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	_, d := l.owed("acme")
	if done, err := l.db.DisableSubscription(t.Context(), disabling(&d, kept())); err != nil || !done {
		t.Errorf("done %v, %v", done, err)
	}
	l.wantCount("spans", 0, "SELECT count(*) FROM failure_spans")
	l.wantCount("subscriptions that the hub switched off", 1, "SELECT count(*) FROM event_subscriptions WHERE disabled_by = 'AUTO'")
}

func TestDisableSubscription_leaves_alone(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		rule, before string // SQL
		judge        string // its reason
	}{
		{"what_the_judge_spares", "SELECT 1", ""},
		{"what_is_deleted", "UPDATE event_subscriptions SET deleted_at = now()", "it failed for days"},
		{"what_a_user_disabled", "UPDATE event_subscriptions SET enabled = false, disabled_by = 'USER', disabled_reason = 'lunch'", "it failed for days"},
		{"what_does_not_exist", "DELETE FROM event_subscriptions", "it failed for days"},
	} {
		t.Run(row.rule, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			_, d := l.owed("acme")
			now := kept()
			l.changeSpans(ends(health.Failed, now), db.FailureSpan{Subscription: d.Subscription, Tenant: "acme", Destination: d.Destination})
			l.exec(row.before)
			version := l.configVersion()
			r := disabling(&d, now)
			trip := r.Judge
			r.Judge = func(s *hub.EventSubscription, span db.FailureSpan) (string, db.FailureSpan) {
				_, after := trip(s, span)
				return row.judge, after
			}
			done, err := l.db.DisableSubscription(t.Context(), r)
			if err != nil || done {
				t.Errorf("done %v, %v", done, err)
			}
			l.wantCount("subscriptions that the hub switched off", 0, "SELECT count(*) FROM event_subscriptions WHERE disabled_by = 'AUTO'")
			for _, table := range []string{"lane_chores", "audit_log", "outcome_feed"} {
				l.wantCount("rows of "+table, 0, "SELECT count(*) FROM "+table)
			}
			if got := l.configVersion(); got != version {
				t.Errorf("the tenant's configuration went from version %d to %d", version, got)
			}
			if got := l.spanOf(d.Subscription); !got.TrippedAt.IsZero() || got.Mark != 0 {
				t.Errorf("span = %+v", got)
			}
		})
	}
}
