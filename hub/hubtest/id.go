// Package hubtest makes values that tests of several packages need.
package hubtest

import (
	"bytes"
	"crypto/rand"
	"sync/atomic"
	"time"

	"github.com/streaming-hub/streaming-hub/hub"
)

var made atomic.Uint64 // only ever rises: tests that run beside each other may share it

// NewID makes an id that is greater than all that this process made before it
// at the same reading of the clock. [hub.NewID] orders ids by the millisecond
// only, and a fast machine makes several in one: a test that says "the one made
// last comes first" needs ids that keep the order in which it made them.
func NewID() hub.ID {
	n := made.Add(1) & (1<<32 - 1)
	var random [10]byte
	rand.Read(random[5:])
	// The id keeps the low 4 bits of the first byte and the low 6 bits of the
	// third, which is where its version and variant stand.
	random[0], random[1], random[2] = byte(n>>30), byte(n>>22), byte(n>>16)&0x3f
	random[3], random[4] = byte(n>>8), byte(n)
	return hub.NewID(time.Now(), bytes.NewReader(random[:]))
}
