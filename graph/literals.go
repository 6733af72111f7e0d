package graph

import "regexp"

// wrongValue is what an error about a value of the wrong kind says of the
// value, to its end; wrongToken what an error of syntax repeats.
var (
	wrongValue = regexp.MustCompile(`(?s)( value): .*|, found .*`)
	wrongToken = regexp.MustCompile(`(?s)\b(String|BlockString|Int|Float|Comment) ".*"|(escape sequence): .*`)
)

// withoutLiterals takes what the document holds out of an error about it: it
// can be a secret that was put in the wrong place, and errors end up in logs of
// callers. The error's locations say where it stands. Names are left: one has
// to read which field does not exist.
func withoutLiterals(message, rule string) string {
	switch rule {
	case "":
		return wrongToken.ReplaceAllString(message, "$1$2")
	case "ValuesOfCorrectType":
		return wrongValue.ReplaceAllString(message, "$1")
	}
	return message
}
