package sample_test

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/streaming-hub/streaming-hub/dev/sample"
	"github.com/streaming-hub/streaming-hub/hub/wire"
)

var prefixes = sample.Prefixes{Topic: "lerian.streaming", Type: "studio.lerian"}

func judge(r *kgo.Record) wire.Verdict {
	in := wire.Record{Topic: r.Topic, Value: r.Value}
	for _, h := range r.Headers {
		in.Headers = append(in.Headers, wire.Header{Key: h.Key, Value: h.Value})
	}
	rules := wire.Rules{TopicPrefix: prefixes.Topic, TypePrefix: prefixes.Type, MaxBodyBytes: 1 << 20, MaxHeaderBytes: 16 << 10}
	return rules.Judge(in)
}

func TestNext(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	sources := map[string]bool{}
	ids := map[string]bool{}
	for range 200 {
		f := sample.Next("acme", r, time.Unix(1_800_000_000, 0))
		if v := judge(f.Record(prefixes)); v.Kind != wire.Accept {
			t.Fatalf("%+v is not accepted: %s", f, v.Reason)
		}
		sources[f.Source], ids[f.ID] = true, true
	}
	if len(sources) != len(sample.Sources) || len(ids) != 200 {
		t.Errorf("%d sources, %d ids", len(sources), len(ids))
	}
}

func TestRecord(t *testing.T) {
	fact := sample.Next("acme", rand.New(rand.NewPCG(1, 2)), time.Unix(1_800_000_000, 0))
	t.Run("given_type_and_topic_outrank_the_derived", func(t *testing.T) {
		f := fact
		f.Topic, f.Type = "lerian.streaming.other", "x"
		if v := judge(f.Record(prefixes)); v.Kind != wire.Quarantine {
			t.Errorf("verdict %v", v.Kind)
		}
	})
	t.Run("system_event_needs_no_tenant", func(t *testing.T) {
		f := fact
		f.System, f.TenantID = true, ""
		if v := judge(f.Record(prefixes)); v.Kind != wire.Skip {
			t.Errorf("verdict %v %s", v.Kind, v.Reason)
		}
	})
	t.Run("empty_attributes_are_left_out", func(t *testing.T) {
		f := fact
		f.Subject = ""
		for _, h := range f.Record(prefixes).Headers {
			if strings.EqualFold(h.Key, "ce-subject") {
				t.Errorf("header %s=%q", h.Key, h.Value)
			}
		}
	})
}
