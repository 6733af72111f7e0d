package breaking

import (
	"os"
	"testing"
)

// TestSchema_breaks_nobody compares schema.graphql with its released copy.
func TestSchema_breaks_nobody(t *testing.T) {
	read := func(path string) string {
		text, err := os.ReadFile("../../" + path)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	allowed, err := Allowed(read("docs/schema/breaking.txt"))
	if err != nil {
		t.Fatal(err)
	}
	found := Changes(schemaOf(t, read("docs/schema/released.graphql")), schemaOf(t, read("schema.graphql")))
	refused, unused := Judge(found, allowed)
	for _, c := range refused {
		t.Errorf("schema.graphql breaks its users: %s. Take the change back, or say in docs/schema/breaking.txt why it has to be", c)
	}
	for _, u := range unused {
		t.Errorf("docs/schema/breaking.txt allows %q, which schema.graphql does not do; take the line out", u)
	}
}
