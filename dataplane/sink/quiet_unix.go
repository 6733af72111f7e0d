//go:build unix

package sink

import "syscall"

// nothingToRead looks into a socket without taking anything out of it. Go's
// sockets never block.
func nothingToRead(fd uintptr) bool {
	var one [1]byte
	for {
		_, _, err := syscall.Recvfrom(int(fd), one[:], syscall.MSG_PEEK)
		if err != syscall.EINTR {
			return err == syscall.EAGAIN || err == syscall.EWOULDBLOCK
		}
	}
}
