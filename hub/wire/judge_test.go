package wire_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/streaming-hub/streaming-hub/hub"
	"github.com/streaming-hub/streaming-hub/hub/wire"
)

// record is the ordinary record, with changes: "name=value" replaces or adds a
// header, "-name" removes it.
func record(changes ...string) wire.Record {
	headers := []wire.Header{
		header("ce-specversion", "1.0"),
		header("ce-id", "6f1d"),
		header("ce-source", "lender"),
		header("ce-type", "studio.lerian.lender.loan_application.approved"),
		header("ce-time", "2026-11-29T10:00:00Z"),
		header("ce-schemaversion", "1.0.0"),
		header("ce-resourcetype", "loan_application"),
		header("ce-eventtype", "approved"),
		header("ce-tenantid", "t1"),
		header("ce-datacontenttype", "application/json"),
	}
	for _, c := range changes {
		name, value, add := strings.Cut(c, "=")
		headers = slices.DeleteFunc(headers, func(h wire.Header) bool { return h.Key == strings.TrimPrefix(name, "-") })
		if add {
			headers = append(headers, header(name, value))
		}
	}
	return wire.Record{Topic: "lerian.streaming.lender", Partition: 2, Offset: 7, Headers: headers, Value: []byte(`{"n":1}`)}
}

func header(key, value string) wire.Header { return wire.Header{Key: key, Value: []byte(value)} }

// with adds headers behind those of a record.
func with(rec wire.Record, headers ...wire.Header) wire.Record {
	rec.Headers = append(slices.Clone(rec.Headers), headers...)
	return rec
}

func TestJudge(t *testing.T) {
	for _, row := range []struct {
		rule string
		rec  wire.Record
		want string // reason, "" to accept, "SKIP" to skip
	}{
		// mode
		{"batch_is_unsupported", with(record(), header("Content-Type", "application/cloudevents-batch+json")), "unsupported_mode"},
		{"mode_is_judged_in_any_case", with(record(), header("content-type", " Application/CloudEvents+JSON")), "unsupported_mode"},
		{"mode_comes_before_conflicts", with(record(), header("ce-id", "x"), header("content-type", "application/cloudevents+json")), "unsupported_mode"},
		{"datacontenttype_of_an_event_is_data", record("ce-datacontenttype=application/cloudevents+json"), ""},

		// conflicts
		{"equal_copies_are_one", with(record(), header("ce-id", "6f1d"), header("CE_ID", "6f1d")), ""},
		{"empty_and_full_differ", with(record(), header("ce-id", "")), "conflicting_attribute:id"},
		{"third_copy_does_not_mend", with(record(), header("ce-id", "x"), header("ce-id", "6f1d")), "conflicting_attribute:id"},
		{"conflicts_in_table_order", with(record(), header("ce-tenantid", "t2"), header("ce-id", "x")), "conflicting_attribute:id"},
		{"conflict_before_specversion", with(record("ce-specversion=9.9"), header("ce-subject", "a"), header("ce-subject", "b")), "conflicting_attribute:subject"},
		{"extensions_conflict_by_name", with(record(), header("ce-zeta", "1"), header("ce-alpha", "1"), header("ce_zeta", "2"), header("ce_alpha", "2")), "conflicting_attribute:alpha"},
		{"extension_names_in_any_case", with(record(), header("ce-Alpha", "1"), header("CE_ALPHA", "2")), "conflicting_attribute:alpha"},
		{"other_headers_may_repeat", with(record(), header("x", "1"), header("x", "2"), header("content-type", "text/plain"), header("content-type", "text/html")), ""},

		// order of the checks
		{"specversion_before_missing_id", record("ce-specversion=0.3", "-ce-id"), "unsupported_specversion"},
		{"missing_specversion_first", record("-ce-specversion", "-ce-id"), "missing_attribute:specversion"},
		{"invalid_id_before_missing_source", record("ce-id=a\nb", "-ce-source"), "invalid_attribute:id"},
		{"skip_needs_every_attribute", record("ce-systemevent=true", "-ce-type"), "missing_attribute:type"},
		{"skip_before_source_mismatch", record("ce-systemevent=true", "ce-source=tracer"), "SKIP"},
		{"source_before_type", record("ce-source=tracer"), "source_mismatch"},
		{"invalid_extension_before_skip", record("ce-systemevent=true", "ce-ext=a\x00"), "invalid_attribute:ext"},

		// attributes
		{"empty_needed_is_missing", record("ce-eventtype="), "missing_attribute:eventtype"},
		{"blank_id_is_an_id", record("ce-id= "), ""},
		{"id_is_not_decoded", record("ce-id=a%20b"), ""},
		{"id_not_utf8", record("ce-id=\xff"), "invalid_attribute:id"},
		{"del_is_a_control", record("ce-id=a\x7f"), "invalid_attribute:id"},
		{"c1_controls_are_text", record("ce-id=a\u0085"), ""},
		{"source_upper_case", record("ce-source=Lender"), "invalid_attribute:source"},
		{"type_with_control", record("ce-type=a\tb"), "invalid_attribute:type"},
		{"tenant_space", record("ce-tenantid= t1"), "invalid_attribute:tenantid"},
		{"tenant_dash_first", record("ce-tenantid=-t1"), "invalid_attribute:tenantid"},
		{"tenant_256", record("ce-tenantid=" + strings.Repeat("T", 256)), ""},
		{"tenant_257", record("ce-tenantid=" + strings.Repeat("T", 257)), "invalid_attribute:tenantid"},
		{"system_event_may_lack_a_tenant", record("ce-systemevent=true", "ce-tenantid="), "SKIP"},
		{"system_event_with_a_bad_tenant", record("ce-systemevent=true", "ce-tenantid=a b"), "invalid_attribute:tenantid"},
		{"only_lower_case_true_marks_a_system_event", record("ce-systemevent=TRUE"), ""},
		{"resource_128", record("ce-resourcetype="+strings.Repeat("r", 128), "ce-type=studio.lerian.lender."+strings.Repeat("r", 128)+".approved"), ""},
		{"type_is_matched_whole", record("ce-type=studio.lerian.lender.loan_application.approvedX"), "type_mismatch"},
		{"type_in_any_case_differs", record("ce-type=Studio.lerian.lender.loan_application.approved"), "type_mismatch"},
		{"content_type_header_is_judged_when_used", with(record("-ce-datacontenttype"), header("content-type", "a\r\nb")), "invalid_attribute:datacontenttype"},
		{"content_type_header_is_ignored_beside_attribute", with(record(), header("content-type", "a\r\nb")), ""},
		{"content_type_header_too_long", with(record("-ce-datacontenttype"), header("content-type", strings.Repeat("a", 257))), "invalid_attribute:datacontenttype"},
		{"extension_not_utf8", record("ce-ext=\xc3("), "invalid_attribute:ext"},
		{"extension_without_a_name", record("ce-=x"), "invalid_attribute:"},
		{"extension_name_cannot_be_a_header", record("ce-a b\x00=x"), "invalid_attribute:a?b?"},
		{"extension_name_is_cut_in_the_reason", record("ce- " + strings.Repeat("n", 100) + "=x"), "invalid_attribute:?" + strings.Repeat("n", 63)},
		{"empty_extension_is_absent", record("ce-ext="), ""},

		// topics
		{"topic_outside_the_follow_set", func() wire.Record { r := record(); r.Topic += ".dlq"; return r }(), "source_mismatch"},
		{"topic_of_another_prefix", func() wire.Record { r := record(); r.Topic = "acme.lender"; return r }(), "source_mismatch"},
	} {
		t.Run(row.rule, func(t *testing.T) {
			v := wire.DefaultRules().Judge(row.rec)
			want := wire.Quarantine
			switch row.want {
			case "":
				want = wire.Accept
			case "SKIP":
				want, row.want = wire.Skip, ""
			}
			if v.Kind != want || string(v.Reason) != row.want {
				t.Errorf("Judge = %s %q, want %s %q", v.Kind, v.Reason, want, row.want)
			}
		})
	}
}

