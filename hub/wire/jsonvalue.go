package wire

import (
	"encoding/json"
	"unicode/utf8"
)

// MaxNesting is how deep a body may nest and still be shown as a JSON value in
// an answer. Many readers' parsers give up a little above it, and would lose the
// whole page for one event; encoding/json takes 10 000 levels, those of the
// answer around the body included.
const MaxNesting = 500

// IsJSON reports whether a body is one JSON value in UTF-8 that any reader can
// take.
func IsJSON(body []byte) bool {
	return utf8.Valid(body) && json.Valid(body) && nesting(body) <= MaxNesting
}

// nesting is how deep a valid JSON value nests.
func nesting(body []byte) int {
	depth, deepest, inString := 0, 0, false
	for i := 0; i < len(body); i++ {
		switch c := body[i]; {
		case inString && c == '\\':
			i++
		case c == '"':
			inString = !inString
		case inString:
		case c == '{' || c == '[':
			depth++
			deepest = max(deepest, depth)
		case c == '}' || c == ']':
			depth--
		}
	}
	return deepest
}
