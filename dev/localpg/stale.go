package localpg

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// orphanTimeout is how long a server of an earlier run, whose owner was
// killed, may take to shut down before we give up waiting for its data.
const orphanTimeout = 15 * time.Second

// readPidFile is the pid and the status word of the data folder's
// postmaster.pid; zero values when there is none.
func readPidFile(data string) (pid int, status string) {
	text, err := os.ReadFile(filepath.Join(data, "postmaster.pid"))
	if err != nil {
		return 0, ""
	}
	lines := strings.Split(string(text), "\n")
	pid, _ = strconv.Atoi(strings.TrimSpace(lines[0]))
	const statusLine = 7 // the eighth, see Postgres' miscadmin.h
	if len(lines) > statusLine {
		status = strings.TrimSpace(lines[statusLine])
	}
	return pid, status
}

// clearStale deals with a postmaster.pid of an earlier run. A server that is
// still at work gets time to end. A file whose process is gone, or whose pid
// now belongs to another program (common in containers, where pids restart),
// is removed: Postgres by itself would refuse to start on the latter.
func clearStale(ctx context.Context, data string) error {
	ctx, cancel := context.WithTimeout(ctx, orphanTimeout)
	defer cancel()
	tick := time.NewTicker(poll)
	defer tick.Stop()
	for {
		pid, _ := readPidFile(data)
		if pid == 0 || !servesData(pid, data) {
			err := os.Remove(filepath.Join(data, "postmaster.pid"))
			if err != nil && !errors.Is(err, os.ErrNotExist) {
				return fmt.Errorf("remove a stale Postgres lock: %w", err)
			}
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("a Postgres (pid %d) is already running on %s: end the program that uses it, or stop it with: kill -INT %d", pid, data, pid)
		case <-tick.C:
		}
	}
}

// servesData reports whether process pid is a Postgres on this data folder.
func servesData(pid int, data string) bool {
	if err := syscall.Kill(pid, 0); errors.Is(err, syscall.ESRCH) {
		return false
	}
	line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil {
		if line, err = exec.Command("ps", "-o", "command=", "-p", strconv.Itoa(pid)).Output(); err != nil {
			// Nobody can tell; Postgres' own check of the lock decides.
			return false
		}
	}
	return strings.Contains(string(line), "postgres") && strings.Contains(string(line), data)
}
