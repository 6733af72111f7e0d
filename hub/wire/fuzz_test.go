package wire_test

import (
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/streaming-hub/streaming-hub/hub/wire"
)

// FuzzJudge: no record makes Judge panic, and the headers of an accepted
// event, decoded once, are a record that gives the same event again.
func FuzzJudge(f *testing.F) {
	for _, rec := range []wire.Record{
		record(), record("ce-subject=a%20b 100% naïve"), record("ce-ext=1", "ce-Other=é"), record("-ce-datacontenttype"),
		record("ce-systemevent=true"), record("ce-time=1990-12-31T23:59:60Z"), record("ce-schemaversion=v1.2.3-rc.1+b"),
		with(record(), header("traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"), header("tracestate", "a=1")),
		with(record(), header("ce_id", "6f1d"), header("CE-ID", "other")),
	} {
		var lines []string
		for _, h := range rec.Headers {
			lines = append(lines, h.Key+"="+string(h.Value))
		}
		f.Add(rec.Topic, strings.Join(lines, "\n"), rec.Value)
	}
	rules := wire.DefaultRules()
	f.Fuzz(func(t *testing.T, topic, lines string, body []byte) {
		rec := wire.Record{Topic: topic, Value: body}
		for line := range strings.SplitSeq(lines, "\n") {
			key, value, _ := strings.Cut(line, "=")
			rec.Headers = append(rec.Headers, header(key, value))
		}
		v := rules.Judge(rec)
		if (v.Kind == wire.Quarantine) != (v.Reason != "") {
			t.Fatalf("%s with reason %q", v.Kind, v.Reason)
		}
		if v.Kind != wire.Accept {
			return
		}
		again := wire.Record{Topic: topic, Value: body}
		for _, h := range headersOf(&v.Event, wire.DefaultHeaderPrefix) {
			switch value, err := url.PathUnescape(h.Value); {
			case strings.HasPrefix(h.Name, "ce-"):
				if err != nil {
					t.Fatalf("%s cannot be decoded: %v", h.Name, err)
				}
				again.Headers = append(again.Headers, header(h.Name, value))
			case h.Name == "traceparent", h.Name == "tracestate":
				again.Headers = append(again.Headers, header(h.Name, h.Value))
			}
		}
		if v.Event.ContentType != "" {
			again.Headers = append(again.Headers, header("ce-datacontenttype", v.Event.ContentType))
		}
		if diff := cmp.Diff(v, rules.Judge(again)); diff != "" {
			t.Fatal(diff)
		}
	})
}
