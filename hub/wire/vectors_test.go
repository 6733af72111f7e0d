package wire_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/streaming-hub/streaming-hub/hub/wire"
)

type vectorText struct {
	UTF8   string `json:"utf8"`
	Base64 []byte `json:"base64"`
	Repeat []any  `json:"repeat"`
}

func (v *vectorText) bytes() []byte {
	switch {
	case v == nil:
		return nil
	case len(v.Repeat) == 2:
		return []byte(strings.Repeat(v.Repeat[0].(string), int(v.Repeat[1].(float64))))
	case v.Base64 != nil:
		return v.Base64
	default:
		return []byte(v.UTF8)
	}
}

func TestVectors(t *testing.T) {
	text, err := os.ReadFile("testdata/wire.json")
	if err != nil {
		t.Fatal(err)
	}
	var vectors struct {
		Rows []struct {
			Name    string
			Topic   string
			Headers [][2]json.RawMessage
			Body    *vectorText
			Verdict string
			Reason  string
		}
	}
	if err := json.Unmarshal(text, &vectors); err != nil {
		t.Fatal(err)
	}
	for _, row := range vectors.Rows {
		t.Run(row.Name, func(t *testing.T) {
			rec := wire.Record{Topic: row.Topic, Partition: 3, Offset: 41, Value: row.Body.bytes()}
			for _, h := range row.Headers {
				var key string
				var value vectorText
				if err := json.Unmarshal(h[0], &key); err != nil {
					t.Fatal(err)
				}
				if err := json.Unmarshal(h[1], &value); err != nil {
					t.Fatal(err)
				}
				rec.Headers = append(rec.Headers, wire.Header{Key: key, Value: value.bytes()})
			}
			v := wire.DefaultRules().Judge(rec)
			if v.Kind.String() != row.Verdict || string(v.Reason) != row.Reason {
				t.Errorf("Judge = %s %s, want %s %s", v.Kind, v.Reason, row.Verdict, row.Reason)
			}
			if p := v.Event.Record; p.Topic != row.Topic || p.Partition != 3 || p.Offset != 41 {
				t.Errorf("the verdict lost the record's position: %+v", p)
			}
		})
	}
	if len(vectors.Rows) < 65 {
		t.Fatalf("only %d rows", len(vectors.Rows))
	}
}
