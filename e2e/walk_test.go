package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// schemaTypes are the types of the API, as it describes itself.
type schemaTypes map[string]struct {
	Kind, Name string
	Fields     []struct {
		Name string
		Args []struct {
			Name         string
			DefaultValue *string
			Type         schemaType
		}
		Type schemaType
	}
}

type schemaType struct {
	Kind, Name string
	OfType     *schemaType
}

// bare is the type without lists and non-nulls around it.
func (s schemaType) bare() schemaType {
	for s.OfType != nil {
		s = *s.OfType
	}
	return s
}

// walkDepth is how many objects below those of a list are shown.
const walkDepth = 3

// walk reads every list of the API to its end, with all that can be asked for
// of each object.
func (d *desk) walk(ctx context.Context, t *testing.T) *searched {
	t.Helper()
	var schema struct {
		Schema struct {
			QueryType struct{ Name string }
			Types     []json.RawMessage
		} `json:"__schema"`
	}
	d.ask(ctx, t, `{ __schema { queryType { name } types { kind name fields { name
		args { name defaultValue type { kind name ofType { kind name ofType { kind name } } } }
		type { kind name ofType { kind name ofType { kind name ofType { kind name } } } } } } } }`, nil, &schema)
	types := schemaTypes{}
	for _, raw := range schema.Schema.Types {
		one := types["" /* its zero value */]
		if err := json.Unmarshal(raw, &one); err != nil {
			t.Fatal(err)
		}
		types[one.Name] = one
	}
	s := &searched{name: "every list of the API", control: []string{"control of /header", "you sent Authorization", `{"id":"fails"}`}}
	lists := 0
	for _, root := range types[schema.Schema.QueryType.Name].Fields {
		if !strings.HasSuffix(root.Type.bare().Name, "Connection") {
			continue
		}
		lists++
		query := fmt.Sprintf(`query($after: String) { %s(first: 4, after: $after) { pageInfo { hasNextPage endCursor } nodes %s } }`,
			root.Name, types.selection(nodesOf(types, root.Type.bare().Name), walkDepth))
		after := any(nil)
		rows := 0
		for {
			var page map[string]json.RawMessage
			d.ask(ctx, t, query, map[string]any{"after": after}, &page)
			s.add(string(page[root.Name]))
			var list struct {
				PageInfo struct {
					HasNextPage bool
					EndCursor   *string
				}
				Nodes []json.RawMessage
			}
			if err := json.Unmarshal(page[root.Name], &list); err != nil {
				t.Fatal(err)
			}
			rows += len(list.Nodes)
			if !list.PageInfo.HasNextPage || list.PageInfo.EndCursor == nil {
				break
			}
			after = *list.PageInfo.EndCursor
		}
		t.Logf("%s has %d", root.Name, rows)
	}
	if lists < 9 {
		t.Errorf("only %d lists were found in the schema", lists)
	}
	return s
}

func nodesOf(types schemaTypes, connection string) string {
	for _, f := range types[connection].Fields {
		if f.Name == "nodes" {
			return f.Type.bare().Name
		}
	}
	return ""
}

// selection is everything of a type that can be asked for without an argument,
// objects in it to a depth.
func (types schemaTypes) selection(name string, depth int) string {
	var b strings.Builder
	b.WriteString("{ __typename")
	for _, f := range types[name].Fields {
		first := ""
		needed := false
		for _, a := range f.Args {
			if a.Name == "first" {
				first = "(first: 2)"
			}
			needed = needed || a.Type.Kind == "NON_NULL" && a.DefaultValue == nil
		}
		bare := f.Type.bare()
		switch {
		case needed:
		case bare.Kind == "SCALAR" || bare.Kind == "ENUM":
			b.WriteString(" " + f.Name)
		case bare.Kind != "OBJECT" || depth == 0:
		case strings.HasSuffix(bare.Name, "Connection"):
			b.WriteString(" " + f.Name + first + " { nodes " + types.selection(nodesOf(types, bare.Name), depth-1) + " }")
		default:
			b.WriteString(" " + f.Name + first + " " + types.selection(bare.Name, depth-1))
		}
	}
	b.WriteString(" }")
	return b.String()
}
