package tracing

import (
	"bytes"
	"crypto/rand"
	"strings"
	"testing"
	"time"

	"github.com/streaming-hub/streaming-hub/hub"
)

const (
	producerTrace = "4bf92f3577b34da6a3ce929d0e0e4736"
	producerSpan  = "00f067aa0ba902b7"
)

func eventID(t testing.TB, text string) hub.EventID {
	t.Helper()
	id, err := hub.ParseID(text)
	if err != nil {
		t.Fatal(err)
	}
	return hub.EventID{ID: id}
}

func TestOriginOf(t *testing.T) {
	id := eventID(t, "01931234-5678-7abc-8def-0123456789ab")
	for name, c := range map[string]struct {
		parent                string
		ratio                 float64
		followed              bool
		trace, parentID, flag string
	}{
		"sampled_is_followed_whatever_the_ratio":   {"00-" + producerTrace + "-" + producerSpan + "-01", 0, true, producerTrace, producerSpan, "01"},
		"unsampled_is_not_whatever_the_ratio":      {parent: "00-" + producerTrace + "-" + producerSpan + "-00", ratio: 1},
		"flag_of_random_trace_ids_is_kept":         {"00-" + producerTrace + "-" + producerSpan + "-03", 0, true, producerTrace, producerSpan, "03"},
		"flags_that_nobody_knows_are_not":          {"00-" + producerTrace + "-" + producerSpan + "-fd", 0, true, producerTrace, producerSpan, "01"},
		"unsampled_with_other_flags":               {parent: "00-" + producerTrace + "-" + producerSpan + "-02", ratio: 1},
		"later_version_is_read_as_far_as_known":    {"cc-" + producerTrace + "-" + producerSpan + "-01-more", 0, true, producerTrace, producerSpan, "01"},
		"without_a_parent_the_event_begins_one":    {"", 1, true, strings.ReplaceAll(id.String(), "-", ""), "0000000000000000", "01"},
		"without_a_parent_and_not_in_the_share":    {"", 0, false, "", "", ""},
		"what_does_not_parse_is_not_followed":      {parent: "00-" + producerTrace + "-01", ratio: 1},
		"what_is_not_hex_is_not_followed":          {parent: "00-" + strings.Repeat("x", 32) + "-" + producerSpan + "-01", ratio: 1},
		"flags_that_do_not_parse_are_not_followed": {parent: "00-" + producerTrace + "-" + producerSpan + "-0x", ratio: 1},
	} {
		t.Run(name, func(t *testing.T) {
			o, followed := originOf(&hub.Event{ID: id, TraceParent: c.parent}, thresholdOf(c.ratio))
			if followed != c.followed {
				t.Fatalf("followed = %v", followed)
			}
			if followed && (o.trace.String() != c.trace || o.parent.String() != c.parentID || o.flags.String() != c.flag) {
				t.Errorf("origin = %s %s %s", o.trace, o.parent, o.flags)
			}
		})
	}
}

// TestThreshold looks at ids as ingest makes them, thousands within one
// millisecond, and as everybody else does.
func TestThreshold(t *testing.T) {
	now := time.Now()
	batch := hub.NewIDs(now, rand.Reader)
	for name, next := range map[string]func() hub.ID{
		"ids_of_one_batch": batch.Next,
		"single_ids":       func() hub.ID { return hub.NewID(now, rand.Reader) },
		"random_trace_ids": func() hub.ID { return hub.ID(randomTrace()) },
	} {
		t.Run(name, func(t *testing.T) {
			const ids = 40_000
			tenth := 0
			for range ids {
				id := next()
				if thresholdOf(0).has(id) || !thresholdOf(1).has(id) {
					t.Fatalf("%s is in a share of nothing, or not in one of everything", id)
				}
				if thresholdOf(0.1).has(id) {
					tenth++
					if !thresholdOf(0.5).has(id) {
						t.Fatalf("%s is in a tenth and not in the half", id)
					}
				}
			}
			// Ten standard deviations around the mean.
			if tenth < ids/10-600 || tenth > ids/10+600 {
				t.Errorf("%d of %d ids are in a tenth", tenth, ids)
			}
		})
	}
	last := hub.ID(bytes.Repeat([]byte{0xff}, 16))
	if !thresholdOf(1).has(last) || !thresholdOf(2).has(last) || thresholdOf(-1).has(hub.ID{}) {
		t.Error("the bounds are not within the share")
	}
}

func TestEndpointURL(t *testing.T) {
	for raw, want := range map[string]string{
		"http://collector:4318":                "http://collector:4318/v1/traces",
		"http://collector:4318/":               "http://collector:4318/v1/traces",
		"https://example.com/otlp/v1/traces":   "https://example.com/otlp/v1/traces",
		"https://example.com/traces/otlp/v0.9": "https://example.com/traces/otlp/v0.9",
		"collector:4318":                       "",
		"localhost":                            "",
		"grpc://collector:4317":                "",
		"http://":                              "",
		"https://user:hunter2@example.com":     "",
		"https://example.com/?key=hunter2":     "",
		"https://example.com/#hunter2":         "",
		"https://example.com/\nhunter2":        "",
	} {
		got, err := endpointURL(raw)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%q is sent to %q, %v; want %q", raw, got, err, want)
		}
		if err != nil && strings.Contains(err.Error(), "hunter2") {
			t.Errorf("the error tells a secret: %v", err)
		}
	}
}

func TestParseHeaders(t *testing.T) {
	got, err := parseHeaders(" api-key = a%2Cb%3D , authorization=Basic%20eDp5,,")
	if err != nil || len(got) != 2 || got["api-key"] != "a,b=" || got["authorization"] != "Basic eDp5" {
		t.Errorf("headers = %v, %v", got, err)
	}
	for _, bad := range []string{"hunter2", "=hunter2", "a b=hunter2", "key=hunter2%0a", "key=hunter2%zz"} {
		if _, err := parseHeaders(bad); err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%q: %v", bad, err)
		}
	}
}
