package graph

import (
	"testing"

	"github.com/vektah/gqlparser/v2/ast"

	"github.com/streaming-hub/streaming-hub/controlplane"
	"github.com/streaming-hub/streaming-hub/graph/generated"
	"github.com/streaming-hub/streaming-hub/hub"
)

func TestAccess_every_root_field_has_a_rule(t *testing.T) {
	schema := generated.NewExecutableSchema(generated.Config{}).Schema()
	known := map[string]bool{}
	for _, root := range []*ast.Definition{schema.Query, schema.Mutation, schema.Subscription} {
		for _, f := range root.Fields {
			name := root.Name + "." + f.Name
			known[name] = true
			action, ok := fieldActions[name]
			if !ok {
				t.Errorf("%s has no rule in fieldActions", name)
			}
			if admin := (controlplane.Actor{Role: hub.Admin}); !admin.Can(action) {
				t.Errorf("%s asks for %q, which nobody may", name, action)
			}
		}
	}
	for name := range fieldActions {
		if !known[name] {
			t.Errorf("fieldActions has %s, the schema does not", name)
		}
	}
	if (controlplane.Actor{}).Can(controlplane.Read) {
		t.Error("nobody may read")
	}
}
