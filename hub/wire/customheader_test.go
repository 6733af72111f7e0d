package wire_test

import (
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/streaming-hub/streaming-hub/hub"
	"github.com/streaming-hub/streaming-hub/hub/wire"
)

func TestCheckCustomHeader(t *testing.T) {
	for _, row := range []struct {
		rule, name, value string
		says              string // "" when it may be sent
	}{
		{"plain", "X-Team", "blue", ""},
		{"any_case", "x-TEAM", "Blue", ""},
		{"every_token_character", "a!#$%&'*+-.^_`|~9", "x", ""},
		{"inner_spaces", "X-A", "a  b", ""},
		{"padding_is_trimmed", "X-A", " \ta\t ", ""},
		{"empty_value", "X-A", "", ""},
		{"only_padding", "X-A", "  ", ""},
		{"idempotency_key", "Idempotency-Key", "x", ""},
		{"name_of_128", strings.Repeat("n", 128), "x", ""},
		{"value_of_4_KiB", "X-A", strings.Repeat("v", 4096), ""},
		{"like_a_reserved_name", "X-Host", "x", ""},
		{"content", "Content", "x", ""},

		{"name_of_129", strings.Repeat("n", 129), "x", "129 bytes"},
		{"value_of_4_KiB_and_1", "X-A", strings.Repeat("v", 4097), "4097 bytes"},
		{"no_name", "", "x", "no name"},
		{"space_in_the_name", "Bad Name", "x", "Bad Name"},
		{"colon", "X:A", "x", "X:A"},
		{"pseudo_header", ":path", "x", ":path"},
		{"name_outside_ascii", "X-é", "x", "X-é"},
		{"line_end_in_the_name", "X-A\r\nX-Evil", "x", "letters"},
		{"nul_in_the_name", "X\x00", "x", "letters"},
		{"line_end", "X-A", "a\r\nX-Evil: 1", "X-A"},
		{"lone_line_feed", "X-A", "a\nb", "X-A"},
		{"nul", "X-A", "a\x00b", "X-A"},
		{"inner_tab", "X-A", "a\tb", "X-A"},
		{"delete", "X-A", "a\x7f", "X-A"},
		{"outside_ascii", "X-A", "é", "X-A"},

		{"host", "Host", "x", "set by the hub"},
		{"user_agent", "user-agent", "x", "set by the hub"},
		{"trace", "traceparent", "x", "set by the hub"},
		{"trace_state", "TraceState", "x", "set by the hub"},
		{"content_type", "Content-Type", "x", "content-"},
		{"content_length", "content-length", "1", "content-"},
		{"content_encoding", "CONTENT-ENCODING", "gzip", "content-"},
		{"signature", "X-Lerian-Signature", "x", "X-Lerian-"},
		{"own_prefix", "x-lerian-team", "x", "X-Lerian-"},
		{"own_prefix_by_underscores", "X_Lerian_Signature", "x", "X-Lerian-"},
		{"standard_webhooks", "Webhook-Signature", "x", "webhook-"},
		{"standard_webhooks_by_underscores", "WEBHOOK_ID", "x", "webhook-"},
		{"cloud_event", "CE-Id", "x", "ce-"},
		{"cloud_event_by_underscores", "ce_id", "x", "ce-"},
		{"authorization", "Authorization", "Bearer x", "credential"},
		{"cookie", "Cookie", "a=b", "credential"},
		{"connection", "Connection", "close", "connection"},
		{"keep_alive", "Keep-Alive", "x", "connection"},
		{"proxy_authorization", "Proxy-Authorization", "x", "connection"},
		{"proxy_connection", "Proxy-Connection", "x", "connection"},
		{"te", "TE", "trailers", "connection"},
		{"trailer", "Trailer", "x", "connection"},
		{"transfer_encoding", "Transfer-Encoding", "chunked", "connection"},
		{"transfer_encoding_by_underscores", "Transfer_Encoding", "chunked", "connection"},
		{"upgrade", "Upgrade", "h2c", "connection"},
		{"http2_settings", "HTTP2-Settings", "x", "connection"},
		{"expect", "Expect", "100-continue", "request is sent"},
	} {
		t.Run(row.rule, func(t *testing.T) {
			err := wire.CheckCustomHeader(row.name, row.value)
			if (err == nil) != (row.says == "") {
				t.Fatalf("CheckCustomHeader = %v", err)
			}
			if err != nil && (!strings.Contains(err.Error(), row.says) || strings.ContainsAny(err.Error(), "\r\n\x00")) {
				t.Errorf("says %q, which should name %q", err, row.says)
			}
		})
	}
}

func TestCustomHeaders(t *testing.T) {
	numbered := func(n int) []hub.Header {
		list := make([]hub.Header, n)
		for i := range list {
			list[i] = hub.Header{Name: "X-" + strconv.Itoa(i), Value: "v"}
		}
		return list
	}
	t.Run("order_kept_and_padding_trimmed", func(t *testing.T) {
		given := []hub.Header{{Name: "X-B", Value: " b \t"}, {Name: "X-A", Value: "a b"}}
		got, err := wire.CustomHeaders("X-Acme-", given)
		if diff := cmp.Diff([]hub.Header{{Name: "X-B", Value: "b"}, {Name: "X-A", Value: "a b"}}, got); err != nil || diff != "" {
			t.Errorf("%v, %s", err, diff)
		}
		if given[0].Value != " b \t" {
			t.Error("the list given was changed")
		}
	})
	t.Run("at_most_32", func(t *testing.T) {
		if _, err := wire.CustomHeaders("", numbered(32)); err != nil {
			t.Error(err)
		}
		if _, err := wire.CustomHeaders("", numbered(33)); err == nil {
			t.Error("33 were accepted")
		}
	})
	for _, twin := range []string{"x-a", "X_A"} {
		if _, err := wire.CustomHeaders("", []hub.Header{{Name: "X-A", Value: "1"}, {Name: twin, Value: "2"}}); err == nil {
			t.Errorf("X-A and %s were accepted together", twin)
		}
	}
	t.Run("own_names_follow_the_prefix", func(t *testing.T) {
		if _, err := wire.CustomHeaders("X-Acme-", []hub.Header{{Name: "x-acme-signature", Value: "1"}}); err == nil {
			t.Error("a name of the hub's own was accepted")
		}
		if _, err := wire.CustomHeaders("X-Acme-", []hub.Header{{Name: "X-Lerian-Signature", Value: "1"}}); err != nil {
			t.Error(err)
		}
	})
}

func TestCheckCredentialHeader(t *testing.T) {
	for name, want := range map[string]bool{
		"Authorization": true, "authorization": true, "Cookie": true, "X-Api-Key": true,
		"Host": false, "X-Lerian-Signature": false, "webhook-id": false, "ce-id": false, "Content-Type": false,
		"Proxy-Authorization": false, "Bad Name": false, "": false,
	} {
		if err := wire.CheckCredentialHeader("", name, "Bearer s3cret"); (err == nil) != want {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, value := range []string{"", " s3cret", "s3cret ", "s3cret\r\nX: 1", "s3cr\u00e9t", strings.Repeat("s3cret", 1000)} {
		if err := wire.CheckCredentialHeader("", "Authorization", value); err == nil || strings.Contains(err.Error(), "s3cr") {
			t.Errorf("%.20q: %v", value, err)
		}
	}
}
