package dbclock_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/streaming-hub/streaming-hub/dataplane/dbclock"
)

func TestAhead(t *testing.T) {
	const ms, s = time.Millisecond, time.Second
	asked := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for _, row := range []struct {
		rule           string
		believed, took time.Duration
		stored         time.Duration // after the question
		want           time.Duration
	}{
		{"equal_clocks_are_left_alone", 0, 10 * ms, 5 * ms, 0},
		{"half_of_what_the_question_took_is_no_difference", 0, 400 * ms, 200 * ms, 0},
		{"little_is_not_worth_a_jump", 0, 10 * ms, 250 * ms, 0},
		{"database_ahead", 0, 10 * ms, 30*s + 5*ms, 30 * s},
		{"database_behind", 0, 10 * ms, -30*s + 5*ms, -30 * s},
		{"what_is_believed_is_kept", 30 * s, 10 * ms, 30*s + 200*ms, 30 * s},
		{"what_was_believed_is_given_up", 30 * s, 10 * ms, 5 * ms, 0},
		{"an_answer_that_took_long_says_too_little", 0, 501 * ms, 30 * s, 0},
	} {
		t.Run(row.rule, func(t *testing.T) {
			if got := dbclock.Ahead(row.believed, asked, asked.Add(row.took), asked.Add(row.stored)); got != row.want {
				t.Errorf("Ahead = %v, want %v", got, row.want)
			}
		})
	}
}

// store is a database whose clock is ahead of the bubble's.
type store struct {
	ahead time.Duration
	away  bool
}

func (s *store) ClockTime(context.Context) (time.Time, error) {
	if s.away {
		return time.Time{}, errors.New("the database is away")
	}
	return time.Now().Add(s.ahead), nil
}

func TestClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		database := &store{ahead: -time.Minute}
		slow := func() time.Time { return time.Now().Add(-30 * time.Second) }
		c := dbclock.New(database, slow, slog.New(slog.DiscardHandler))
		differs := func(want time.Duration) {
			t.Helper()
			if got := c.Now().Sub(time.Now()); got != want {
				t.Errorf("it is %v ahead of the bubble, want %v", got, want)
			}
		}
		differs(-30 * time.Second) // the local one, before it was set
		if err := c.Set(t.Context()); err != nil {
			t.Fatal(err)
		}
		differs(-time.Minute)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- c.Run(ctx) }()
		time.Sleep(time.Minute)
		synctest.Wait()
		differs(-time.Minute)
		database.away = true
		time.Sleep(time.Minute)
		synctest.Wait()
		differs(-time.Minute)
		database.away, database.ahead = false, time.Hour // somebody set it
		time.Sleep(11 * time.Second)
		synctest.Wait()
		differs(time.Hour)
		stop()
		if err := <-ended; err != nil {
			t.Errorf("Run = %v", err)
		}
	})
}
