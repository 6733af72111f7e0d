package stack

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// lockDir makes sure that one stack at a time uses the folder. The kernel
// drops the lock with its process, so a stale one does not exist; the pid in
// the file is for the message only.
func lockDir(dir string) (unlock func(), err error) {
	path := filepath.Join(dir, "dev.lock")
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, fmt.Errorf("lock the state folder: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		defer f.Close()
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("lock the state folder: %w", err)
		}
		pid, _ := io.ReadAll(io.LimitReader(f, 20))
		return nil, fmt.Errorf("another hub dev (pid %s) already uses %s: stop it, or give this one --state-dir", strings.TrimSpace(string(pid)), relative(dir))
	}
	err = errors.Join(f.Truncate(0), func() error { _, err := fmt.Fprintln(f, os.Getpid()); return err }())
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("lock the state folder: %w", err)
	}
	return func() { f.Close() }, nil
}
