package hub

import (
	"bytes"
	"testing"
	"time"
)

// The counter's 18 bits stand in three bytes; with no chance in the ids, it
// alone makes them rise and keeps them apart.
func TestIDs_rise_within_a_batch(t *testing.T) {
	now := time.UnixMilli(1_700_000_000_123)
	ids := NewIDs(now, bytes.NewReader(make([]byte, 10<<18)))
	floor, ceiling := FloorID(now), FloorID(now.Add(time.Millisecond))
	before := floor
	for i := range 1 << 18 {
		id := ids.Next()
		if bytes.Compare(before[:], id[:]) >= 0 || bytes.Compare(id[:], ceiling[:]) >= 0 {
			t.Fatalf("id %d is %s, the one before it %s", i, id, before)
		}
		if id[6]>>4 != 7 || id[8]>>6 != 2 {
			t.Fatalf("%s has another version or variant than a UUIDv7", id)
		}
		before = id
	}
}

func TestIDs_differ_between_batches_of_a_millisecond(t *testing.T) {
	now := time.UnixMilli(1_700_000_000_123)
	one := NewIDs(now, bytes.NewReader(bytes.Repeat([]byte{0x11}, 10))).Next()
	other := NewIDs(now, bytes.NewReader(bytes.Repeat([]byte{0x22}, 10))).Next()
	if one == other {
		t.Errorf("both are %s: chance has no part in it", one)
	}
}

func TestFloorID_of_times_before_1970_is_below_every_id(t *testing.T) {
	for _, at := range []time.Time{{}, time.UnixMilli(-1), time.UnixMilli(0)} {
		if id := FloorID(at); id != (ID{}) {
			t.Errorf("of %s it is %s", at, id)
		}
	}
}
