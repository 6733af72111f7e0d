package hubtest

import (
	"bytes"
	"testing"
	"testing/synctest"
	"time"

	"github.com/streaming-hub/streaming-hub/hub"
)

// The clock stands still in the bubble: only the count orders the ids, and it
// passes each border between the bytes that hold it.
func TestNewID_rises_within_a_millisecond(t *testing.T) {
	made.Store(1<<22 - 50_000)
	synctest.Test(t, func(t *testing.T) {
		var before hub.ID
		for i := range 100_000 {
			id := NewID()
			if bytes.Compare(before[:], id[:]) >= 0 {
				t.Fatalf("id %d is %s, the one before it %s", i, id, before)
			}
			if before = id; id.String()[14] != '7' {
				t.Fatalf("%s is not of version 7", id)
			}
		}
	})
	floor := hub.FloorID(time.Now())
	if id := NewID(); bytes.Compare(id[:], floor[:]) < 0 {
		t.Errorf("%s is older than its clock", id)
	}
}
