package match

import (
	"strconv"
	"strings"

	"github.com/streaming-hub/streaming-hub/hub"
)

// The names of the clauses.
const (
	ClauseTenant       = "tenant"
	ClauseEnabled      = "enabled"
	ClauseVerification = "verification"
	ClauseOrigin       = "origin"
	ClauseEventType    = "event_type"
	ClauseSchemaMajor  = "schema_major"
)

// clause is one condition and the words for both its sides.
type clause struct {
	name   string
	holds  func(*hub.Event, *hub.EventSubscription) bool
	wanted func(*hub.EventSubscription) string
	got    func(*hub.Event, *hub.EventSubscription) string
}

// clauses are in the order in which they are judged.
var clauses = [...]clause{
	{
		name:   ClauseTenant,
		holds:  func(ev *hub.Event, sub *hub.EventSubscription) bool { return ev.Tenant == sub.Tenant },
		wanted: func(sub *hub.EventSubscription) string { return string(sub.Tenant) },
		got:    func(ev *hub.Event, _ *hub.EventSubscription) string { return string(ev.Tenant) },
	},
	{
		name:   ClauseEnabled,
		holds:  func(_ *hub.Event, sub *hub.EventSubscription) bool { return sub.Enabled && sub.DeletedAt.IsZero() },
		wanted: func(*hub.EventSubscription) string { return "enabled" },
		got: func(_ *hub.Event, sub *hub.EventSubscription) string {
			switch {
			case !sub.DeletedAt.IsZero():
				return "deleted"
			case sub.Enabled:
				return "enabled"
			case sub.DisabledBy == "":
				return "disabled"
			default:
				return "disabled by " + string(sub.DisabledBy)
			}
		},
	},
	{
		name: ClauseVerification,
		holds: func(_ *hub.Event, sub *hub.EventSubscription) bool {
			return sub.VerificationState == hub.VerificationActive
		},
		wanted: func(*hub.EventSubscription) string { return string(hub.VerificationActive) },
		got:    func(_ *hub.Event, sub *hub.EventSubscription) string { return string(sub.VerificationState) },
	},
	{
		name: ClauseOrigin,
		holds: func(ev *hub.Event, sub *hub.EventSubscription) bool {
			return sub.Origin == "" || sub.Origin == ev.Source
		},
		wanted: func(sub *hub.EventSubscription) string { return orAny(sub.Origin) },
		got:    func(ev *hub.Event, _ *hub.EventSubscription) string { return ev.Source },
	},
	{
		name: ClauseEventType,
		holds: func(ev *hub.Event, sub *hub.EventSubscription) bool {
			for _, p := range sub.EventTypes {
				if covers(p, ev.ResourceType, ev.EventType) {
					return true
				}
			}
			return false
		},
		wanted: func(sub *hub.EventSubscription) string { return strings.Join(sub.EventTypes, ", ") },
		got:    func(ev *hub.Event, _ *hub.EventSubscription) string { return ev.Key() },
	},
	{
		name: ClauseSchemaMajor,
		holds: func(ev *hub.Event, sub *hub.EventSubscription) bool {
			return sub.SchemaMajor == nil || *sub.SchemaMajor == ev.SchemaMajor
		},
		wanted: func(sub *hub.EventSubscription) string {
			if sub.SchemaMajor == nil {
				return orAny("")
			}
			return strconv.Itoa(int(*sub.SchemaMajor))
		},
		got: func(ev *hub.Event, _ *hub.EventSubscription) string { return strconv.Itoa(int(ev.SchemaMajor)) },
	},
}

func orAny(s string) string {
	if s == "" {
		return "any"
	}
	return s
}

// Wants reports whether a subscription wants an event. It does not allocate.
func Wants(ev *hub.Event, sub *hub.EventSubscription) bool {
	for i := range clauses {
		if !clauses[i].holds(ev, sub) {
			return false
		}
	}
	return true
}

// Explanation says clause by clause why an event matched a subscription or
// did not.
type Explanation struct {
	Matched bool
	// FailedClause is the first clause that failed, "" when all passed.
	FailedClause string
	// Clauses are all six, those behind a failed one too.
	Clauses []Clause
}

// Clause is one condition of an Explanation: what the subscription asks for
// and what was found.
type Clause struct {
	Name   string
	Passed bool
	Wanted string
	Got    string
}

// Explain judges an event against one subscription.
func Explain(ev *hub.Event, sub *hub.EventSubscription) Explanation {
	e := Explanation{Matched: true, Clauses: make([]Clause, 0, len(clauses))}
	for _, c := range clauses {
		passed := c.holds(ev, sub)
		if !passed && e.Matched {
			e.Matched, e.FailedClause = false, c.name
		}
		e.Clauses = append(e.Clauses, Clause{Name: c.name, Passed: passed, Wanted: c.wanted(sub), Got: c.got(ev, sub)})
	}
	return e
}
