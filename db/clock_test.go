package db_test

import (
	"testing"
	"time"
)

func TestClockTime(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	before, err := l.db.ClockTime(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	after, err := l.db.ClockTime(t.Context())
	// The test's database runs on this machine.
	if err != nil || !after.After(before) || time.Since(before).Abs() > time.Minute {
		t.Errorf("%v, then %v, %v", before, after, err)
	}
}
