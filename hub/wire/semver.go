package wire

import "strings"

func isSchemaVersion(s string) bool {
	_, ok := schemaMajor(s)
	return ok
}

// schemaMajor reads the major of a semantic version (semver 2.0.0). A leading
// v and a missing minor or patch are fine; a pre-release or build part needs
// all three numbers. The major fits 31 bits.
func schemaMajor(s string) (int32, bool) {
	s = strings.TrimPrefix(s, "v")
	digits, rest, ok := cutNumber(s)
	if !ok || len(digits) > 10 {
		return 0, false
	}
	var major int64
	for i := range len(digits) {
		major = major*10 + int64(digits[i]-'0')
	}
	if major > 1<<31-1 {
		return 0, false
	}
	for range 2 {
		if rest == "" {
			return int32(major), true
		}
		if rest[0] != '.' {
			return 0, false
		}
		if _, rest, ok = cutNumber(rest[1:]); !ok {
			return 0, false
		}
	}
	if rest == "" {
		return int32(major), true
	}
	rest, build, hasBuild := strings.Cut(rest, "+")
	if hasBuild && !isIdentifiers(build, true) {
		return 0, false
	}
	if rest == "" {
		return int32(major), true
	}
	return int32(major), rest[0] == '-' && isIdentifiers(rest[1:], false)
}

// cutNumber takes the digits that s begins with; a number has no leading zero.
func cutNumber(s string) (digits, rest string, ok bool) {
	n := 0
	for n < len(s) && '0' <= s[n] && s[n] <= '9' {
		n++
	}
	if n == 0 || n > 1 && s[0] == '0' {
		return "", "", false
	}
	return s[:n], s[n:], true
}

// isIdentifiers reports dot-separated identifiers of [0-9A-Za-z-]. Numeric
// ones may begin with a zero in a build part only.
func isIdentifiers(s string, zeroFirst bool) bool {
	for part := range strings.SplitSeq(s, ".") {
		numeric := true
		for i := range len(part) {
			c := part[i]
			switch {
			case '0' <= c && c <= '9':
			case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', c == '-':
				numeric = false
			default:
				return false
			}
		}
		if part == "" || numeric && len(part) > 1 && part[0] == '0' && !zeroFirst {
			return false
		}
	}
	return true
}
