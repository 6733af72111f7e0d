package db_test

import (
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/streaming-hub/streaming-hub/db"
	"github.com/streaming-hub/streaming-hub/hub"
)

func TestPublishNotices(t *testing.T) {
	t.Parallel()
	now := kept()
	full := hub.Notice{
		Kind: hub.NoticeCircuitOpened, At: now, Tenant: "acme", Subscription: hub.SubscriptionID{ID: newID()},
		Destination: hub.DestinationID{ID: newID()}, Reason: "it said \"no\"\n<5 times>\u2028",
		Breaker: &hub.BreakerNotice{Phase: "OPEN", Failures: 5, OpenedAt: now, NextProbeAt: now},
		Span:    &hub.SpanNotice{FirstFailureAt: now, LastFailureAt: now, FailureCount: 1 << 40, Mark: 75, WouldTripAt: now},
		Replay: &hub.ReplayNotice{
			Job: hub.JobID{ID: newID()}, State: hub.JobRunning, Total: 1 << 40, Released: 7, Skipped: 1, Tried: 6, Failed: 2, Delivered: 4, Dead: 1,
		},
	}
	t.Run("every_field_comes_back", func(t *testing.T) {
		t.Parallel()
		wantNoZero(t, "Notice", reflect.ValueOf(full))
		wantNoZero(t, "Notice.Breaker", reflect.ValueOf(*full.Breaker))
		wantNoZero(t, "Notice.Span", reflect.ValueOf(*full.Span))
		wantNoZero(t, "Notice.Replay", reflect.ValueOf(*full.Replay))
		l := newLab(t)
		bare := hub.Notice{Kind: hub.NoticeFrozen, At: now, Tenant: "bolt", Destination: full.Destination}
		if !l.wakesReaders(func() {
			if err := l.db.PublishNotices(t.Context(), newID(), []hub.Notice{full, bare}); err != nil {
				t.Fatal(err)
			}
		}) {
			t.Error("nobody was woken")
		}
		var got []hub.Notice
		for _, item := range l.feed() {
			n := item.Notice
			if n == nil {
				t.Fatalf("feed has %+v", item)
			}
			want := db.FeedItem{Tenant: n.Tenant, Subscription: n.Subscription, Destination: n.Destination, Notice: n}
			if diff := cmp.Diff(want, item); diff != "" {
				t.Errorf("item of a notice (-want +got):\n%s", diff)
			}
			got = append(got, *n)
		}
		if diff := cmp.Diff([]hub.Notice{full, bare}, got); diff != "" {
			t.Errorf("notices (-want +got):\n%s", diff)
		}
		l.wantCount("rows of the feed", 1, "SELECT count(*) FROM outcome_feed")
	})
	t.Run("none_write_nothing_and_wake_nobody", func(t *testing.T) {
		t.Parallel()
		l := newLab(t)
		if l.wakesReaders(func() {
			if err := l.db.PublishNotices(t.Context(), newID(), nil); err != nil {
				t.Fatal(err)
			}
		}) {
			t.Error("somebody was woken")
		}
		l.wantCount("rows of the feed", 0, "SELECT count(*) FROM outcome_feed")
	})
	t.Run("what_cannot_be_stored_is_an_error", func(t *testing.T) {
		t.Parallel()
		l := newLab(t)
		if err := l.db.PublishNotices(t.Context(), hub.ID{}, []hub.Notice{full}); err == nil {
			t.Error("a feed row without a partition was stored")
		}
	})
}
