package graph_test

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/vektah/gqlparser/v2/ast"

	"github.com/streaming-hub/streaming-hub/graph/generated"
)

// maker makes a call of any root field from the schema alone.
type maker struct {
	t      *testing.T
	schema *ast.Schema
	node   string // the type that node(id:) is asked for
}

func newMaker(t *testing.T) *maker {
	return &maker{t: t, schema: generated.NewExecutableSchema(generated.Config{}).Schema()}
}

// roots are the fields of Query, Mutation and Subscription.
func (m *maker) roots(of ...*ast.Definition) (list []rootField) {
	for _, def := range of {
		for _, f := range def.Fields {
			if !strings.HasPrefix(f.Name, "__") {
				list = append(list, rootField{def.Name, f})
			}
		}
	}
	return list
}

type rootField struct {
	root string
	*ast.FieldDefinition
}

// spot is a place in the arguments of a field that takes an id.
type spot struct {
	path []string // from the argument in; a list is passed through
	kind string   // prefix of the ids, or tenant
}

func (s spot) String() string { return strings.Join(s.path, ".") }

// prefixes say which ids a name stands for where the description does not.
var prefixes = map[string]string{
	"eventSubscriptionId": "sub_", "eventId": "evt_", "destinationId": "dst_", "deliveryId": "dlv_", "actorId": "tok_",
}

var prefixInWords = regexp.MustCompile("`([a-z]{3}_)…`")

// anyKind is the kind of node(id:), which takes all.
const anyKind = "any"

// spots are all places of a field that take an id or a tenant, optional ones
// too.
func (m *maker) spots(f rootField) (list []spot) {
	for _, a := range f.Arguments {
		list = append(list, m.spotsIn(a.Name, a.Type, a.Description, []string{a.Name}, 0)...)
	}
	return list
}

func (m *maker) spotsIn(name string, of *ast.Type, description string, path []string, depth int) (list []spot) {
	path = slices.Clone(path)
	if of.Name() == "String" && name == "tenantId" {
		return []spot{{path, "tenant"}}
	}
	if of.Name() == "ID" {
		found := prefixInWords.FindAllStringSubmatch(description, -1)
		switch {
		case len(found) > 1:
			return []spot{{path, anyKind}}
		case len(found) == 1:
			return []spot{{path, found[0][1]}}
		case prefixes[name] != "":
			return []spot{{path, prefixes[name]}}
		}
		m.t.Errorf("%s takes an ID and its description does not say of which kind, as in `sub_…`", strings.Join(path, "."))
		return nil
	}
	def := m.schema.Types[of.Name()]
	if def.Kind != ast.InputObject || depth > 4 {
		return nil
	}
	for _, f := range def.Fields {
		list = append(list, m.spotsIn(f.Name, f.Type, f.Description, append(path, f.Name), depth+1)...)
	}
	return list
}

// samples are values that a field of an input accepts, where its type does not
// tell.
var samples = map[string]any{
	"CreateEventSubscriptionInput.name":       "made by the matrix",
	"CreateEventSubscriptionInput.eventTypes": []any{"loan.approved"},
	"DestinationInput.url":                    "https://example.com/matrix",
	"CreateApiTokenInput.name":                "made by the matrix",
	"CreateApiTokenInput.role":                "VIEWER",
	"RetryPolicyInput":                        map[string]any{"curve": true},
}

// sample is a value of a type with what is required, and nothing else.
func (m *maker) sample(of *ast.Type) any {
	if of.Elem != nil {
		return []any{m.sample(of.Elem)}
	}
	if v, ok := samples[of.NamedType]; ok {
		return v
	}
	def := m.schema.Types[of.NamedType]
	switch def.Kind {
	case ast.Enum:
		return def.EnumValues[0].Name
	case ast.InputObject:
		out := map[string]any{}
		for _, f := range def.Fields {
			name := def.Name + "." + f.Name
			if v, ok := samples[name]; ok {
				out[f.Name] = v
			} else if f.Type.NonNull && f.DefaultValue == nil {
				out[f.Name] = m.sample(f.Type)
			}
		}
		return out
	}
	v, ok := map[string]any{
		"ID": "none", "String": "text", "Int": 1, "BigInt": "1", "Boolean": true, "Duration": "PT10S",
		"DateTime": "2026-01-31T12:04:05Z", "URL": "https://example.com/matrix", "JSON": map[string]any{},
	}[of.NamedType]
	if !ok {
		m.t.Errorf("the matrix knows no value of type %s: give it one in sample", of.NamedType)
	}
	return v
}

