package pull

import (
	"testing"
	"time"
)

func TestParseParams(t *testing.T) {
	t.Run("defaults", func(t *testing.T) {
		p, f := parseParams("")
		if f != nil || p.limit != 100 || p.after != 0 || p.start != behindSeq || p.wait != 0 || p.raw || p.wish != nil {
			t.Errorf("%+v %v", p, f)
		}
	})
	t.Run("all", func(t *testing.T) {
		p, f := parseParams("after_seq=9223372036854775807&limit=1000&event_type=a.b,c.*&event_type=d.e&origin=lender&schema_major=2&wait=1.5s&raw=1&tenant=acme&subscription=sub_0123456789abcdef0123456789abcdef")
		if f != nil || p.after != 1<<63-1 || p.limit != 1000 || p.wait != 1500*time.Millisecond || !p.raw || p.tenant != "acme" || p.saved.ID[1] != 0x23 {
			t.Errorf("%+v %v", p, f)
		}
		if w := p.wish; len(w.EventTypes) != 3 || w.Origin != "lender" || *w.SchemaMajor != 2 {
			t.Errorf("%+v", w)
		}
	})
	for query, parameter := range map[string]string{
		"aftr_seq=1": "aftr_seq", "after_seq=": "after_seq", "after_seq=-1": "after_seq", "after_seq=1&after_seq=2": "after_seq",
		"after_seq=1e3": "after_seq", "after_seq=9223372036854775808": "after_seq", "after_seq=%2B1": "after_seq", "after_seq=Latest": "after_seq",
		"limit=0": "limit", "limit=1001": "limit", "limit=ten": "limit", "limit": "limit",
		"event_type=": "event_type", "event_type=a.b,": "event_type", "event_type=loan": "event_type", "event_type=a.b.c": "event_type", "event_type=*.b": "event_type",
		"origin=": "origin", "origin=Lender": "origin", "origin=a.b": "origin",
		"schema_major=-1": "schema_major", "schema_major=2147483648": "schema_major", "schema_major=v1": "schema_major",
		"wait=31": "wait", "wait=-1": "wait", "wait=30001ms": "wait", "wait=long": "wait", "raw=yes": "raw", "raw=": "raw",
		"subscription=1": "subscription", "subscription=sub_zz": "subscription", "subscription=dst_0123456789abcdef0123456789abcdef": "subscription",
		"tenant=": "tenant", "tenant=%2e": "tenant", "limit=%zz": "", "a;b": "",
	} {
		t.Run(query, func(t *testing.T) {
			p, f := parseParams(query)
			if f == nil {
				t.Fatalf("taken as %+v", p)
			}
			if f.status != 400 || f.Parameter != parameter {
				t.Errorf("%d %s: %s", f.status, f.Parameter, f.Message)
			}
		})
	}
}
