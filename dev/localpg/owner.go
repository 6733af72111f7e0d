package localpg

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
)

// owner is the user under whom the server runs. Postgres refuses to run as
// root, so root lends it an unprivileged user's credentials.
type owner struct {
	cred *syscall.Credential // nil: as ourselves
	name string
}

// ownerFor picks the user: ourselves unless we are root; root takes the owner
// of data that is there already, else postgres, else nobody.
func ownerFor(dir string) (owner, error) {
	if os.Geteuid() != 0 {
		return owner{}, nil
	}
	if info, err := os.Stat(dir); err == nil {
		if st, ok := info.Sys().(*syscall.Stat_t); ok && st.Uid != 0 {
			return owner{cred: &syscall.Credential{Uid: st.Uid, Gid: st.Gid}, name: "uid " + strconv.Itoa(int(st.Uid))}, nil
		}
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err1 := strconv.ParseUint(u.Uid, 10, 32)
		gid, err2 := strconv.ParseUint(u.Gid, 10, 32)
		if err1 == nil && err2 == nil && uid != 0 {
			return owner{cred: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, name: name}, nil
		}
	}
	return owner{}, errors.New("Postgres does not run as root and this machine has neither a user postgres nor nobody to lend it")
}

// command is a program of the server under the owner's credentials, in a
// process group of its own: Ctrl-C in a terminal must not reach it, since we
// stop it ourselves, last.
func (o owner) command(ctx context.Context, dir, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Credential: o.cred}
	return cmd
}

// give hands a folder to the owner.
func (o owner) give(dir string) error {
	if o.cred == nil {
		return nil
	}
	return os.Chown(dir, int(o.cred.Uid), int(o.cred.Gid))
}

// reaches reports whether the owner can enter dir, which exists: a parent that
// is closed to others (0700) shuts it out.
func (o owner) reaches(ctx context.Context, dir string) bool {
	if o.cred == nil {
		return true
	}
	return o.command(ctx, "/", "/bin/sh", "-c", `cd "$1"`, "sh", dir).Run() == nil
}

// runs reports whether the owner can execute the program.
func (o owner) runs(ctx context.Context, program string) bool {
	return o.cred == nil || o.command(ctx, "/", program, "--version").Run() == nil
}

// home makes sure that dir exists and is the owner's. When the owner cannot
// reach it, the data goes to a folder of this checkout under /var/tmp, and
// dir becomes a symbolic link to it, so that the next run and a curious
// person find it.
func (o owner) home(ctx context.Context, dir string) (string, error) {
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		dir = real
	} else if target, err := os.Readlink(dir); err == nil {
		// The link's target was cleaned away with /var/tmp: begin anew.
		dir = target
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("make the Postgres folder: %w", err)
	}
	if o.cred == nil {
		return dir, nil
	}
	if o.reaches(ctx, filepath.Dir(dir)) {
		return dir, o.give(dir)
	}
	sum := sha256.Sum256([]byte(dir))
	away := filepath.Join("/var/tmp", fmt.Sprintf("streaming-hub-%x", sum[:6]))
	if err := os.Mkdir(away, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", fmt.Errorf("make a Postgres folder that user %s can reach: %w", o.name, err)
	}
	if err := o.mine(away); err != nil {
		return "", err
	}
	if err := os.Remove(dir); err != nil { // empty: it was made just now
		return "", fmt.Errorf("put a link in place of %s, which user %s cannot reach: %w", dir, o.name, err)
	}
	if err := os.Symlink(away, dir); err != nil {
		return "", fmt.Errorf("leave a link to the Postgres folder: %w", err)
	}
	return away, o.give(away)
}

// mine refuses a folder in /var/tmp that somebody else laid there.
func (o owner) mine(dir string) error {
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok || !info.IsDir() || (st.Uid != 0 && st.Uid != o.cred.Uid) {
		return fmt.Errorf("%s is there already and belongs to somebody else: remove it", dir)
	}
	return nil
}
