package localpg

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// rootFor is the folder that holds the data folder and the log.
func rootFor(ctx context.Context, owner owner, dir string) (root string, throwAway bool, err error) {
	if dir != "" {
		if dir, err = filepath.Abs(dir); err != nil {
			return "", false, err
		}
		root, err = owner.home(ctx, dir)
		return root, false, err
	}
	for _, parent := range []string{os.TempDir(), "/var/tmp", "/tmp"} {
		if root, err = os.MkdirTemp(parent, "hub-postgres-"); err != nil {
			continue
		}
		if err = owner.give(root); err == nil && owner.reaches(ctx, root) {
			return root, true, nil
		}
		os.RemoveAll(root)
	}
	return "", false, fmt.Errorf("make a throw-away Postgres folder that user %s can reach: %w", owner.name, err)
}

// prepare makes the data folder when it is not there and picks the programs
// of its version.
func prepare(ctx context.Context, found []serverPrograms, owner owner, root, data string) (serverPrograms, error) {
	have, err := os.ReadFile(filepath.Join(data, "PG_VERSION"))
	switch {
	case err == nil:
		major, _ := strconv.Atoi(strings.TrimSpace(string(have)))
		for _, p := range found {
			if p.major == major {
				return p, nil
			}
		}
		return serverPrograms{}, fmt.Errorf("the data in %s needs Postgres %d and the newest found is %d: install that version or remove the folder", data, major, found[0].major)
	case errors.Is(err, fs.ErrPermission):
		return serverPrograms{}, fmt.Errorf("the data in %s belongs to another user: run as that user or as root, or remove the folder", data)
	}
	// A half-made folder never gets the final name.
	fresh := data + ".new"
	if err := os.RemoveAll(fresh); err != nil {
		return serverPrograms{}, fmt.Errorf("clear an unfinished Postgres folder: %w", err)
	}
	initdb := owner.command(ctx, root, filepath.Join(found[0].dir, "initdb"),
		"--no-sync", "-A", "trust", "-U", superuser, "--encoding=UTF8", "--locale=C", "-D", fresh)
	if out, err := initdb.CombinedOutput(); err != nil {
		return serverPrograms{}, fmt.Errorf("make a Postgres data folder: %w: %s", err, lastLine(out))
	}
	if err := os.Rename(fresh, data); err != nil {
		return serverPrograms{}, fmt.Errorf("make a Postgres data folder: %w", err)
	}
	return found[0], nil
}
