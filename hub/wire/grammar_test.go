package wire

import (
	"regexp"
	"strings"
	"testing"
)

func TestTime(t *testing.T) {
	for s, want := range map[string]bool{
		"2026-11-29T10:00:00Z":                true,
		"2024-05-01t10:00:00z":                true, // RFC 3339 takes lower case
		"2024-05-01T10:00:00.123456789+05:30": true,
		"2024-05-01T10:00:00.1234567890123Z":  true, // any number of digits
		"2024-05-01T10:00:00-00:00":           true,
		"0001-01-01T00:00:00Z":                true,
		"9999-12-31T23:59:59Z":                true,
		"2024-02-29T00:00:00Z":                true,
		"2000-02-29T00:00:00Z":                true,
		"2023-02-29T00:00:00Z":                false,
		"1900-02-29T00:00:00Z":                false,
		"1990-12-31T23:59:60Z":                true, // leap second
		"1990-12-31T15:59:60-08:00":           true,
		"2017-01-01T05:29:60+05:30":           true,
		"2015-07-01T00:29:60+00:30":           true,
		"2016-12-31T23:59:60.5Z":              true,
		"1990-12-30T23:59:60Z":                false, // not the end of a month
		"1990-12-31T22:59:60Z":                false,
		"1990-12-31T23:59:60+01:00":           false,
		"2024-05-01T10:00:60Z":                false,
		"2024-05-01T10:00:61Z":                false,
		"2024-05-01T10:00Z":                   false,
		"2024-05-01T10:00:00GMT":              false,
		"2024-05-01T10:00:00":                 false,
		"2024-05-01 10:00:00Z":                false,
		"2024-05-01T24:00:00Z":                false,
		"2024-05-01T10:60:00Z":                false,
		"2024-05-01T9:00:00Z":                 false,
		"2024-05-01T10:00:00,5Z":              false,
		"2024-05-01T10:00:00.Z":               false,
		"2024-05-01T10:00:00.5":               false,
		"2024-05-01T10:00:00+24:00":           false,
		"2024-05-01T10:00:00+05:60":           false,
		"2024-05-01T10:00:00+0530":            false,
		"2024-05-01T10:00:00+05":              false,
		"2024-05-01T10:00:00ZZ":               false,
		"2024-00-01T10:00:00Z":                false,
		"2024-13-01T10:00:00Z":                false,
		"2024-04-31T10:00:00Z":                false,
		"2024-05-00T10:00:00Z":                false,
		"+024-05-01T10:00:00Z":                false,
		"２024-05-01T10:00:00Z":                false,
		"":                                    false,
	} {
		if got := isTime(s); got != want {
			t.Errorf("isTime(%q) = %v", s, got)
		}
	}
}

func TestSchemaMajor(t *testing.T) {
	for s, want := range map[string]int32{
		"1": 1, "v1": 1, "1.0": 1, "v1.0.0": 1, "0": 0, "0.0.0": 0, "10.20.30": 10,
		"1.0.0-alpha": 1, "1.0.0-0.3.7": 1, "1.0.0-x-y.z": 1, "1.0.0+001": 1, "v3.1.4-rc.1+b.0001": 3,
		"2147483647": 2147483647, "1.99999999999999999999.0": 1,
		"2147483648": -1, "99999999999999999999.0.0": -1, "": -1, "v": -1, "V1": -1, "vv1": -1, "-1": -1, "+1": -1,
		"1.": -1, ".1": -1, "1..0": -1, "1.0.0.0": -1, "01": -1, "1.00": -1, "1.0.0-": -1, "1.0.0+": -1,
		"1.0.0-01": -1, "1.0.0-a..b": -1, "1.0.0-a_b": -1, "1-alpha": -1, "1.0-alpha": -1, "1.0+b": -1, "latest": -1, " 1": -1, "1 ": -1, "1.x": -1,
	} {
		got, ok := schemaMajor(s)
		if !ok {
			got = -1
		}
		if got != want {
			t.Errorf("schemaMajor(%q) = %d, %v; want %d", s, got, ok, want)
		}
	}
}

func TestTopics(t *testing.T) {
	facts := regexp.MustCompile(FollowTopics("lerian.streaming"))
	dead := regexp.MustCompile(FollowDeadLetterTopics("lerian.streaming"))
	for topic, want := range map[string]string{
		"lerian.streaming.lender":          "lender",
		"lerian.streaming.0-a_b":           "0-a_b",
		"lerian.streaming.lender.dlq":      "",
		"lerian.streaming.lender.commands": "",
		"lerian.streaming.":                "",
		"lerian.streaming":                 "",
		"lerian.streaming.Lender":          "",
		"lerian.streaming._x":              "",
		"lerianXstreaming.lender":          "",
		"x.lerian.streaming.lender":        "",
		"lerian.streaming.lender\n":        "",
	} {
		got, ok := SourceOfTopic("lerian.streaming", topic)
		if got != want || ok != (want != "") || ok != facts.MatchString(topic) {
			t.Errorf("%q: source %q %v, followed %v", topic, got, ok, facts.MatchString(topic))
		}
		if isDead := strings.HasSuffix(topic, "lender.dlq"); isDead != dead.MatchString(topic) {
			t.Errorf("%q: followed as dead letters: %v", topic, !isDead)
		}
	}
}

func TestTraceContext(t *testing.T) {
	const ok = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	for _, row := range []struct{ rule, parent, state, wantParent, wantState string }{
		{"kept", ok, "a=1", ok, "a=1"},
		{"later_version_may_be_longer", "01" + ok[2:] + "-x", "", "01" + ok[2:] + "-x", ""},
		{"version_00_has_one_length", ok + "-x", "", "", ""},
		{"version_ff_is_forbidden", "ff" + ok[2:], "", "", ""},
		{"zero_trace_id", "00-00000000000000000000000000000000-00f067aa0ba902b7-01", "", "", ""},
		{"upper_case", strings.ToUpper(ok), "", "", ""},
		{"state_alone_is_dropped", "", "a=1", "", ""},
		{"state_goes_with_a_bad_parent", "nonsense", "a=1", "", ""},
		{"state_with_controls_is_dropped", ok, "a=1\r\nx: y", ok, ""},
		{"state_too_long_is_dropped", ok, strings.Repeat("a", 1025), ok, ""},
	} {
		t.Run(row.rule, func(t *testing.T) {
			p, s := traceContext(row.parent, row.state)
			if p != row.wantParent || s != row.wantState {
				t.Errorf("got %q, %q", p, s)
			}
		})
	}
}
