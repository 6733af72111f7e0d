// Package leash keeps child processes from outliving their parent, however the
// parent ends, SIGKILL included: a small shell holds the read end of a pipe
// whose write end is ours, and acts when the pipe closes. Unlike Linux's
// parent-death signal it works on every Unix, and is not fooled by Go's
// threads, whose end would count as the parent's.
package leash

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"syscall"
)

// Leash is the shell that watches.
type Leash struct {
	life io.WriteCloser
	cmd  *exec.Cmd
}

// script blocks on its input. A word says that the child has ended already,
// and whether the folders, named after signal and pid, are to be removed. The
// end of the input without a word says that we are gone: it then signals the
// child and waits for it to leave (at most 30 s) first.
const script = `
trap '' INT TERM HUP
word=
read -r word
signal=$1; pid=$2; shift 2
if [ -z "$word" ]; then
	kill -s "$signal" "$pid" 2>/dev/null
	n=0
	while kill -0 "$pid" 2>/dev/null && [ $n -lt 300 ]; do sleep 0.1; n=$((n+1)); done
fi
[ "$word" != keep ] && [ $# -gt 0 ] && rm -rf -- "$@"
exit 0
`

// Tie watches over process pid. When we are gone it gets the signal, and after
// its end the folders are removed. The shell lives in a session of its own, so
// that a signal to our process group does not end it before its work.
func Tie(pid int, signal syscall.Signal, remove ...string) (*Leash, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("tie process %d to ours: %w", pid, err)
	}
	defer r.Close()
	args := append([]string{"-c", script, "sh", name(signal), strconv.Itoa(pid)}, remove...)
	cmd := exec.Command("/bin/sh", args...)
	cmd.Dir = "/"
	cmd.Stdin = r
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		w.Close()
		return nil, fmt.Errorf("tie process %d to ours: %w", pid, err)
	}
	return &Leash{life: w, cmd: cmd}, nil
}

// Remove says that the process has ended, removes its folders and waits for
// that.
func (l *Leash) Remove() { l.dismiss("remove") }

// Keep says that the process has ended and leaves its folders alone.
func (l *Leash) Keep() { l.dismiss("keep") }

func (l *Leash) dismiss(word string) {
	// A shell that is gone already has nothing left to do.
	_, _ = io.WriteString(l.life, word+"\n")
	_ = l.life.Close()
	_ = l.cmd.Wait()
}

// name is the signal as kill -s takes it.
func name(s syscall.Signal) string {
	switch s {
	case syscall.SIGINT:
		return "INT"
	case syscall.SIGTERM:
		return "TERM"
	case syscall.SIGQUIT:
		return "QUIT"
	}
	return strconv.Itoa(int(s)) // not portable, but no caller needs it
}
