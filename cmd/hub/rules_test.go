package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestRules_name_tests_that_exist keeps docs/rules.md honest: each test and
// each row that it names is there.
func TestRules_name_tests_that_exist(t *testing.T) {
	text, err := os.ReadFile("../../docs/rules.md")
	if err != nil {
		t.Fatal(err)
	}
	var tests strings.Builder
	err = filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (strings.HasPrefix(d.Name(), ".") && d.Name() != ".." || d.Name() == "node_modules") {
			return filepath.SkipDir
		}
		if strings.HasSuffix(path, "_test.go") || strings.Contains(path, "testdata") && strings.HasSuffix(path, ".json") {
			source, err := os.ReadFile(path)
			tests.Write(source)
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	source := tests.String()
	named := regexp.MustCompile("`((?:Test|Fuzz|Benchmark)[A-Za-z0-9_]+)(?:/([A-Za-z0-9_*-]+))?`").FindAllStringSubmatch(string(text), -1)
	if len(named) < 100 {
		t.Fatalf("docs/rules.md names %d tests; is the pattern still right?", len(named))
	}
	for _, n := range named {
		if !strings.Contains(source, "func "+n[1]+"(") {
			t.Errorf("docs/rules.md names %s, which does not exist", n[1])
		}
		if row := strings.TrimSuffix(n[2], "*"); row != "" && !strings.Contains(source, row) {
			t.Errorf("docs/rules.md names the row %s of %s, which does not exist", n[2], n[1])
		}
	}
}
