package graph_test

import (
	"syscall"
	"testing"

	"github.com/streaming-hub/streaming-hub/hub"
)

// What the network takes for a reader that does not read is bounded: without
// that a stalled one would swallow thousands of items before it is noticed.
func TestSocket_send_buffer_is_small(t *testing.T) {
	w := newWorld(t)
	s := w.socket(w.token("acme", hub.Viewer))
	s.subscribe("a", `subscription { deliveryOutcomes { __typename } }`, nil)
	w.listening(1)
	raw, err := w.accepted.Load().SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var size int
	var failed error
	if err := raw.Control(func(fd uintptr) {
		size, failed = syscall.GetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_SNDBUF)
	}); err != nil || failed != nil {
		t.Fatal(err, failed)
	}
	// Linux takes twice what it is asked for, for its own needs.
	if size != 2*64<<10 {
		t.Errorf("the socket may hold %d bytes", size)
	}
}
