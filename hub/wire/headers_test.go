package wire_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/streaming-hub/streaming-hub/hub"
	"github.com/streaming-hub/streaming-hub/hub/wire"
)

var (
	attempt  = hub.AttemptID{ID: hub.NewID(time.UnixMilli(2), bytes.NewReader(make([]byte, 10)))}
	delivery = hub.Delivery{ID: hub.DeliveryID{ID: hub.NewID(time.UnixMilli(1), bytes.NewReader(make([]byte, 10)))}}
)

func headersOf(ev *hub.Event, prefix string) []hub.Header {
	return wire.WebhookHeaders(nil, prefix, ev, &delivery, attempt, 3, time.UnixMilli(1764410400_999))
}

func valueOf(headers []hub.Header, name string) string {
	for _, h := range headers {
		if h.Name == name {
			return h.Value
		}
	}
	return ""
}

func TestWebhookHeaders(t *testing.T) {
	v := wire.DefaultRules().Judge(with(record("ce-subject=say \"hi\"", "ce-dataschema=https://x/s", "ce-zone=EU", "ce-id=a é"),
		header("traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"), header("tracestate", "a=1")))
	v.Event.Seq = 12345678901
	want := []hub.Header{
		{Name: "Content-Type", Value: "application/json"},
		{Name: "X-Lerian-Event-Id", Value: "a%20%C3%A9"},
		{Name: "X-Lerian-Delivery-Id", Value: "00000000-0002-7000-8000-000000000000"},
		{Name: "X-Lerian-Event-Type", Value: "loan_application.approved"},
		{Name: "X-Lerian-Event-Source", Value: "lender"},
		{Name: "X-Lerian-Schema-Version", Value: "1.0.0"},
		{Name: "X-Lerian-Tenant-Id", Value: "t1"},
		{Name: "X-Lerian-Seq", Value: "12345678901"},
		{Name: "X-Lerian-Attempt", Value: "3"},
		{Name: "X-Lerian-Timestamp", Value: "1764410400"},
		{Name: "webhook-id", Value: "00000000-0001-7000-8000-000000000000"},
		{Name: "webhook-timestamp", Value: "1764410400"},
		{Name: "ce-specversion", Value: "1.0"},
		{Name: "ce-id", Value: "a%20%C3%A9"},
		{Name: "ce-source", Value: "lender"},
		{Name: "ce-type", Value: "studio.lerian.lender.loan_application.approved"},
		{Name: "ce-time", Value: "2026-11-29T10:00:00Z"},
		{Name: "ce-subject", Value: "say%20%22hi%22"},
		{Name: "ce-dataschema", Value: "https://x/s"},
		{Name: "ce-schemaversion", Value: "1.0.0"},
		{Name: "ce-resourcetype", Value: "loan_application"},
		{Name: "ce-eventtype", Value: "approved"},
		{Name: "ce-tenantid", Value: "t1"},
		{Name: "ce-zone", Value: "EU"},
		{Name: "traceparent", Value: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"},
		{Name: "tracestate", Value: "a=1"},
	}
	if diff := cmp.Diff(want, headersOf(&v.Event, "X-Lerian-")); diff != "" {
		t.Error(diff)
	}
	if got := valueOf(headersOf(&v.Event, "X-Acme-"), "X-Acme-Seq"); got != "12345678901" {
		t.Errorf("another prefix: %q", got)
	}
}

func TestWebhookHeaders_content_type(t *testing.T) {
	for given, want := range map[string]string{
		"":                              "application/json",
		"  ":                            "application/json",
		"text/plain; charset=\"utf-8\"": "text/plain; charset=\"utf-8\"",
		" a/b ":                         "a/b",
		"text/naïve":                    "text/na%C3%AFve",
		"100%":                          "100%",
	} {
		if got := valueOf(headersOf(&hub.Event{ContentType: given}, "X-"), "Content-Type"); got != want {
			t.Errorf("%q is sent as %q, want %q", given, got, want)
		}
	}
}

func TestEncode_as_the_HTTP_binding(t *testing.T) {
	for given, want := range map[string]string{
		"": "", "plain": "plain", "a%20b": "a%2520b", "100%": "100%25", "naïve ☃": "na%C3%AFve%20%E2%98%83",
		`say "hi"`: "say%20%22hi%22", "~!#": "~!#", "€": "%E2%82%AC", "\x7f": "%7F",
	} {
		if got := wire.Encode(given); got != want {
			t.Errorf("Encode(%q) = %q, want %q", given, got, want)
		}
	}
}

func TestWebhookHeaders_are_legal_whatever_the_event_holds(t *testing.T) {
	nasty := "é\r\nX: 1\x00\x7f\xff%\" "
	ev := hub.Event{CEID: nasty, CEType: nasty, ResourceType: nasty, EventType: nasty, SchemaVersion: nasty, Time: nasty,
		Subject: nasty, ContentType: nasty, DataSchema: nasty, Extensions: []hub.Attribute{{Name: "x", Value: nasty}}}
	for _, h := range headersOf(&ev, "X-Lerian-") {
		if strings.ContainsFunc(h.Value, func(r rune) bool { return r < 0x20 || r > 0x7e }) {
			t.Errorf("%s holds %q", h.Name, h.Value)
		}
	}
}

func BenchmarkWebhookHeaders(b *testing.B) {
	v := wire.DefaultRules().Judge(record())
	var dst []hub.Header
	b.ReportAllocs()
	for b.Loop() {
		dst = wire.WebhookHeaders(dst[:0], "X-Lerian-", &v.Event, &delivery, attempt, 1, time.Unix(1764410400, 0))
	}
}