func TestJudge_order_of_headers_changes_nothing(t *testing.T) {
	rec := with(record(), header("ce-b", "1"), header("ce-a", "2"), header("ce_b", "1"))
	want := wire.DefaultRules().Judge(rec)
	slices.Reverse(rec.Headers)
	if diff := cmp.Diff(want, wire.DefaultRules().Judge(rec)); diff != "" {
		t.Error(diff)
	}
}

func TestJudge_keeps_what_the_producer_wrote(t *testing.T) {
	const parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	rec := with(record("ce-subject=a%20b 100% naïve ☃", "ce-dataschema=https://example.com/s", "ce-schemaversion=v2.1",
		"ce-zone=EU", "ce-Order_No=7", "ce-time=2024-05-01t10:00:00.123456789+05:30"),
		header("TraceParent", parent), header("tracestate", "a=1"), header("tracestate", "b=2"), header("x-other", "1"))
	v := wire.DefaultRules().Judge(rec)
	want := wire.Verdict{Kind: wire.Accept, Event: hub.Event{
		Tenant: "t1", CEID: "6f1d", Source: "lender", CEType: "studio.lerian.lender.loan_application.approved",
		ResourceType: "loan_application", EventType: "approved", SchemaVersion: "v2.1", SchemaMajor: 2,
		Time: "2024-05-01t10:00:00.123456789+05:30", Subject: "a%20b 100% naïve ☃",
		ContentType: "application/json", DataSchema: "https://example.com/s",
		Extensions:  []hub.Attribute{{Name: "order_no", Value: "7"}, {Name: "zone", Value: "EU"}},
		TraceParent: parent, TraceState: "a=1,b=2",
		Record: hub.RecordPosition{Topic: "lerian.streaming.lender", Partition: 2, Offset: 7},
		Body:   []byte(`{"n":1}`),
	}}
	if diff := cmp.Diff(want, v); diff != "" {
		t.Error(diff)
	}
	if &v.Event.Body[0] != &rec.Value[0] {
		t.Error("the body was copied")
	}
}

