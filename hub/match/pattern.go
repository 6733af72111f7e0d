package match

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// maxPart is the longest resource or event name in bytes, as in the
// attributes of an event.
const maxPart = 128

// covers reports whether a pattern takes the event type <resource>.<event>.
// Every character but the two forms of star stands for itself.
func covers(pattern, resource, event string) bool {
	if pattern == "*" {
		return true
	}
	rest, ok := strings.CutPrefix(pattern, resource)
	if !ok || rest == "" || rest[0] != '.' {
		return false
	}
	return rest[1:] == "*" || rest[1:] == event
}

// Covers reports whether a pattern takes the event type key
// <resource>.<event>.
func Covers(pattern, key string) bool {
	resource, event, _ := strings.Cut(key, ".")
	return covers(pattern, resource, event)
}

// starOf is the resource of a pattern <resource>.*.
func starOf(pattern string) (string, bool) { return strings.CutSuffix(pattern, ".*") }

// CheckPattern says in one sentence what is wrong with an event type of a
// subscription; nil for an exact key <resource>.<event>, <resource>.* or *.
func CheckPattern(p string) error {
	if p == "*" {
		return nil
	}
	if p == "" {
		return errors.New("an event type is empty; use <resource>.<event>, <resource>.* or *")
	}
	resource, event, ok := strings.Cut(p, ".")
	if !ok {
		return fmt.Errorf("event type %s has no dot; use <resource>.<event>, <resource>.* or *", quote(p))
	}
	if strings.Contains(event, ".") {
		return fmt.Errorf("event type %s has more than one dot; it is <resource>.<event> without the producer and without a version", quote(p))
	}
	for _, part := range [...]struct{ what, text string }{{"resource", resource}, {"event", event}} {
		switch {
		case part.text == "":
			return fmt.Errorf("event type %s has no %s; use <resource>.<event>, <resource>.* or *", quote(p), part.what)
		case len(part.text) > maxPart:
			return fmt.Errorf("event type %s has a %s of more than %d bytes", quote(p), part.what, maxPart)
		case !isClean(part.text):
			return fmt.Errorf("event type %s holds control characters or is not UTF-8", quote(p))
		}
	}
	if strings.Contains(resource, "*") || event != "*" && strings.Contains(event, "*") {
		return fmt.Errorf("event type %s has a star inside; a star stands alone or after <resource>.", quote(p))
	}
	return nil
}

func isClean(s string) bool {
	for i := range len(s) {
		if s[i] < 0x20 || s[i] == 0x7f {
			return false
		}
	}
	return utf8.ValidString(s)
}

func quote(p string) string { return fmt.Sprintf("%.300q", p) }
