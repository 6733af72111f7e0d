package wire_test

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/streaming-hub/streaming-hub/hub"
	"github.com/streaming-hub/streaming-hub/hub/wire"
)

const dlqTopic = "lerian.streaming.lender.dlq"

func deadLetter(lines ...string) wire.Record {
	rec := wire.Record{Topic: dlqTopic, Partition: 3, Offset: 42, Value: []byte("{}")}
	for _, line := range lines {
		key, value, _ := strings.Cut(line, "=")
		rec.Headers = append(rec.Headers, wire.Header{Key: key, Value: []byte(value)})
	}
	return rec
}

func ptr[T any](v T) *T { return &v }

func TestObserve(t *testing.T) {
	consumer := []string{"x-lerian-dlq-source-partition=7", "x-lerian-dlq-source-offset=9007199254740993", "x-lerian-dlq-cause-kind=handler"}
	for _, c := range []struct {
		name  string
		lines []string
		want  hub.Observation
	}{
		{name: "a_record_without_headers_is_one_of_a_producer"},
		{name: "all_headers_of_a_producer", lines: []string{
			"ce-id=1", "ce_tenantid=acme", "CE-Type=a.b", "x-lerian-dlq-source-topic=lerian.streaming.lender", "x-lerian-dlq-error-class=BROKER",
			"x-lerian-dlq-error-message=no leader", "x-lerian-dlq-retry-count=5", "x-lerian-dlq-first-failure-at=2026-01-31T13:04:05.5+01:00",
			"x-lerian-dlq-producer-id=pod-1", "x-lerian-dlq-payload-omitted=true", "x-lerian-dlq-payload-bytes=2097152",
		}, want: hub.Observation{
			Tenant: "acme", Attributes: []hub.Attribute{{Name: "id", Value: "1"}, {Name: "tenantid", Value: "acme"}, {Name: "type", Value: "a.b"}},
			SourceTopic: "lerian.streaming.lender", ErrorClass: "BROKER", ErrorMessage: "no leader", RetryCount: ptr[int32](5),
			FirstFailureAt: time.Date(2026, 1, 31, 12, 4, 5, 5e8, time.UTC), ProducerID: "pod-1",
			PayloadOmitted: ptr(true), PayloadBytes: ptr[int64](2 << 20),
		}},
		{name: "three_extra_headers_make_a_consumer", lines: consumer, want: hub.Observation{
			Writer: hub.WriterConsumer, SourcePartition: ptr[int32](7), SourceOffset: ptr[int64](9007199254740993), CauseKind: "handler",
		}},
		{name: "two_of_them_do_not", lines: consumer[1:], want: hub.Observation{SourceOffset: ptr[int64](9007199254740993), CauseKind: "handler"}},
		{name: "three_that_make_no_sense_are_still_there",
			lines: []string{"x-lerian-dlq-source-partition=x", "x-lerian-dlq-source-offset=", "x-lerian-dlq-cause-kind=\xff"},
			want:  hub.Observation{Writer: hub.WriterConsumer, CauseKind: "\uFFFD"}},
		{name: "names_compare_without_case", lines: []string{"X-Lerian-DLQ-Error-Class=A"}, want: hub.Observation{ErrorClass: "A"}},
		{name: "the_first_value_that_is_not_empty_counts",
			lines: []string{"x-lerian-dlq-error-class=", "x-lerian-dlq-error-class=A", "x-lerian-dlq-error-class=B"}, want: hub.Observation{ErrorClass: "A"}},
		{name: "numbers_that_are_none_are_left_out", lines: []string{
			"x-lerian-dlq-retry-count=-1", "x-lerian-dlq-payload-bytes=1e3", "x-lerian-dlq-source-partition=2147483648",
			"x-lerian-dlq-first-failure-at=yesterday", "x-lerian-dlq-payload-omitted=maybe",
		}},
		{name: "two_tenants_claim_none", lines: []string{"ce-tenantid=acme", "ce_tenantid=beta"},
			want: hub.Observation{Attributes: []hub.Attribute{{Name: "tenantid", Value: "acme"}}}},
		{name: "an_impossible_tenant_is_none", lines: []string{"ce-tenantid=a/b"},
			want: hub.Observation{Attributes: []hub.Attribute{{Name: "tenantid", Value: "a/b"}}}},
		{name: "text_is_made_storable", lines: []string{"ce-id=a\x00\xffb", "ce-b\xffd=1", "x-lerian-dlq-error-message=\x00"},
			want: hub.Observation{Attributes: []hub.Attribute{{Name: "b?d", Value: "1"}, {Name: "id", Value: "a\uFFFD\uFFFDb"}}, ErrorMessage: "\uFFFD"}},
		{name: "an_error_message_is_cut_at_a_character", lines: []string{"x-lerian-dlq-error-message=" + strings.Repeat("é", 3000)},
			want: hub.Observation{ErrorMessage: strings.Repeat("é", 2048)}},
		{name: "attributes_are_bounded_together", lines: []string{"ce-a=" + strings.Repeat("x", 17<<10), "ce-b=1"},
			want: hub.Observation{Attributes: []hub.Attribute{{Name: "a", Value: strings.Repeat("x", 16<<10-1)}}, AttributesCut: true}},
		{name: "other_headers_carry_no_meaning", lines: []string{"x-other-dlq-error-class=A", "x-lerian-error-class=B"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.want.Record = hub.RecordPosition{Topic: dlqTopic, Partition: 3, Offset: 42}
			c.want.BodyBytes, c.want.KeptBytes = 2, 2
			if c.want.Writer == "" {
				c.want.Writer = hub.WriterProducer
			}
			if diff := cmp.Diff(c.want, wire.Observe(wire.DefaultHeaderPrefix, deadLetter(c.lines...))); diff != "" {
				t.Error(diff)
			}
		})
	}
	t.Run("the_header_prefix_is_a_setting", func(t *testing.T) {
		if o := wire.Observe("X-Acme-", deadLetter("x-acme-dlq-error-class=A")); o.ErrorClass != "A" {
			t.Errorf("%+v", o)
		}
	})
	t.Run("64_KiB_of_the_body_are_kept", func(t *testing.T) {
		rec := deadLetter()
		rec.Value = make([]byte, 100_000)
		if o := wire.Observe(wire.DefaultHeaderPrefix, rec); o.BodyBytes != 100_000 || o.KeptBytes != 64<<10 {
			t.Errorf("%+v", o)
		}
	})
}

