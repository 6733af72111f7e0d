package controlplane_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/streaming-hub/streaming-hub/controlplane"
	"github.com/streaming-hub/streaming-hub/db"
	"github.com/streaming-hub/streaming-hub/db/dbtest"
)

func TestFeedHold(t *testing.T) {
	for name, c := range map[string]struct {
		snapshots []string // one every two seconds
		want      time.Duration
	}{
		"nothing_runs":                 {[]string{"10:10:", "10:10:", "12:12:"}, 0},
		"transactions_come_and_go":     {[]string{"10:12:10,11", "12:14:12", "14:15:14"}, 0},
		"one_stays":                    {[]string{"10:12:10", "10:20:10,19", "10:30:10"}, 4 * time.Second},
		"one_stays_while_none_follow":  {[]string{"10:11:10", "10:11:10"}, 2 * time.Second},
		"it_ended":                     {[]string{"10:12:10", "10:20:10", "25:25:"}, 0},
		"it_ended_and_the_next_began":  {[]string{"10:12:10", "10:20:10", "22:25:22"}, 0},
		"the_next_one_stays_in_turn":   {[]string{"10:12:10", "22:25:22", "22:26:22"}, 2 * time.Second},
		"unreadable_holds_nothing_up!": {[]string{"", ""}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var h controlplane.FeedHold
				for _, s := range c.snapshots {
					h.Note(s, time.Now())
					time.Sleep(2 * time.Second)
				}
				if got := h.Held(); got != c.want {
					t.Errorf("held for %s, want %s", got, c.want)
				}
			})
		})
	}
}

func TestFeedHold_sees_a_foreign_transaction_that_hangs(t *testing.T) {
	dsn := dbtest.New(t)
	database, err := db.Open(t.Context(), db.Config{DSN: dsn})
	if err != nil {
		t.Fatal(err)
	}
	defer database.Close()
	foreign, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer foreign.Close(t.Context())
	if _, err := foreign.Exec(t.Context(), "BEGIN; CREATE TEMP TABLE scratch (n int)"); err != nil {
		t.Fatal(err)
	}
	// Somebody else's transaction ends behind it: its row would have to wait.
	other, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close(t.Context())
	if _, err := other.Exec(t.Context(), "SELECT pg_current_xact_id()"); err != nil {
		t.Fatal(err)
	}
	var h controlplane.FeedHold
	begun := time.Now()
	for _, after := range []time.Duration{0, time.Minute} {
		snapshot, err := database.FeedSnapshot(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		h.Note(snapshot, begun.Add(after))
	}
	if h.Held() != time.Minute {
		t.Errorf("a transaction that hangs for a minute holds the feed for %s", h.Held())
	}
}
