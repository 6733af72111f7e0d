package controlplane

import (
	"testing"

	"github.com/streaming-hub/streaming-hub/hub"
)

func TestParseGlobalID(t *testing.T) {
	id := hub.ID{1, 2, 15: 3}
	for text, want := range map[string]hub.ID{
		GlobalID(JobIDs, id):                     id,
		"rpl_01020000000000000000000000000003":   id,
		"rpl_0102000000000000000000000000000g":   {}, // a part of it would be another's id
		"dlv_01020000000000000000000000000003":   {},
		"rpl_010200000000000000000000000003":     {},
		"rpl_0102000000000000000000000000000300": {},
		"":                                       {}, "rpl_": {},
	} {
		if got, ok := ParseGlobalID(JobIDs, text); got != want || ok != (want != hub.ID{}) {
			t.Errorf("%q is %s, %t", text, got, ok)
		}
	}
}