// variables are those of a call with ids at some places.
func (m *maker) variables(f rootField, at map[string]any) map[string]any {
	vars := map[string]any{}
	for _, a := range f.Arguments {
		if a.Type.NonNull && a.DefaultValue == nil {
			vars[a.Name] = m.sample(a.Type)
		}
	}
	for path, v := range at {
		parts := strings.Split(path, ".")
		def := f.Arguments.ForName(parts[0])
		vars[parts[0]] = m.put(vars[parts[0]], def.Type, parts[1:], v)
	}
	return vars
}

// put sets a value inside another one, along a path.
func (m *maker) put(in any, of *ast.Type, path []string, v any) any {
	if of.Elem != nil {
		return []any{m.put(nil, of.Elem, path, v)}
	}
	if len(path) == 0 {
		return v
	}
	object, ok := in.(map[string]any)
	if !ok {
		object, _ = m.sample(&ast.Type{NamedType: of.NamedType}).(map[string]any)
	}
	object = cloneObject(object)
	object[path[0]] = m.put(object[path[0]], m.schema.Types[of.NamedType].Fields.ForName(path[0]).Type, path[1:], v)
	return object
}

func cloneObject(o map[string]any) map[string]any {
	out := map[string]any{}
	for k, v := range o {
		out[k] = v
	}
	return out
}

// document is the text of a call that selects all there is, a few levels deep.
func (m *maker) document(f rootField, vars map[string]any) string {
	var declared, given []string
	for _, a := range f.Arguments {
		if _, used := vars[a.Name]; used {
			declared = append(declared, "$"+a.Name+": "+a.Type.String())
			given = append(given, a.Name+": $"+a.Name)
		}
	}
	brackets := func(list []string) string {
		if len(list) == 0 {
			return ""
		}
		return "(" + strings.Join(list, ", ") + ")"
	}
	return fmt.Sprintf("%s Matrix%s { %s%s %s }", strings.ToLower(f.root), brackets(declared), f.Name, brackets(given), m.selection(f.Type, 4))
}

func (m *maker) selection(of *ast.Type, depth int) string {
	def := m.schema.Types[of.Name()]
	switch def.Kind {
	case ast.Scalar, ast.Enum:
		return ""
	case ast.Union, ast.Interface:
		parts := []string{"__typename"}
		for _, one := range m.schema.GetPossibleTypes(def) {
			// The types of Node have fields of the same name that differ.
			if inner := m.selection(&ast.Type{NamedType: one.Name}, depth-1); inner != "" && (def.Kind == ast.Union || one.Name == m.node) {
				parts = append(parts, "... on "+one.Name+" "+inner)
			}
		}
		return "{ " + strings.Join(parts, " ") + " }"
	}
	if depth == 0 {
		return ""
	}
	var parts []string
	for _, f := range def.Fields {
		if strings.HasPrefix(f.Name, "__") || slices.ContainsFunc(f.Arguments, func(a *ast.ArgumentDefinition) bool { return a.Type.NonNull && a.DefaultValue == nil }) {
			continue
		}
		args := ""
		if f.Arguments.ForName("first") != nil {
			args = "(first: 1)"
		}
		inner := m.selection(f.Type, depth-1)
		if kind := m.schema.Types[f.Type.Name()].Kind; inner != "" || kind == ast.Scalar || kind == ast.Enum {
			parts = append(parts, f.Name+args+" "+inner)
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return "{ " + strings.Join(parts, " ") + " }"
}

// kinds are the prefixes of all ids, with the types of their objects.
func (m *maker) kinds() map[string]string {
	kinds := map[string]string{}
	for _, one := range m.schema.GetPossibleTypes(m.schema.Types["Node"]) {
		found := prefixInWords.FindStringSubmatch(one.Fields.ForName("id").Description)
		if found == nil {
			m.t.Errorf("the description of %s.id does not show its prefix, as in `sub_…`", one.Name)
			continue
		}
		kinds[found[1]] = one.Name
	}
	return kinds
}

// body is the request of a call.
func (m *maker) body(f rootField, vars map[string]any) string {
	raw, err := json.Marshal(map[string]any{"query": m.document(f, vars), "variables": vars})
	if err != nil {
		m.t.Fatal(err)
	}
	return string(raw)
}
