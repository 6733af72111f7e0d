package scalar

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
)

func TestUnmarshalDateTime(t *testing.T) {
	moment := time.Date(2026, 1, 31, 12, 4, 5, 500_000_000, time.UTC)
	for text, want := range map[string]time.Time{
		"2026-01-31T12:04:05.5Z":         moment,
		"2026-01-31T14:04:05.500+02:00":  moment,
		"2026-01-31t12:04:05.5z":         moment,
		"2026-01-31T12:04:05.500000001Z": moment.Add(1),
		"0001-01-01T00:00:00Z":           {},
	} {
		if got, err := UnmarshalDateTime(text); err != nil || !got.Equal(want) {
			t.Errorf("%s is %s, %v", text, got, err)
		}
	}
	for _, v := range []any{"2026-01-31T12:04:05,5Z", "2026-01-31T1:04:05Z", "2026-01-31T12:04:05", "2026-01-31 12:04:05Z", "2026-01-31", "2026-02-30T00:00:00Z",
		"2026-01-31T24:00:00Z", "2026-01-31T12:04:05+24:00", "", 5, nil} {
		if got, err := UnmarshalDateTime(v); err == nil {
			t.Errorf("%v is read as %s", v, got)
		}
	}
}

func TestDuration(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"PT15S": 15 * time.Second, "PT1M24.8S": 84_800 * time.Millisecond, "P1DT1H": 25 * time.Hour, "PT0S": 0, "PT0.000001S": time.Microsecond, "-PT5S": -5 * time.Second,
	} {
		got, err := UnmarshalDuration(text)
		if err != nil || got != want {
			t.Errorf("%s is %s, %v", text, got, err)
		}
		if again, err := UnmarshalDuration(FormatDuration(want)); err != nil || again != want {
			t.Errorf("%s is written as %s", want, FormatDuration(want))
		}
	}
	for _, v := range []any{"15s", "15", "", "P1W", "P1M", "P1Y", "PT999999H", "PT1e9S", "P", "PT", strings.Repeat("PT1S", 20), 15, nil} {
		if got, err := UnmarshalDuration(v); err == nil {
			t.Errorf("%v is read as %s", v, got)
		}
	}
}

func TestUnmarshalBigInt(t *testing.T) {
	for _, v := range []any{"9007199254740993", json.Number("9007199254740993"), int64(9007199254740993)} {
		if got, err := UnmarshalBigInt(v); err != nil || got != 9007199254740993 {
			t.Errorf("%v is %d, %v", v, got, err)
		}
	}
	for _, v := range []any{"1.0", "1e3", "0x10", "", " 1", "9223372036854775808", 1.5, true, nil, json.Number("1.5")} {
		if got, err := UnmarshalBigInt(v); err == nil {
			t.Errorf("%v is read as %d", v, got)
		}
	}
}
