package match_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/streaming-hub/streaming-hub/hub"
	"github.com/streaming-hub/streaming-hub/hub/match"
)

func TestExplain_judges_every_clause(t *testing.T) {
	two := int32(2)
	ev := &hub.Event{Tenant: "t1", Source: "lender", ResourceType: "loan", EventType: "approved", SchemaMajor: 1}
	sub := &hub.EventSubscription{Tenant: "t1", Origin: "tracer", EventTypes: []string{"loan.*", "x.y"}, SchemaMajor: &two,
		DisabledBy: hub.DisabledByAuto, VerificationState: hub.VerificationActive}
	want := match.Explanation{FailedClause: "enabled", Clauses: []match.Clause{
		{Name: "tenant", Passed: true, Wanted: "t1", Got: "t1"},
		{Name: "enabled", Passed: false, Wanted: "enabled", Got: "disabled by AUTO"},
		{Name: "verification", Passed: true, Wanted: "ACTIVE", Got: "ACTIVE"},
		{Name: "origin", Passed: false, Wanted: "tracer", Got: "lender"},
		{Name: "event_type", Passed: true, Wanted: "loan.*, x.y", Got: "loan.approved"},
		{Name: "schema_major", Passed: false, Wanted: "2", Got: "1"},
	}}
	if diff := cmp.Diff(want, match.Explain(ev, sub)); diff != "" {
		t.Error(diff)
	}
}

func TestWants_does_not_allocate(t *testing.T) {
	ev := &hub.Event{Tenant: "t1", ResourceType: "loan", EventType: "approved"}
	sub := &hub.EventSubscription{Tenant: "t1", EventTypes: []string{"a.b", "loan.approved"}, Enabled: true, VerificationState: hub.VerificationActive}
	if n := testing.AllocsPerRun(100, func() {
		if !match.Wants(ev, sub) {
			t.Fatal("not wanted")
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestCheckPattern(t *testing.T) {
	long := strings.Repeat("r", 128)
	for _, ok := range []string{"*", "loan.approved", "loan.*", "loan_application.approved", "a-b.c d", "é.ü", long + "." + long} {
		if err := match.CheckPattern(ok); err != nil {
			t.Errorf("%q: %v", ok, err)
		}
	}
	for _, bad := range []string{"", "loan", ".", "loan.", ".approved", ".*", "**", "*.*", "*.approved", "loan.app*", "lo*n.approved",
		"loan.**", "lender.loan.approved", "loan.approved.v1", "loan.*.x", "a.b\n", "a.\x00", "\xff.b", long + "r.x", "x." + long + "e"} {
		err := match.CheckPattern(bad)
		if err == nil {
			t.Errorf("%q was accepted", bad)
			continue
		}
		if strings.ContainsAny(err.Error(), "\n\x00") {
			t.Errorf("%q: the error is not one line: %v", bad, err)
		}
	}
}
