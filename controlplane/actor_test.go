package controlplane

import (
	"testing"

	"github.com/streaming-hub/streaming-hub/hub"
)

func TestCan(t *testing.T) {
	for role, want := range map[hub.Role][4]bool{
		hub.Viewer: {true, false, false, false}, hub.Operator: {true, true, true, true}, hub.Admin: {true, true, true, true}, "": {}, "ROOT": {},
	} {
		a := Actor{Role: role, Tenant: "acme"}
		if got := [4]bool{a.Can(Read), a.Can(CreateSubscription), a.Can(VerifySubscription), a.Can(Redeliver)}; got != want {
			t.Errorf("%q: %v, want %v", role, got, want)
		}
		if a.Can("fly") {
			t.Errorf("%q may do what has no rule", role)
		}
	}
}

func TestCan_scope(t *testing.T) {
	for _, c := range []struct {
		a             Actor
		read, readmit bool
	}{
		{Actor{Role: hub.Viewer}, true, false}, {Actor{Role: hub.Operator}, true, true},
		{Actor{Role: hub.Admin, Tenant: "acme"}, false, false}, {Actor{}, false, false},
	} {
		if c.a.Can(ReadQuarantine) != c.read || c.a.Can(ReadmitQuarantined) != c.readmit {
			t.Errorf("%+v: may read %t, re-admit %t", c.a, c.a.Can(ReadQuarantine), c.a.Can(ReadmitQuarantined))
		}
	}
	tenant, viewer := Actor{Role: hub.Admin, Tenant: "acme"}, Actor{Role: hub.Viewer}
	if got := tenant.WhyNot(ReadQuarantine); got != "a token of one tenant may not read quarantined records; that needs scope PLATFORM" {
		t.Error(got)
	}
	if got := viewer.WhyNot(ReadmitQuarantined); got != "a token with role VIEWER may not re-admit quarantined records" {
		t.Error(got)
	}
}

func TestCan_admins_only(t *testing.T) {
	for _, action := range []Action{ManageTokens, ReadAudit, ReadPersonalData, ManageSecrets} {
		for _, tenant := range []hub.TenantID{"", "acme"} {
			for role, want := range map[hub.Role]bool{hub.Viewer: false, hub.Operator: false, hub.Admin: true} {
				if a := (Actor{Role: role, Tenant: tenant}); a.Can(action) != want {
					t.Errorf("%s of %q may %s: %t", role, tenant, action, !want)
				}
			}
		}
	}
}
