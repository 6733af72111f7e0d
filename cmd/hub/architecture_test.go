package main

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"path"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/streaming-hub/streaming-hub"

// goPackage is what go list says of a package.
type goPackage struct {
	ImportPath string
	Standard   bool
	Imports    []string
	Deps       []string
}

func packages(t *testing.T) map[string]goPackage {
	t.Helper()
	cmd := exec.Command("go", "list", "-e", "-deps", "-json=ImportPath,Standard,Imports,Deps", "./...")
	cmd.Dir = "../.."
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	all := map[string]goPackage{}
	d := json.NewDecoder(strings.NewReader(string(out)))
	for {
		var p goPackage
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all[p.ImportPath] = p
	}
}

// under reports whether a package is the one named by dir, or below it.
func under(importPath, dir string) bool {
	full := module + "/" + dir
	return importPath == full || strings.HasPrefix(importPath, full+"/")
}

func TestArchitecture(t *testing.T) {
	all := packages(t)
	var ours []goPackage
	for name, p := range all {
		if name == module || strings.HasPrefix(name, module+"/") {
			ours = append(ours, p)
		}
	}

	// may not link: the packages below a folder, whatever path it takes.
	refuse := func(name, from, why string, forbidden func(string) bool) {
		t.Run(name, func(t *testing.T) {
			for _, p := range ours {
				if !under(p.ImportPath, from) {
					continue
				}
				if i := slices.IndexFunc(p.Deps, forbidden); i >= 0 {
					t.Errorf("%s links %s: %s", p.ImportPath, p.Deps[i], why)
				}
			}
		})
	}
	in := func(dirs ...string) func(string) bool {
		return func(dep string) bool {
			return slices.ContainsFunc(dirs, func(dir string) bool { return under(dep, dir) })
		}
	}
	from := func(prefixes ...string) func(string) bool {
		return func(dep string) bool {
			return slices.ContainsFunc(prefixes, func(prefix string) bool { return strings.HasPrefix(dep, prefix) })
		}
	}
	const kafka, gqlgen = "github.com/twmb/", "github.com/99designs/gqlgen"

	refuse("data_plane_never_sees_the_control_plane", "dataplane", "it must work without it", in("controlplane", "graph"))
	refuse("tracing_knows_hub_only", "tracing", "both planes use it", in("access", "dataplane", "controlplane", "graph", "db"))
	refuse("access_knows_hub_only", "access", "both planes use it", in("dataplane", "controlplane", "graph", "db"))
	refuse("control_plane_links_no_Kafka", "controlplane", "it writes intent to Postgres only", from(kafka))
	refuse("API_links_no_Kafka", "graph", "it writes intent to Postgres only", from(kafka))
	refuse("control_plane_program_links_no_Kafka", "cmd/controlplane", "it writes intent to Postgres only", from(kafka))
	refuse("data_plane_links_no_GraphQL", "cmd/dataplane", "its API is HTTP", from(gqlgen))
	for _, program := range []string{"cmd/dataplane", "cmd/controlplane"} {
		refuse(path.Base(program)+"_links_nothing_of_development", program, "it goes to production", func(dep string) bool {
			return in("dev", "db/dbtest")(dep) || from("github.com/twmb/franz-go/pkg/kfake", "github.com/testcontainers/")(dep)
		})
	}
	t.Run("db_imports_neither_plane", func(t *testing.T) {
		for _, p := range ours {
			if under(p.ImportPath, "db") && slices.ContainsFunc(p.Deps, in("dataplane", "controlplane", "graph")) {
				t.Errorf("%s links a plane", p.ImportPath)
			}
		}
	})
	t.Run("hub_knows_the_standard_library_and_idna_only", func(t *testing.T) {
		for _, p := range ours {
			if !under(p.ImportPath, "hub") {
				continue
			}
			for _, imported := range p.Imports {
				if !all[imported].Standard && !under(imported, "hub") && imported != "golang.org/x/net/idna" {
					t.Errorf("%s imports %s", p.ImportPath, imported)
				}
			}
		}
	})
	t.Run("package_names_say_what_they_provide", func(t *testing.T) {
		vague := []string{"util", "utils", "common", "helpers", "shared", "misc", "models", "types", "base"}
		for _, p := range ours {
			if slices.Contains(vague, path.Base(p.ImportPath)) {
				t.Errorf("%s has a name that says nothing", p.ImportPath)
			}
		}
	})
}
