package breaking

import (
	"slices"
	"strings"
	"testing"

	"github.com/vektah/gqlparser/v2"
	"github.com/vektah/gqlparser/v2/ast"
)

// base is a schema with one of each; the tests change a line of it.
const base = `
scalar Moment @specifiedBy(url: "https://example.com/moment")
interface Node { id: ID! }
interface Named { name: String }
type Thing implements Node & Named {
  id: ID!
  name: String
  size: Int!
  tags: [String!]!
  at: Moment
}
type Other implements Node { id: ID! }
union Item = Thing | Other
enum State { NEW OLD }
input Wish {
  name: String!
  size: Int = 3
  note: String
  tags: [String!]
}
directive @live(every: Int) repeatable on FIELD | QUERY
directive @owner(name: String) on OBJECT
type Query {
  thing(id: ID!, deep: Boolean = false, first: Int! = 20, tag: String): Thing
  items(state: [State!]): [Item!]!
}
type Mutation { wish(input: Wish!): Thing }
`

func schemaOf(t *testing.T, text string) *ast.Schema {
	t.Helper()
	s, err := gqlparser.LoadSchema(&ast.Source{Input: text})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestChanges(t *testing.T) {
	for _, c := range []struct {
		name, from, to string
		want           string // changes, parted by commas
	}{
		{"nothing", "", "", ""},

		{"type_removed", "union Item = Thing | Other", "union Item = Thing", "union_member_removed Item.Other"},
		{"type_and_its_uses_removed", "items(state: [State!]): [Item!]!", "items: [Item!]!", "argument_removed Query.items(state:)"},
		{"object_becomes_interface", "type Other implements Node { id: ID! }\nunion Item = Thing | Other", "interface Other implements Node { id: ID! }\nunion Item = Thing",
			"union_member_removed Item.Other, kind_changed Other"},
		{"root_removed", "type Mutation { wish(input: Wish!): Thing }", "", "type_removed Mutation, root_changed mutation"},
		{"root_renamed", "type Mutation { wish(input: Wish!): Thing }", "type Change { wish(input: Wish!): Thing }\nschema { query: Query mutation: Change }",
			"type_removed Mutation, root_changed mutation"},
		{"root_added", "type Mutation {", "type Subscription { thing: Thing }\ntype Mutation {", ""},
		{"type_added", "enum State", "type More { id: ID! }\nenum State", ""},
		{"scalar_of_another_format", "https://example.com/moment", "https://example.com/instant", "scalar_changed Moment"},
		{"scalar_without_a_format", ` @specifiedBy(url: "https://example.com/moment")`, "", "scalar_changed Moment"},
		{"description_is_no_change", "enum State", `"What it is." enum State`, ""},

		{"field_removed", "size: Int!\n", "", "field_removed Thing.size"},
		{"field_added", "size: Int!\n", "size: Int!\nweight: Int!\n", ""},
		{"field_of_another_type", "size: Int!\n", "size: Float!\n", "field_type_changed Thing.size"},
		{"field_becomes_a_list", "at: Moment", "at: [Moment]", "field_type_changed Thing.at"},
		{"list_becomes_a_field", "tags: [String!]!\n", "tags: String!\n", "field_type_changed Thing.tags"},
		{"field_becomes_nullable", "size: Int!\n", "size: Int\n", "field_became_nullable Thing.size"},
		{"items_become_nullable", "tags: [String!]!\n", "tags: [String]!\n", "field_became_nullable Thing.tags"},
		{"list_becomes_nullable", "tags: [String!]!\n", "tags: [String!]\n", "field_became_nullable Thing.tags"},
		{"field_becomes_non_null", "at: Moment", "at: Moment!", ""},
		{"interface_removed", "implements Node & Named", "implements Node", "interface_removed Thing.Named"},
		{"interface_added", "type Other implements Node { id: ID! }", "type Other implements Node & Named { id: ID! name: String }", ""},

		{"enum_value_removed", "NEW OLD", "NEW", "enum_value_removed State.OLD"},
		{"enum_value_renamed", "NEW OLD", "NEW ANCIENT", "enum_value_removed State.OLD"},
		{"enum_value_added", "NEW OLD", "NEW OLD ANCIENT", ""},
		{"enum_values_in_another_order", "NEW OLD", "OLD NEW", ""},
		{"union_member_added", "type Other implements Node { id: ID! }\nunion Item = Thing | Other", "type Other implements Node { id: ID! }\ntype More { id: ID! }\nunion Item = Thing | Other | More", ""},

		{"argument_removed", ", tag: String)", ")", "argument_removed Query.thing(tag:)"},
		{"argument_of_another_type", "tag: String)", "tag: Int)", "argument_type_changed Query.thing(tag:)"},
		{"argument_becomes_a_list", "tag: String)", "tag: [String])", "argument_type_changed Query.thing(tag:)"},
		{"argument_becomes_non_null", "tag: String)", "tag: String!)", "argument_became_non_null Query.thing(tag:)"},
		{"items_of_an_argument_take_null", "state: [State!]", "state: [State]", ""},
		{"items_of_an_argument_become_non_null", "tags: [String!]\n", "tags: [String!]!\n", "input_field_became_non_null Wish.tags"},
		{"argument_becomes_nullable", "thing(id: ID!", "thing(id: ID", ""},
		{"needed_argument_gets_a_default", "thing(id: ID!", `thing(id: ID! = "x"`, ""},
		{"optional_argument_added", "tag: String)", "tag: String, more: Int)", ""},
		{"argument_with_a_default_added", "tag: String)", "tag: String, more: Int! = 1)", ""},
		{"required_argument_added", "tag: String)", "tag: String, more: Int!)", "required_argument_added Query.thing(more:)"},
		{"default_changed", "first: Int! = 20", "first: Int! = 50", "default_changed Query.thing(first:)"},
		{"default_removed_of_a_non_null", "first: Int! = 20", "first: Int!", "default_changed Query.thing(first:)"},
		{"default_removed", "deep: Boolean = false", "deep: Boolean", "default_changed Query.thing(deep:)"},
		{"default_added", "tag: String)", `tag: String = "a")`, "default_changed Query.thing(tag:)"},

		{"input_field_removed", "note: String\n", "", "input_field_removed Wish.note"},
		{"input_field_of_another_type", "note: String\n", "note: ID\n", "input_field_type_changed Wish.note"},
		{"input_field_becomes_non_null", "note: String\n", "note: String!\n", "input_field_became_non_null Wish.note"},
		{"input_field_becomes_nullable", "input Wish {\n  name: String!", "input Wish {\n  name: String", ""},
		{"required_input_field_added", "note: String\n", "note: String\nmore: Int!\n", "required_input_field_added Wish.more"},
		{"input_field_with_a_default_added", "note: String\n", "note: String\nmore: Int! = 1\n", ""},
		{"optional_input_field_added", "note: String\n", "note: String\nmore: Int\n", ""},
		{"default_of_an_input_field_changed", "size: Int = 3", "size: Int = 4", "default_changed Wish.size"},
		{"one_of_added", "input Wish {\n  name: String!\n  size: Int = 3", "input Wish @oneOf {\n  name: String\n  size: Int", "one_of_added Wish, default_changed Wish.size"},

		{"directive_removed", "directive @live(every: Int) repeatable on FIELD | QUERY", "", "directive_removed @live"},
		{"directive_in_fewer_places", "on FIELD | QUERY", "on FIELD", "directive_narrowed @live"},
		{"directive_once_only", "repeatable on FIELD", "on FIELD", "directive_narrowed @live"},
		{"argument_of_a_directive_removed", "@live(every: Int)", "@live", "argument_removed @live(every:)"},
		{"required_argument_of_a_directive_added", "@live(every: Int)", "@live(every: Int, for: Int!)", "required_argument_added @live(for:)"},
		{"directive_of_the_schema_is_nobodys_concern", "directive @owner(name: String) on OBJECT", "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			if strings.Count(base, c.from) == 0 {
				t.Fatalf("%q is not in the schema", c.from)
			}
			var got []string
			for _, one := range Changes(schemaOf(t, base), schemaOf(t, strings.Replace(base, c.from, c.to, 1))) {
				got = append(got, one.Rule+" "+one.At)
			}
			if strings.Join(got, ", ") != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
	t.Run("a_type_that_nobody_has_any_more", func(t *testing.T) {
		bare := strings.NewReplacer(" | Other", "", "type Other implements Node { id: ID! }", "").Replace(base)
		got := Changes(schemaOf(t, base), schemaOf(t, bare))
		if !slices.Equal(got, []Change{{Rule: UnionMemberRemoved, At: "Item.Other"}, {Rule: TypeRemoved, At: "Other"}}) {
			t.Errorf("%v", got)
		}
	})
	t.Run("a_change_tells_what_it_was_and_is", func(t *testing.T) {
		got := Changes(schemaOf(t, base), schemaOf(t, strings.Replace(base, "size: Int!", "size: Int", 1)))
		if len(got) != 1 || got[0].String() != "field_became_nullable Thing.size (Int! → Int)" {
			t.Errorf("%v", got)
		}
	})
}

func TestAllowed(t *testing.T) {
	got, err := Allowed("# why\n\n field_removed Thing.size: nobody read it \nargument_removed Query.thing(tag:): it did: nothing\n")
	if err != nil || len(got) != 2 || got["field_removed Thing.size"] != "nobody read it" || got["argument_removed Query.thing(tag:)"] != "it did: nothing" {
		t.Errorf("%v, %v", got, err)
	}
	for name, list := range map[string]string{
		"no_reason": "field_removed Thing.size", "empty_reason": "field_removed Thing.size: ", "no_place": "field_removed: because", "no_rule": ": because",
		"two_places": "field_removed Thing.size Thing.name: because", "given_twice": "field_removed Thing.size: a\nfield_removed Thing.size: b",
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := Allowed(list); err == nil {
				t.Errorf("it is read as %v", got)
			}
		})
	}
}

func TestJudge(t *testing.T) {
	found := []Change{{FieldRemoved, "Thing.size", ""}, {FieldRemoved, "Thing.name", ""}}
	refused, unused := Judge(found, map[string]string{"field_removed Thing.size": "so", "type_removed Other": "so"})
	if !slices.Equal(refused, found[1:]) || !slices.Equal(unused, []string{"type_removed Other"}) {
		t.Errorf("refused %v, unused %v", refused, unused)
	}
}
