package wire_test

import (
	"testing"

	"github.com/streaming-hub/streaming-hub/hub"
	"github.com/streaming-hub/streaming-hub/hub/wire"
)

func TestJudge_quarantined_record_names_its_tenant_if_it_can(t *testing.T) {
	for name, c := range map[string]struct {
		headers []wire.Header
		want    hub.TenantID
	}{
		"named":       {[]wire.Header{{Key: "ce-tenantid", Value: []byte("t1")}}, "t1"},
		"absent":      {nil, ""},
		"impossible":  {[]wire.Header{{Key: "ce-tenantid", Value: []byte("a/b")}}, ""},
		"two_of_them": {[]wire.Header{{Key: "ce-tenantid", Value: []byte("t1")}, {Key: "ce_tenantid", Value: []byte("t2")}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			v := wire.DefaultRules().Judge(wire.Record{Topic: "lerian.streaming.lender", Headers: c.headers})
			if v.Kind != wire.Quarantine || v.Event.Tenant != c.want {
				t.Errorf("%s with tenant %q, want QUARANTINE with %q", v.Kind, v.Event.Tenant, c.want)
			}
		})
	}
}
