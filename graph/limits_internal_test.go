package graph

import (
	"reflect"
	"strings"
	"testing"

	"github.com/vektah/gqlparser/v2/ast"

	"github.com/streaming-hub/streaming-hub/graph/generated"
)

// A list that costs as much as a single object would let a document ask for
// any number of them. Those of pages are multiplied by the field with `first`.
func TestLimits_every_list_of_objects_has_a_cost(t *testing.T) {
	schema := generated.NewExecutableSchema(generated.Config{}).Schema()
	all := reflect.ValueOf(costs())
	named := func(v reflect.Value, name string) reflect.Value {
		return v.FieldByNameFunc(func(field string) bool { return strings.EqualFold(field, name) })
	}
	seen := 0
	for _, def := range schema.Types {
		if def.Kind != ast.Object || def.BuiltIn || strings.HasPrefix(def.Name, "__") || strings.HasSuffix(def.Name, "Payload") || def == schema.Subscription {
			continue
		}
		for _, f := range def.Fields {
			of := schema.Types[f.Type.Name()]
			page := strings.HasSuffix(def.Name, "Connection")
			lists := f.Type.Elem != nil && of.Kind == ast.Object && of.Name != "UserError" && !page || strings.HasSuffix(of.Name, "Connection")
			if !lists {
				continue
			}
			seen++
			cost := named(named(all, def.Name), f.Name)
			if !cost.IsValid() || cost.IsNil() {
				t.Errorf("%s.%s has no cost of its own", def.Name, f.Name)
			}
		}
	}
	if seen < 20 {
		t.Errorf("only %d lists were found", seen)
	}
}
