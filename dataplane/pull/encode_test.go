package pull

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/streaming-hub/streaming-hub/hub"
)

func TestAppendEvent_payload(t *testing.T) {
	deep := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	for name, c := range map[string]struct {
		body string
		json bool
	}{
		"big_numbers":         {`{"n":12345678901234567890123,"f":1.0,"e":1E400}`, true},
		"order_and_repeats":   {`{"b":2, "a":1.0,"a":2,"<&>":"\u003c\u2028 é"}`, true},
		"space_around":        {"\n\t {\"a\" : 1}\r\n", true},
		"scalar":              {`"text with \"quotes\" [{"`, true},
		"null":                {`null`, true},
		"500_deep":            {deep(500), true},
		"501_deep":            {deep(501), false},
		"empty":               {"", false},
		"two_values":          {`{} {}`, false},
		"text":                {"hello", false},
		"not_a_number":        {`{"n":NaN}`, false},
		"byte_order_mark":     {"\xef\xbb\xbf{}", false},
		"not_UTF-8":           {"{\"a\":\"\xff\"}", false},
		"binary":              {"\x00\x01\x02", false},
		"control_in_a_string": {"\"a\nb\"", false},
	} {
		t.Run(name, func(t *testing.T) {
			e := fact("lender", "loan", "approved", 1, c.body)
			for _, raw := range []bool{false, true} {
				var b bytes.Buffer
				if err := appendEvent(&b, &e, raw); err != nil {
					t.Fatal(err)
				}
				var g struct {
					Payload       json.RawMessage `json:"payload"`
					PayloadBase64 *string         `json:"payload_base64"`
				}
				if err := json.Unmarshal(b.Bytes(), &g); err != nil {
					t.Fatalf("%v: %s", err, b.Bytes())
				}
				if c.json && !raw {
					if !bytes.HasSuffix(b.Bytes(), []byte(`,"payload":`+c.body+"}")) || g.PayloadBase64 != nil {
						t.Errorf("not verbatim: %s", b.Bytes())
					}
					continue
				}
				if g.Payload != nil || g.PayloadBase64 == nil || *g.PayloadBase64 != base64.StdEncoding.EncodeToString([]byte(c.body)) {
					t.Errorf("raw %t: %s", raw, b.Bytes())
				}
			}
		})
	}
}

func TestAppendEvent_attributes(t *testing.T) {
	e := fact("lender", "loan", "approved", 2, `{}`)
	e.Seq, e.Tenant, e.Record = 9007199254740993, "acme", hub.RecordPosition{Topic: "t", Partition: 7, Offset: 9007199254740995}
	e.Subject, e.Extensions = `<"naïve" ☃>`, []hub.Attribute{{Name: "region", Value: "100%"}}
	var b bytes.Buffer
	if err := appendEvent(&b, &e, false); err != nil {
		t.Fatal(err)
	}
	var all map[string]any
	if err := json.Unmarshal(b.Bytes(), &all); err != nil {
		t.Fatal(err)
	}
	delete(all, "id")
	delete(all, "ce_id")
	want := map[string]any{
		"tenant_id": "acme", "seq": "9007199254740993", "source": "lender", "ce_type": e.CEType, "event_type": "loan.approved",
		"schema_version": "2", "schema_major": 2.0, "time": e.Time, "received_at": "0001-01-01T00:00:00Z", "subject": e.Subject,
		"extensions": map[string]any{"region": "100%"}, "size_bytes": 2.0, "payload": map[string]any{},
		"kafka": map[string]any{"topic": "t", "partition": 7.0, "offset": "9007199254740995"},
	}
	if diff := cmp.Diff(want, all); diff != "" {
		t.Error(diff)
	}
}
