package wire

import (
	"strings"
	"testing"
)

func TestIsJSON(t *testing.T) {
	nested := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	for name, c := range map[string]struct {
		body string
		want bool
	}{
		"number":                        {"1", true},
		"object":                        {` {"a": [1, "b"]} `, true},
		"empty":                         {"", false},
		"two_values":                    {"1 2", false},
		"not_UTF_8":                     {"\"\xff\"", false},
		"500_levels":                    {nested(500), true},
		"501_levels":                    {nested(501), false},
		"levels_of_objects":             {strings.Repeat(`{"a":`, 501) + "1" + strings.Repeat("}", 501), false},
		"brackets_in_text_are_no_level": {`"` + strings.Repeat("[", 600) + `"`, true},
		"quote_in_text_ends_nothing":    {`"\"` + strings.Repeat("{", 600) + `"`, true},
		"side_by_side_is_not_deep":      {"[" + strings.Repeat("[],", 600) + "[]]", true},
	} {
		t.Run(name, func(t *testing.T) {
			if IsJSON([]byte(c.body)) != c.want {
				t.Errorf("%.40s is judged wrongly", c.body)
			}
		})
	}
}
