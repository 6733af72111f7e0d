package hubtest

import (
	"crypto/rand"
	"testing"
	"time"

	"github.com/streaming-hub/streaming-hub/hub"
)

func TestNow_each_is_in_a_later_millisecond(t *testing.T) {
	last := Now()
	for range 1000 {
		now := Now()
		if !now.Truncate(time.Millisecond).After(last.Truncate(time.Millisecond)) {
			t.Fatalf("%s follows %s", now, last)
		}
		older, younger := hub.NewID(last, rand.Reader).String(), hub.NewID(now, rand.Reader).String()
		if between := hub.FloorID(now).String(); older >= between || between > younger {
			t.Fatalf("%s is not between %s and %s", between, older, younger)
		}
		last = now
	}
}