func TestJudge_content_type_is_never_invented(t *testing.T) {
	for _, row := range []struct {
		rule string
		rec  wire.Record
		want string
	}{
		{"absent_stays_absent", record("-ce-datacontenttype"), ""},
		{"header_stands_in", with(record("-ce-datacontenttype"), header("content-type", "application/xml")), "application/xml"},
		{"header_stands_in_for_an_empty_attribute", with(record("ce-datacontenttype="), header("content-type", "application/xml")), "application/xml"},
		{"attribute_wins", with(record(), header("content-type", "text/plain")), "application/json"},
		{"first_header_decides", with(record("-ce-datacontenttype"), header("content-type", "a/b"), header("content-type", "c/d")), "a/b"},
	} {
		t.Run(row.rule, func(t *testing.T) {
			if v := wire.DefaultRules().Judge(row.rec); v.Kind != wire.Accept || v.Event.ContentType != row.want {
				t.Errorf("%s %s: content type %q, want %q", v.Kind, v.Reason, v.Event.ContentType, row.want)
			}
		})
	}
}

func TestJudge_null_and_empty_bodies_are_the_same(t *testing.T) {
	for _, body := range [][]byte{nil, {}} {
		rec := record()
		rec.Value = body
		v := wire.DefaultRules().Judge(rec)
		if v.Kind != wire.Accept || v.Event.Body == nil || len(v.Event.Body) != 0 {
			t.Errorf("%s, body %#v", v.Kind, v.Event.Body)
		}
	}
}

func TestJudge_single_tenant_mode(t *testing.T) {
	rules := wire.DefaultRules()
	rules.SingleTenant = "only"
	for _, row := range []struct {
		rule, change string
		want         hub.TenantID
		reason       wire.Reason
	}{
		{"absent_takes_the_configured", "-ce-tenantid", "only", ""},
		{"empty_takes_the_configured", "ce-tenantid=", "only", ""},
		{"given_is_kept", "ce-tenantid=t9", "t9", ""},
		{"given_is_judged", "ce-tenantid=a/b", "", "invalid_attribute:tenantid"},
	} {
		t.Run(row.rule, func(t *testing.T) {
			if v := rules.Judge(record(row.change)); v.Event.Tenant != row.want || v.Reason != row.reason {
				t.Errorf("tenant %q, reason %q", v.Event.Tenant, v.Reason)
			}
		})
	}
}

func TestJudge_header_budget_counts_names_and_values(t *testing.T) {
	used := 0
	for _, h := range record().Headers {
		used += len(h.Key) + len(h.Value)
	}
	for _, row := range []struct {
		rule string
		over int
		want wire.Reason
	}{{"at_the_limit", 0, ""}, {"one_over", 1, wire.HeadersTooLarge}} {
		t.Run(row.rule, func(t *testing.T) {
			pad := wire.DefaultMaxHeaderBytes - used - len("ce-pad") + row.over
			rec := with(record(), header("ce-pad", strings.Repeat("x", pad)), header("x-other", strings.Repeat("x", 1<<16)))
			if v := wire.DefaultRules().Judge(rec); v.Reason != row.want {
				t.Errorf("reason %q, want %q", v.Reason, row.want)
			}
			rec.Value = bytes.Repeat([]byte("x"), wire.DefaultMaxBodyBytes+1)
			if v := wire.DefaultRules().Judge(rec); row.over > 0 && v.Reason != wire.HeadersTooLarge {
				t.Errorf("headers are judged before the body; reason %q", v.Reason)
			}
		})
	}
}

func TestJudge_prefixes_are_settings(t *testing.T) {
	rules := wire.DefaultRules()
	rules.TopicPrefix, rules.TypePrefix = "acme.events", "com.acme"
	rec := record("ce-type=com.acme.lender.loan_application.approved")
	rec.Topic = "acme.events.lender"
	if v := rules.Judge(rec); v.Kind != wire.Accept {
		t.Errorf("%s %s", v.Kind, v.Reason)
	}
}

func TestJudge_many_extensions_stay_cheap(t *testing.T) {
	rec := record()
	for i := range 200_000 {
		rec.Headers = append(rec.Headers, header("ce-x"+string(rune('a'+i%26))+strings.Repeat("y", i%97), "v"))
	}
	if v := wire.DefaultRules().Judge(rec); v.Reason != wire.HeadersTooLarge {
		t.Errorf("reason %q", v.Reason)
	}
}

func BenchmarkJudge(b *testing.B) {
	rules := wire.DefaultRules()
	for _, row := range []struct {
		name string
		rec  wire.Record
	}{
		{"ordinary", record()},
		{"extensions", with(record("ce-subject=s"), header("ce-a", "1"), header("ce-b", "2"),
			header("traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"))},
	} {
		b.Run(row.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if v := rules.Judge(row.rec); v.Kind != wire.Accept {
					b.Fatal(v.Reason)
				}
			}
		})
	}
}
