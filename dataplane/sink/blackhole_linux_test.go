package sink

import (
	"fmt"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/streaming-hub/streaming-hub/hub"
)

// blackHole is an address that never answers a connection: the queue of its
// listener is full, and Linux then drops what comes.
func blackHole(t *testing.T) string {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { syscall.Close(fd) })
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Listen(fd, 0); err != nil {
		t.Fatal(err)
	}
	name, err := syscall.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	addr := fmt.Sprintf("127.0.0.1:%d", name.(*syscall.SockaddrInet4).Port)
	for range 16 {
		conn, err := net.DialTimeout("tcp", addr, 200*time.Millisecond)
		if err != nil {
			return addr
		}
		t.Cleanup(func() { conn.Close() })
	}
	t.Skip("this machine's listener takes connections without end")
	return ""
}

func TestAttempt_connection_that_is_never_answered(t *testing.T) {
	for _, scheme := range []string{"http", "https"} {
		job := jobTo(scheme+"://"+blackHole(t), short)
		w := newSink(t, development)
		a := attempt(t, w, job)
		wantFailure(t, a, hub.ErrTimeout, hub.PhaseConnect)
		if a.Timings.Connect == 0 || a.Timings.Total < int32(short.Microseconds()) {
			t.Errorf("timings %+v", a.Timings)
		}
	}
}
