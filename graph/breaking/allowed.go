package breaking

import (
	"fmt"
	"strings"
)

// Allowed reads a list of breaking changes that are meant, one a line:
//
//	field_removed Delivery.lastError: nobody has read it for a year
//
// Empty lines and those that begin with # say nothing. Each change needs a
// reason.
func Allowed(list string) (reasons map[string]string, err error) {
	reasons = map[string]string{}
	for i, line := range strings.Split(list, "\n") {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		// An argument's place holds a colon of its own, behind which is no space.
		change, reason, _ := strings.Cut(line, ": ")
		if rule, at, _ := strings.Cut(change, " "); rule == "" || at == "" || strings.Contains(at, " ") || strings.TrimSpace(reason) == "" {
			return nil, fmt.Errorf("line %d of the breaking changes that are meant is %q; it needs <rule> <place>: <reason>", i+1, line)
		}
		if _, twice := reasons[change]; twice {
			return nil, fmt.Errorf("line %d of the breaking changes that are meant repeats %q", i+1, change)
		}
		reasons[change] = strings.TrimSpace(reason)
	}
	return reasons, nil
}

// Judge parts the changes that nobody allowed from what is allowed and did not
// happen, which is left over from before and would let a later change pass.
func Judge(found []Change, allowed map[string]string) (refused []Change, unused []string) {
	happened := map[string]bool{}
	for _, c := range found {
		key := c.Rule + " " + c.At
		happened[key] = true
		if _, ok := allowed[key]; !ok {
			refused = append(refused, c)
		}
	}
	for key := range allowed {
		if !happened[key] {
			unused = append(unused, key)
		}
	}
	return refused, unused
}
