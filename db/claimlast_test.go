package db_test

import (
	"strings"
	"testing"
	"time"

	"github.com/streaming-hub/streaming-hub/db"
	"github.com/streaming-hub/streaming-hub/hub"
)

func TestClaimLast(t *testing.T) {
	t.Parallel()
	claimLast := func(l *lab, lane db.Lane, quota int) []db.Claim {
		l.Helper()
		claims, err := l.db.ClaimLast(l.Context(), []db.LaneQuota{{Lane: lane, Quota: quota}}, time.Minute)
		if err != nil {
			l.Fatal(err)
		}
		return claims
	}
	for _, row := range []struct {
		rule, set string // SQL
		want      int
	}{
		{"last_now_is_taken", "last_at = now()", 1},
		{"last_since_long_is_taken", "last_at = now() - interval '1 day'", 1},
		{"last_later_stays", "last_at = now() + interval '1 min'", 0},
		{"nobody_said_so_stays", "last_at = NULL", 0},
		{"last_but_not_due_stays", "last_at = now(), due_at = now() + interval '1 min'", 0},
		{"held_stays", "last_at = now(), due_at = 'infinity'", 0},
		{"leased_stays", "last_at = now(), leased_until = now() + interval '1 min', lease_token = 5", 0},
		{"ended_lease_is_taken", "last_at = now(), leased_until = now() - interval '1 ms', lease_token = 5", 1},
	} {
		t.Run(row.rule, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			lane := laneOf("acme")
			d := l.queue(lane, 1)[0].Delivery
			l.exec("UPDATE delivery_queue SET " + row.set)
			claims := claimLast(l, lane, 9)
			if len(claims) != row.want {
				t.Fatalf("%d claimed, want %d", len(claims), row.want)
			}
			if row.want == 0 {
				return
			}
			c := claims[0]
			if c.Delivery.ID != d.ID || c.Delivery.LastAt.IsZero() || c.LeaseToken == 0 || c.LeaseToken == 5 {
				t.Errorf("claim = %+v", c)
			}
			if want := strings.Contains(row.set, "lease_token"); (c.Reclaims == 1) != want {
				t.Errorf("%d reclaims", c.Reclaims)
			}
			if again := claimLast(l, lane, 9); len(again) > 0 {
				t.Error("claimed twice")
			}
			if recorded := l.record(outcome(c, hub.Dead)); !recorded[d.ID] {
				t.Error("its outcome was not recorded")
			}
		})
	}
	t.Run("born_last_is_taken", func(t *testing.T) {
		t.Parallel()
		l := newLab(t)
		lane := laneOf("acme")
		list := born(lane, 3)
		list[0].Last = true
		list[1].Last, list[1].DueIn = true, time.Hour
		l.store(db.IngestWrites{Deliveries: list, Lease: time.Minute}, lane.Tenant)
		l.wantCount("rows that are last from when they are due", 2, "SELECT count(*) FROM delivery_queue WHERE last_at = due_at")
		if claims := claimLast(l, lane, 9); len(claims) != 1 || claims[0].Delivery.ID != list[0].Delivery.ID {
			t.Errorf("claimed %+v, want the first", claims)
		}
	})
	t.Run("quota_holds_per_lane_and_the_longest_last_go_first", func(t *testing.T) {
		t.Parallel()
		l := newLab(t)
		one, two := laneOf("acme"), laneOf("acme")
		list := l.queue(one, 4)
		l.queue(two, 4)
		l.exec("UPDATE delivery_queue SET last_at = now()")
		for i, d := range list {
			l.exec("UPDATE delivery_queue SET last_at = now() - $2 * interval '1 s' WHERE id = $1", text(d.Delivery.ID), i)
		}
		claims, err := l.db.ClaimLast(t.Context(), []db.LaneQuota{{Lane: one, Quota: 2}, {Lane: two, Quota: 3}}, time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		got := map[hub.DestinationID]int{}
		for _, c := range claims {
			got[c.Delivery.Destination]++
			if c.Delivery.ID == list[0].Delivery.ID || c.Delivery.ID == list[1].Delivery.ID {
				t.Error("one was claimed before another that is last for longer")
			}
		}
		if got[one.Destination] != 2 || got[two.Destination] != 3 {
			t.Errorf("claimed %d and %d, want 2 and 3", got[one.Destination], got[two.Destination])
		}
	})
}
