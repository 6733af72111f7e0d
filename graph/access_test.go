package graph

import (
	"regexp"
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
			if viewer := (controlplane.Actor{Role: hub.Viewer}); root == schema.Mutation && viewer.Can(action) {
				t.Errorf("%s asks for %q, which a viewer may", name, action)
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

// sensitive are names of fields that need a rule of their own: that of a type
// for ADMIN, or one in hiddenFields.
var sensitive = regexp.MustCompile(`(?i)secret|token|password|hash|errormessage|credential$|personal|email`)

// harmless are fields with such a name that show nothing: why stands beside.
var harmless = map[string]string{
	"CreateEventSubscriptionPayload.signingSecret": "shown once to whom it was made for",
	"UpdateEventSubscriptionPayload.signingSecret": "shown once to whom it was made for",
	"Destination.credential":                       "kind and names, never the credential",
}

func TestAccess_every_field_has_a_rule(t *testing.T) {
	schema := generated.NewExecutableSchema(generated.Config{}).Schema()
	for _, def := range schema.Types {
		if def.Kind != ast.Object || def.BuiltIn || def == schema.Query || def == schema.Mutation || def == schema.Subscription {
			continue
		}
		action, ok := typeActions[def.Name]
		if !ok {
			t.Errorf("type %s has no rule in typeActions: say which right its fields need", def.Name)
			continue
		}
		for _, f := range def.Fields {
			further, hidden := hiddenFields[field{def.Name, f.Name}]
			if hidden && f.Type.NonNull {
				t.Errorf("%s.%s is hidden from some and cannot be null", def.Name, f.Name)
			}
			operator := controlplane.Actor{Role: hub.Operator}
			name := def.Name + "." + f.Name
			if sensitive.MatchString(f.Name) && operator.Can(action) && (!hidden || operator.Can(further)) && harmless[name] == "" {
				t.Errorf("%s sounds like a secret or personal data: give it a rule in hiddenFields", name)
			}
		}
	}
	for name := range typeActions {
		if schema.Types[name] == nil {
			t.Errorf("typeActions has %s, the schema does not", name)
		}
	}
	for f := range hiddenFields {
		if def := schema.Types[f.object]; def == nil || def.Fields.ForName(f.name) == nil {
			t.Errorf("hiddenFields has %s.%s, the schema does not", f.object, f.name)
		}
	}
}

// What is shown once is not kept in a form that can be read.
func TestAccess_every_secret_of_a_payload_is_known(t *testing.T) {
	schema := generated.NewExecutableSchema(generated.Config{}).Schema()
	for _, m := range schema.Mutation.Fields {
		for _, f := range schema.Types[m.Type.Name()].Fields {
			says := regexp.MustCompile(`shown (only|once)|never again`).MatchString(f.Description)
			if known := shownOnce[goName(f.Name)]; says != known {
				t.Errorf("%s.%s: its description says %t that it is shown once, shownOnce %t", m.Type.Name(), f.Name, says, known)
			}
		}
	}
}