// FuzzObserve: no record makes Observe panic, and what it gives can be stored.
func FuzzObserve(f *testing.F) {
	f.Add("X-Lerian-", "ce-id=1\nce-tenantid=acme\nx-lerian-dlq-error-message=é")
	f.Add("", "dlq-source-partition=1\ndlq-source-offset=2\ndlq-cause-kind=codec\ndlq-first-failure-at=0000-01-01T00:00:00+23:59")
	f.Add("\xff", "ce-\xff=\x00\nce_=1\ncE-a=1\nce-A=2")
	f.Fuzz(func(t *testing.T, prefix, lines string) {
		o := wire.Observe(prefix, deadLetter(strings.Split(lines, "\n")...))
		texts := []string{string(o.Tenant), o.SourceTopic, o.ErrorClass, o.ErrorMessage, o.ProducerID, o.CauseKind}
		total := 0
		for i, a := range o.Attributes {
			texts = append(texts, a.Name, a.Value)
			total += len(a.Name) + len(a.Value)
			if i > 0 && o.Attributes[i-1].Name >= a.Name {
				t.Fatalf("attribute %q is not in order", a.Name)
			}
		}
		for _, s := range texts {
			if !utf8.ValidString(s) || strings.ContainsRune(s, 0) {
				t.Fatalf("%q cannot be stored", s)
			}
		}
		if total > 16<<10 || len(o.ErrorMessage) > 4096 || o.Writer != hub.WriterProducer && o.Writer != hub.WriterConsumer {
			t.Fatalf("%+v", o)
		}
		if _, err := o.FirstFailureAt.MarshalText(); err != nil {
			t.Fatal(err)
		}
	})
}
