// Package breaking finds what a change of the GraphQL schema breaks for those
// who use the API: a query that was valid and is refused now, an answer in a
// form that its reader does not expect, or a call that means something else
// now. What is only added breaks nobody.
//
//	breaking.go  types and what they hold
//	value.go     types of values, arguments and defaults
//	allowed.go   the list of breaking changes that are meant
package breaking

import (
	"fmt"
	"slices"
	"strings"

	"github.com/vektah/gqlparser/v2/ast"
)

// Change is a breaking difference.
type Change struct {
	Rule   string // one of the constants below
	At     string // Type, Type.field, Type.field(argument:), Enum.VALUE, Union.Member or @directive
	Detail string // what it was and is, for people; may be empty
}

// Rules that a change can break.
const (
	RootChanged        = "root_changed"
	TypeRemoved        = "type_removed"
	KindChanged        = "kind_changed"
	ScalarChanged      = "scalar_changed" // @specifiedBy says another format
	InterfaceRemoved   = "interface_removed"
	FieldRemoved       = "field_removed"
	FieldTypeChanged   = "field_type_changed"
	FieldNullable      = "field_became_nullable"
	ArgumentRemoved    = "argument_removed"
	ArgumentChanged    = "argument_type_changed"
	ArgumentNotNull    = "argument_became_non_null"
	ArgumentRequired   = "required_argument_added"
	EnumValueRemoved   = "enum_value_removed"
	UnionMemberRemoved = "union_member_removed"
	InputFieldRemoved  = "input_field_removed"
	InputFieldChanged  = "input_field_type_changed"
	InputFieldNotNull  = "input_field_became_non_null"
	InputFieldRequired = "required_input_field_added"
	OneOfAdded         = "one_of_added"
	DefaultChanged     = "default_changed" // what is left out means something else now
	DirectiveRemoved   = "directive_removed"
	DirectiveNarrowed  = "directive_narrowed" // it may stand in fewer places
)

func (c Change) String() string {
	if c.Detail == "" {
		return c.Rule + " " + c.At
	}
	return c.Rule + " " + c.At + " (" + c.Detail + ")"
}

// Changes are the breaking differences between a schema and the one before it,
// sorted by place.
func Changes(before, after *ast.Schema) []Change {
	d := &difference{}
	d.root("query", before.Query, after.Query)
	d.root("mutation", before.Mutation, after.Mutation)
	d.root("subscription", before.Subscription, after.Subscription)
	for name, was := range before.Types {
		if is := after.Types[name]; is == nil {
			d.add(TypeRemoved, name, "")
		} else {
			d.definition(was, is)
		}
	}
	for name, was := range before.Directives {
		d.directive(was, after.Directives[name])
	}
	slices.SortFunc(d.found, func(a, b Change) int {
		return strings.Compare(a.At+" "+a.Rule, b.At+" "+b.Rule)
	})
	return d.found
}

// difference collects what is found.
type difference struct{ found []Change }

func (d *difference) add(rule, at, format string, args ...any) {
	d.found = append(d.found, Change{Rule: rule, At: at, Detail: fmt.Sprintf(format, args...)})
}

// root compares the types of a kind of operation; a type that is gone is told
// as such.
func (d *difference) root(operation string, was, is *ast.Definition) {
	switch {
	case was == nil:
	case is == nil:
		d.add(RootChanged, operation, "it was %s", was.Name)
	case was.Name != is.Name:
		d.add(RootChanged, operation, "%s → %s", was.Name, is.Name)
	}
}

func (d *difference) definition(was, is *ast.Definition) {
	if was.Kind != is.Kind {
		d.add(KindChanged, was.Name, "%s → %s", was.Kind, is.Kind)
		return
	}
	switch was.Kind {
	case ast.Scalar:
		if a, b := specification(was), specification(is); a != b {
			d.add(ScalarChanged, was.Name, "%s → %s", a, b)
		}
	case ast.Object, ast.Interface:
		d.gone(InterfaceRemoved, was.Name, was.Interfaces, is.Interfaces)
		for _, f := range was.Fields {
			d.field(was.Name, f, is.Fields.ForName(f.Name))
		}
	case ast.Union:
		d.gone(UnionMemberRemoved, was.Name, was.Types, is.Types)
	case ast.Enum:
		d.gone(EnumValueRemoved, was.Name, valuesOf(was), valuesOf(is))
	case ast.InputObject:
		d.input(was, is)
	}
}

// gone tells which names are missing.
func (d *difference) gone(rule, at string, was, is []string) {
	for _, name := range was {
		if !slices.Contains(is, name) {
			d.add(rule, at+"."+name, "")
		}
	}
}

func valuesOf(enum *ast.Definition) (names []string) {
	for _, v := range enum.EnumValues {
		names = append(names, v.Name)
	}
	return names
}

// specification is the format of a scalar, "" when nothing says it.
func specification(scalar *ast.Definition) string {
	by := scalar.Directives.ForName("specifiedBy")
	if by == nil || by.Arguments.ForName("url") == nil {
		return ""
	}
	return by.Arguments.ForName("url").Value.Raw
}

func (d *difference) field(owner string, was, is *ast.FieldDefinition) {
	at := owner + "." + was.Name
	if is == nil {
		d.add(FieldRemoved, at, "")
		return
	}
	switch {
	case !sameShape(was.Type, is.Type):
		d.add(FieldTypeChanged, at, "%s → %s", was.Type, is.Type)
	case losesNonNull(was.Type, is.Type):
		d.add(FieldNullable, at, "%s → %s", was.Type, is.Type)
	}
	d.arguments(at, was.Arguments, is.Arguments)
}

func (d *difference) directive(was, is *ast.DirectiveDefinition) {
	at := "@" + was.Name
	if !executable(was) {
		return // of no concern to who sends documents
	}
	if is == nil {
		d.add(DirectiveRemoved, at, "")
		return
	}
	for _, l := range was.Locations {
		if !slices.Contains(is.Locations, l) {
			d.add(DirectiveNarrowed, at, "no more at %s", l)
		}
	}
	if was.IsRepeatable && !is.IsRepeatable {
		d.add(DirectiveNarrowed, at, "no more repeatable")
	}
	d.arguments(at, was.Arguments, is.Arguments)
}

func executable(def *ast.DirectiveDefinition) bool {
	return slices.ContainsFunc(def.Locations, func(l ast.DirectiveLocation) bool {
		switch l {
		case ast.LocationQuery, ast.LocationMutation, ast.LocationSubscription, ast.LocationField,
			ast.LocationFragmentDefinition, ast.LocationFragmentSpread, ast.LocationInlineFragment, ast.LocationVariableDefinition:
			return true
		}
		return false
	})
}
