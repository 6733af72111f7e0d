package graph_test

import (
	"fmt"
	"testing"

	"github.com/vektah/gqlparser/v2/ast"

	"github.com/streaming-hub/streaming-hub/graph/generated"
	"github.com/streaming-hub/streaming-hub/hub"
)

// Of every filter of the schema, each text that is empty or that no row can
// hold is refused, by name.
func TestFilters_refuse_empty_texts(t *testing.T) {
	w := newWorld(t)
	token := w.token("", hub.Admin)
	live := w.socket(token)
	schema := generated.NewExecutableSchema(generated.Config{}).Schema()
	seen := 0
	for _, root := range []*ast.Definition{schema.Query, schema.Subscription} {
		for _, f := range root.Fields {
			filter := f.Arguments.ForName("filter")
			if filter == nil {
				continue
			}
			for _, text := range schema.Types[filter.Type.Name()].Fields {
				if kind := text.Type.NamedType; kind != "String" && kind != "ID" && kind != "URL" {
					continue
				}
				seen++
				for value, want := range map[string]string{
					"":      "filter." + text.Name + " is empty; leave it out to ask for any",
					"a\x00": "filter." + text.Name + " is not plain text",
				} {
					query := fmt.Sprintf(`($f: %s) { %s(filter: $f) { __typename } }`, filter.Type.Name(), f.Name)
					variables := map[string]any{"f": map[string]any{text.Name: value}}
					t.Run(fmt.Sprintf("%s/%s=%q", f.Name, text.Name, value), func(t *testing.T) {
						var message, code any
						if root == schema.Subscription {
							live.subscribe("a", "subscription "+query, variables)
							e := at(live.read(), "payload", "errors", 0)
							message, code = at(e, "message"), at(e, "extensions", "code")
							if m := live.read(); m["type"] != "complete" {
								t.Fatalf("got %v", m)
							}
						} else if a := w.ask(token, "query "+query, variables); len(a.Errors) > 0 {
							message, code = a.Errors[0].Message, a.code()
						}
						if message != want || code != "BAD_USER_INPUT" {
							t.Errorf("%v %v", code, message)
						}
					})
				}
			}
		}
	}
	if seen < 30 {
		t.Errorf("only %d texts were found", seen)
	}
}
