package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/vektah/gqlparser/v2"
	"github.com/vektah/gqlparser/v2/ast"

	"github.com/streaming-hub/streaming-hub/cmd/internal/settings"
)

const root = "../.."

// documents are the texts for people, by their path from the root.
func documents(t *testing.T) map[string]string {
	t.Helper()
	paths := []string{"README.md", "ARCHITECTURE.md"}
	for _, pattern := range []string{"docs/*.md", "docs/adr/*.md"} {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range found {
			paths = append(paths, strings.TrimPrefix(filepath.ToSlash(f), root+"/"))
		}
	}
	texts := map[string]string{}
	for _, p := range paths {
		text, err := os.ReadFile(filepath.Join(root, p))
		if err != nil {
			t.Fatal(err)
		}
		texts[p] = string(text)
	}
	return texts
}

func exists(path string) bool {
	_, err := os.Stat(filepath.Join(root, path))
	return err == nil
}

func TestDocs_links_lead_somewhere(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)#]+)(?:#[^)]*)?\)`)
	for doc, text := range documents(t) {
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			if strings.HasPrefix(m[1], "https://") {
				continue
			}
			if !exists(filepath.Join(filepath.Dir(doc), m[1])) {
				t.Errorf("%s links to %s, which does not exist", doc, m[1])
			}
		}
	}
}

// The operations in the documents are what a stranger pastes into GraphiQL.
func TestDocs_operations_fit_the_schema(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "schema.graphql"))
	if err != nil {
		t.Fatal(err)
	}
	schema, err := gqlparser.LoadSchema(&ast.Source{Name: "schema.graphql", Input: string(text)})
	if err != nil {
		t.Fatal(err)
	}
	block := regexp.MustCompile("(?s)```graphql\n(.*?)```")
	n := 0
	for doc, text := range documents(t) {
		for _, m := range block.FindAllStringSubmatch(text, -1) {
			n++
			if _, errs := gqlparser.LoadQuery(schema, m[1]); len(errs) > 0 {
				t.Errorf("%s has an operation that the API refuses: %v\n%s", doc, errs, m[1])
			}
		}
	}
	if n == 0 {
		t.Error("no operation was found; is the pattern still right?")
	}
}

// ARCHITECTURE.md walks an event through files and functions by name.
func TestDocs_the_walk_names_what_is_there(t *testing.T) {
	text := documents(t)["ARCHITECTURE.md"]
	step := regexp.MustCompile("`([a-z]+/[a-z0-9/_]+\\.go)`(?:, `([A-Za-z]+)`)?")
	named := step.FindAllStringSubmatch(text, -1)
	if len(named) < 12 {
		t.Fatalf("ARCHITECTURE.md names %d files; is the pattern still right?", len(named))
	}
	for _, m := range named {
		source, err := os.ReadFile(filepath.Join(root, m[1]))
		if err != nil {
			t.Errorf("ARCHITECTURE.md names %s: %v", m[1], err)
			continue
		}
		if m[2] != "" && !regexp.MustCompile(`(?m)^func (\([^)]*\) )?`+m[2]+`\(`).Match(source) {
			t.Errorf("ARCHITECTURE.md names %s in %s, which has no such function", m[2], m[1])
		}
	}
}

func TestDocs_settings_are_those_of_the_table(t *testing.T) {
	const doc = "docs/settings.md"
	lines := strings.Split(documents(t)[doc], "\n")
	for want := range strings.Lines(settings.Markdown()) {
		if want = strings.TrimSpace(want); !slices.Contains(lines, want) {
			t.Errorf("%s lacks this line (make settings-doc prints the table):\n%s", doc, want)
		}
	}
	for _, line := range lines {
		if strings.HasPrefix(line, "| `") && !strings.Contains(settings.Markdown(), line) {
			t.Errorf("%s has a line that is not in the table:\n%s", doc, line)
		}
	}
}
