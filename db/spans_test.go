package db_test

import (
	"errors"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/streaming-hub/streaming-hub/db"
	"github.com/streaming-hub/streaming-hub/hub"
	"github.com/streaming-hub/streaming-hub/hub/health"
)

type spanChange = func(i int, stored db.FailureSpan) (db.FailureSpan, []hub.Notice)

// newSpan names the span of a new subscription as callers do who know of none.
func (l *lab) newSpan(tenant string) db.FailureSpan {
	l.Helper()
	lane := laneOf(tenant)
	l.destination(lane, kept())
	return db.FailureSpan{Subscription: l.subscription(lane), Tenant: lane.Tenant, Destination: lane.Destination}
}

// ends is the change by an attempt that ended so at a moment.
func ends(o health.Outcome, at time.Time) spanChange {
	return func(_ int, s db.FailureSpan) (db.FailureSpan, []hub.Notice) {
		s.Span = s.Span.After(o, at)
		return s, nil
	}
}

func (l *lab) changeSpans(change spanChange, wanted ...db.FailureSpan) []db.FailureSpan {
	l.Helper()
	after, err := l.db.ChangeSpans(l.Context(), wanted, newID(), change)
	if err != nil {
		l.Fatal(err)
	}
	return after
}

// spanOf is the stored span of a subscription; not open without one.
func (l *lab) spanOf(id hub.SubscriptionID) db.FailureSpan {
	l.Helper()
	list, err := l.db.SpansOf(l.Context(), []hub.SubscriptionID{id})
	if err != nil {
		l.Fatal(err)
	}
	if len(list) == 0 {
		return db.FailureSpan{}
	}
	return list[0]
}

