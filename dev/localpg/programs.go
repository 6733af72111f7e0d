package localpg

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"sort"
	"strconv"
)

// serverPrograms is one folder with initdb and postgres.
type serverPrograms struct {
	dir   string
	major int
}

// usualPlaces are glob patterns of folders where distributions, Homebrew,
// Postgres.app and npm's @embedded-postgres packages put server programs.
var usualPlaces = [...]string{
	"/usr/lib/postgresql/*/bin",
	"/usr/pgsql-*/bin",
	"/usr/local/pgsql/bin",
	"/opt/homebrew/opt/postgresql*/bin",
	"/usr/local/opt/postgresql*/bin",
	"/home/linuxbrew/.linuxbrew/opt/postgresql*/bin",
	"/Applications/Postgres.app/Contents/Versions/*/bin",
	"node_modules/@embedded-postgres/*/native/bin",
}

// programs finds usable server programs, newest version first.
func programs(ctx context.Context, dirs []string) []serverPrograms {
	if dirs == nil {
		if p, err := exec.LookPath("postgres"); err == nil {
			if real, err := filepath.EvalSymlinks(p); err == nil {
				p = real // a link in /usr/local/bin need not have initdb beside it
			}
			dirs = append(dirs, filepath.Dir(p))
		}
		for _, pattern := range usualPlaces {
			match, _ := filepath.Glob(pattern) // the patterns are well-formed
			dirs = append(dirs, match...)
		}
	}
	var found []serverPrograms
	seen := map[string]bool{}
	for _, dir := range dirs {
		if abs, err := filepath.Abs(dir); err == nil {
			dir = abs
		}
		if real, err := filepath.EvalSymlinks(dir); err == nil {
			dir = real
		}
		if seen[dir] {
			continue
		}
		seen[dir] = true
		if major := version(ctx, dir); major >= MinMajor {
			found = append(found, serverPrograms{dir: dir, major: major})
		}
	}
	sort.SliceStable(found, func(i, j int) bool { return found[i].major > found[j].major })
	return found
}

var versionLine = regexp.MustCompile(`\(PostgreSQL\) (\d+)`)

// version is the major version of the programs in dir, 0 when they are not
// complete or do not run.
func version(ctx context.Context, dir string) int {
	if info, err := os.Stat(filepath.Join(dir, "initdb")); err != nil || info.IsDir() {
		return 0
	}
	out, err := exec.CommandContext(ctx, filepath.Join(dir, "postgres"), "--version").Output()
	if err != nil {
		return 0
	}
	m := versionLine.FindSubmatch(out)
	if m == nil {
		return 0
	}
	major, _ := strconv.Atoi(string(m[1])) // digits only
	return major
}
