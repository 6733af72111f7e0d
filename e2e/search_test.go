package e2e

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// searched is a place in which no canary may be.
type searched struct {
	name string
	text bytes.Buffer
	// control are texts that are there: finding them shows that the search
	// looks where the canaries would be.
	control []string
}

func (s *searched) add(text string) { s.text.WriteString(text); s.text.WriteByte('\n') }

func (s *searched) check(t *testing.T) {
	text := s.text.String()
	for what, whole := range canaries {
		if form, at := find(text, whole); form != "" {
			t.Errorf("the %s is there, %s: …%s…", what, form, text[max(0, at-120):min(len(text), at+80)])
		}
	}
	if len(s.control) == 0 {
		t.Error("there is no text to show that the search works")
	}
	for _, c := range s.control {
		if form, _ := find(text, c); form == "" {
			t.Errorf("%q is not found in %d bytes, though it is there: the search looks at nothing", c, len(text))
		}
	}
}

// find looks for the beginning and the end of a secret in the notations in
// which a program could have written it.
func find(text, secret string) (form string, at int) {
	parts := []string{secret}
	if len(secret) > 20 {
		parts = []string{secret[:12], secret[len(secret)-10:]}
	}
	for _, part := range parts {
		for name, list := range notationsOf(part) {
			for _, one := range list {
				if at := strings.Index(text, one); at >= 0 {
					return name, at
				}
			}
		}
	}
	return "", 0
}

func notationsOf(s string) map[string][]string {
	hex := func(s string) []string { return []string{fmt.Sprintf("%x", s), fmt.Sprintf("%X", s)} }
	var inBase64, inBase64Hex, twice []string
	for shift := range 3 {
		one := within(s, shift)
		inBase64 = append(inBase64, one, strings.NewReplacer("+", "-", "/", "_").Replace(one))
		inBase64Hex = append(inBase64Hex, hex(one)...)
		for again := range 3 {
			twice = append(twice, within(one, again))
		}
	}
	return map[string][]string{
		"plain": {s}, "in a URL": {url.QueryEscape(s), strings.ReplaceAll(fmt.Sprintf("% x", " "+s)[2:], " ", "%")}, "in hex": hex(s),
		"in base64": inBase64, "in base64 in hex": inBase64Hex, "in base64 twice": twice,
	}
}

// within is what the base64 of a longer text has in its middle when s stands
// in it at an offset that leaves the remainder shift.
func within(s string, shift int) string {
	all := base64.StdEncoding.EncodeToString(append(make([]byte, shift), s...))
	return all[(shift*8+5)/6 : (shift+len(s))*8/6]
}

// fetch is a page of a plane, asked for with the platform's token.
func (d *desk) fetch(ctx context.Context, t *testing.T, plane, address string) *searched {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+d.token)
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	s := &searched{name: plane + " GET " + u.Path}
	text := send(t, req)
	s.add(text)
	s.control = []string{map[string]string{
		"/": "<html", "/graphiql": "<html", "/console.css": "color", "/console.js": "graphql", "/metrics": "streaming_hub_", "/readyz": "ready",
		"/admin/dlq": "observations", "/v1/events": `{"id":"fails"}`,
	}[u.Path]}
	return s
}

// dump is the whole database as pg_dump writes it.
func dump(ctx context.Context, t *testing.T, dir, dsn string) *searched {
	t.Helper()
	program := pgDump(t, dir)
	out, err := exec.CommandContext(ctx, program, "--dbname="+dsn).Output()
	if err != nil {
		t.Fatalf("%s: %v", program, err)
	}
	s := &searched{name: "the database", control: []string{"control of /header", `{"id":"fails"}`, "you sent Authorization"}}
	s.add(string(out))
	return s
}

// pgDump is the program beside that of the server, which runs in dir.
func pgDump(t *testing.T, dir string) string {
	t.Helper()
	if text, err := os.ReadFile(filepath.Join(dir, "postgres", "data", "postmaster.pid")); err == nil {
		pid, _, _ := strings.Cut(string(text), "\n")
		if _, err := strconv.Atoi(pid); err == nil {
			if server, err := os.Readlink("/proc/" + pid + "/exe"); err == nil {
				if program := filepath.Join(filepath.Dir(server), "pg_dump"); isFile(program) {
					return program
				}
			}
		}
	}
	program, err := exec.LookPath("pg_dump")
	if err != nil {
		t.Skip("there is no pg_dump, neither beside the Postgres server nor in PATH: the database is not searched (apt-get install postgresql-client)")
	}
	return program
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// logFiles are what all programs of a hub dev wrote.
func logFiles(t *testing.T, dir string) (list []*searched) {
	t.Helper()
	control := map[string]string{"dataplane.log": `"level":"INFO"`, "controlplane.log": `"level":"INFO"`, "postgres.log": "ready to accept connections"}
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || control[entry.Name()] == "" {
			return err
		}
		text, err := os.ReadFile(path)
		s := &searched{name: entry.Name(), control: []string{control[entry.Name()]}}
		s.add(string(text))
		list = append(list, s)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(list) != len(control) {
		t.Errorf("%d log files are there, want %d", len(list), len(control))
	}
	return list
}