func TestChangeSpans(t *testing.T) {
	t.Parallel()
	now := kept()
	t.Run("failure_opens_further_ones_extend_success_clears", func(t *testing.T) {
		t.Parallel()
		l := newLab(t)
		want := l.newSpan("acme")
		l.changeSpans(ends(health.Failed, now.Add(-time.Hour)), want)
		want.Span = health.Span{FirstFailureAt: now.Add(-time.Hour), LastFailureAt: now.Add(-time.Hour), FailureCount: 1}
		if diff := cmp.Diff(want, l.spanOf(want.Subscription)); diff != "" {
			t.Errorf("opened (-want +got):\n%s", diff)
		}
		after := l.changeSpans(ends(health.Failed, now), want)
		want.Span.LastFailureAt, want.Span.FailureCount = now, 2
		if diff := cmp.Diff(want, l.spanOf(want.Subscription)); diff != "" {
			t.Errorf("extended (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]db.FailureSpan{want}, after); diff != "" {
			t.Errorf("as it is said to be (-want +got):\n%s", diff)
		}
		l.changeSpans(ends(health.Succeeded, now.Add(time.Second)), want)
		l.wantCount("spans after a success", 0, "SELECT count(*) FROM failure_spans")
		l.changeSpans(ends(health.Succeeded, now.Add(time.Second)), want)
		l.wantCount("spans after another", 0, "SELECT count(*) FROM failure_spans")
	})
	t.Run("every_field_comes_back", func(t *testing.T) {
		t.Parallel()
		l := newLab(t)
		full := l.newSpan("acme")
		full.Span = health.Span{FirstFailureAt: now.Add(-time.Hour), LastFailureAt: now, FailureCount: 1 << 40}
		full.Mark, full.TrippedAt = 75, now.Add(-time.Minute)
		wantNoZero(t, "FailureSpan", reflect.ValueOf(full))
		put := func(int, db.FailureSpan) (db.FailureSpan, []hub.Notice) { return full, nil }
		l.changeSpans(put, full)
		if diff := cmp.Diff(full, l.spanOf(full.Subscription)); diff != "" {
			t.Errorf("inserted (-want +got):\n%s", diff)
		}
		full.Span = health.Span{FirstFailureAt: now.Add(-2 * time.Hour), LastFailureAt: now.Add(time.Minute), FailureCount: 2}
		full.Mark, full.TrippedAt = 90, now
		l.changeSpans(put, full)
		if diff := cmp.Diff(full, l.spanOf(full.Subscription)); diff != "" {
			t.Errorf("updated (-want +got):\n%s", diff)
		}
	})
	t.Run("span_of_another_destination_is_none", func(t *testing.T) {
		t.Parallel()
		l := newLab(t)
		s := l.newSpan("acme")
		l.changeSpans(ends(health.Failed, now.Add(-time.Hour)), s)
		to := laneOf("acme")
		l.destination(to, now)
		l.exec("UPDATE event_subscriptions SET destination_id = $2 WHERE id = $1", text(s.Subscription), text(to.Destination))
		if list, err := l.db.LongSpans(t.Context(), now, hub.SubscriptionID{}, 10); err != nil || len(list) != 0 {
			t.Errorf("swept %+v, %v", list, err)
		}
		if after := l.changeSpans(ends(health.Failed, now), s); after[0].Span.Open() || l.spanOf(s.Subscription).Span.FailureCount != 1 {
			t.Errorf("what ended at the place before was taken: %+v", after)
		}
		s.Destination = to.Destination
		l.changeSpans(ends(health.Failed, now), s)
		if got := l.spanOf(s.Subscription); got.Destination != s.Destination || got.Span.FailureCount != 1 || !got.Span.FirstFailureAt.Equal(now) {
			t.Errorf("stored %+v", got)
		}
	})
	t.Run("deleted_subscription_has_none", func(t *testing.T) {
		t.Parallel()
		l := newLab(t)
		s := l.newSpan("acme")
		l.exec("UPDATE event_subscriptions SET deleted_at = now() WHERE id = $1", text(s.Subscription))
		l.changeSpans(ends(health.Failed, now), s)
		l.wantCount("spans", 0, "SELECT count(*) FROM failure_spans")
	})
	t.Run("under_FAILURE_RATE_there_is_none", func(t *testing.T) {
		t.Parallel()
		l := newLab(t)
		s := l.newSpan("acme")
		l.changeSpans(ends(health.Failed, now.Add(-time.Hour)), s)
		l.exec(`UPDATE destinations SET failure_policy = '{"kind":"FAILURE_RATE"}'`)
		l.changeSpans(ends(health.Failed, now), s)
		if got := l.spanOf(s.Subscription); got.Span.FailureCount != 1 {
			t.Errorf("stored %+v", got)
		}
		if list, err := l.db.LongSpans(t.Context(), now, hub.SubscriptionID{}, 10); err != nil || len(list) != 0 {
			t.Errorf("swept %+v, %v", list, err)
		}
	})
	t.Run("result_is_in_the_order_of_the_subscriptions", func(t *testing.T) {
		t.Parallel()
		l := newLab(t)
		list := []db.FailureSpan{l.newSpan("a"), l.newSpan("b"), l.newSpan("c"), l.newSpan("d")}
		count := func(i int, s db.FailureSpan) (db.FailureSpan, []hub.Notice) {
			for range i + 1 {
				s.Span = s.Span.After(health.Failed, now)
			}
			return s, nil
		}
		l.changeSpans(count, list...)
		slices.Reverse(list)
		for i, s := range l.changeSpans(count, list...) {
			if s.Subscription != list[i].Subscription || s.Span.FailureCount != 5 || s.Tenant != list[i].Tenant { // (i + 1) + (4 − i)
				t.Errorf("%d: %+v", i, s)
			}
		}
	})
	t.Run("replicas_that_open_it_at_once_make_one_with_all_counts", func(t *testing.T) {
		t.Parallel()
		l := newLab(t)
		for round := range 25 {
			s := l.newSpan("acme")
			ready := make(chan struct{})
			var replicas sync.WaitGroup
			for i := range 2 {
				replicas.Go(func() {
					<-ready
					at := now.Add(time.Duration(i) * time.Minute)
					_, err := l.db.ChangeSpans(t.Context(), []db.FailureSpan{s}, newID(), func(_ int, s db.FailureSpan) (db.FailureSpan, []hub.Notice) {
						s.Span = s.Span.After(health.Failed, at)
						return s, []hub.Notice{{Kind: hub.NoticeSpanOpened, Subscription: s.Subscription, At: at, Span: &hub.SpanNotice{FailureCount: s.Span.FailureCount}}}
					})
					if err != nil {
						t.Error(err)
					}
				})
			}
			close(ready)
			replicas.Wait()
			want := health.Span{FirstFailureAt: now, LastFailureAt: now.Add(time.Minute), FailureCount: 2}
			if diff := cmp.Diff(want, l.spanOf(s.Subscription).Span); diff != "" {
				t.Fatalf("round %d (-want +got):\n%s", round, diff)
			}
		}
		told := map[int64]int{}
		for _, item := range l.feed() {
			told[item.Notice.Span.FailureCount]++
		}
		if told[1] != 25 || told[2] != 25 || len(told) != 2 {
			t.Errorf("notices by count of failures: %v, want one of each in every round", told)
		}
	})
	t.Run("impossible_one_undoes_all", func(t *testing.T) {
		t.Parallel()
		l := newLab(t)
		list := []db.FailureSpan{l.newSpan("acme"), l.newSpan("acme")}
		_, err := l.db.ChangeSpans(t.Context(), list, newID(), func(i int, s db.FailureSpan) (db.FailureSpan, []hub.Notice) {
			s.Span = health.Span{FirstFailureAt: now, LastFailureAt: now.Add(time.Duration(-i) * time.Second), FailureCount: 1}
			return s, []hub.Notice{{Kind: hub.NoticeSpanOpened, At: now}}
		})
		if err == nil || errors.Is(err, db.ErrChanged) {
			t.Errorf("a span that ends before it begins was stored: %v", err)
		}
		l.wantCount("rows of the feed", 0, "SELECT count(*) FROM outcome_feed")
		l.wantCount("spans", 0, "SELECT count(*) FROM failure_spans")
	})
	t.Run("notices_stand_and_fall_with_the_change", func(t *testing.T) {
		t.Parallel()
		l := newLab(t)
		opens := func(_ int, s db.FailureSpan) (db.FailureSpan, []hub.Notice) {
			s.Span = s.Span.After(health.Failed, now)
			return s, []hub.Notice{{Kind: hub.NoticeSpanOpened, At: now}}
		}
		l.changeSpans(opens, l.newSpan("acme"))
		l.failCommits("failure_spans")
		if _, err := l.db.ChangeSpans(t.Context(), []db.FailureSpan{l.newSpan("acme")}, newID(), opens); err == nil {
			t.Error("a commit that failed is no error")
		}
		l.wantCount("rows of the feed", 1, "SELECT count(*) FROM outcome_feed")
	})
}

func TestSpansChangedSince_pages_in_the_order_of_changes(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	began := kept().Add(-time.Hour)
	var ids []hub.SubscriptionID
	for i := range 5 {
		s := l.newSpan("acme")
		ids = append(ids, s.Subscription)
		l.changeSpans(ends(health.Failed, kept()), s)
		l.exec("UPDATE failure_spans SET changed_at = $2 WHERE subscription_id = $1", text(s.Subscription), began.Add(time.Duration(10-i)*time.Second))
	}
	slices.Reverse(ids)
	walk := func() (seen []hub.SubscriptionID) {
		since := began
		for {
			page, last, err := l.db.SpansChangedSince(t.Context(), since, 2)
			if err != nil || len(page) > 2 || (len(page) > 0) != last.After(since) {
				t.Fatalf("%d in a page of 2, up to %s, %v", len(page), last, err)
			}
			if len(page) == 0 {
				return seen
			}
			for _, s := range page {
				seen = append(seen, s.Subscription)
			}
			since = last
		}
	}
	if seen := walk(); !slices.Equal(seen, ids) {
		t.Errorf("walk = %v\nwant %v", seen, ids)
	}
	l.changeSpans(ends(health.Failed, kept().Add(time.Second)), l.spanOf(ids[1]))
	l.changeSpans(func(_ int, s db.FailureSpan) (db.FailureSpan, []hub.Notice) { return s, nil }, l.spanOf(ids[3])) // no change
	if seen, want := walk(), []hub.SubscriptionID{ids[0], ids[2], ids[3], ids[4], ids[1]}; !slices.Equal(seen, want) {
		t.Errorf("walk after a change = %v\nwant %v", seen, want)
	}
}

func TestLongSpans(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	now := kept()
	lane := laneOf("acme")
	l.destination(lane, now)
	var want []hub.SubscriptionID
	for i := range 8 {
		s := db.FailureSpan{Subscription: l.subscription(lane), Tenant: lane.Tenant, Destination: lane.Destination}
		began := now.Add(-time.Duration(i) * time.Hour)
		l.changeSpans(ends(health.Failed, began), s)
		switch i {
		case 0, 1: // too young
		case 6:
			l.exec("UPDATE event_subscriptions SET enabled = false, disabled_by = 'AUTO' WHERE id = $1", text(s.Subscription))
		case 7:
			l.exec("UPDATE event_subscriptions SET deleted_at = now() WHERE id = $1", text(s.Subscription))
		default: // the one of exactly two hours too
			want = append(want, s.Subscription)
		}
	}
	slices.SortFunc(want, func(a, b hub.SubscriptionID) int { return slices.Compare(a.ID[:], b.ID[:]) })
	var got []hub.SubscriptionID
	for after := (hub.SubscriptionID{}); ; after = got[len(got)-1] {
		page, err := l.db.LongSpans(t.Context(), now.Add(-2*time.Hour), after, 3)
		if err != nil || len(page) > 3 {
			t.Fatalf("%d in a page of 3, %v", len(page), err)
		}
		if len(page) == 0 {
			break
		}
		for _, s := range page {
			got = append(got, s.Subscription)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("walk = %v\nwant %v", got, want)
	}
}
