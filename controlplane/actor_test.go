package controlplane

import (
	"testing"

	"github.com/streaming-hub/streaming-hub/hub"
)

func TestCan(t *testing.T) {
	for role, want := range map[hub.Role][3]bool{
		hub.Viewer: {true, false, false}, hub.Operator: {true, true, true}, hub.Admin: {true, true, true}, "": {}, "ROOT": {},
	} {
		a := Actor{Role: role}
		if got := [3]bool{a.Can(Read), a.Can(CreateSubscription), a.Can(VerifySubscription)}; got != want {
			t.Errorf("%q: %v, want %v", role, got, want)
		}
		if a.Can("fly") {
			t.Errorf("%q may do what has no rule", role)
		}
	}
}
