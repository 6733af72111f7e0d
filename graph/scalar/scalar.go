// Package scalar writes and reads the API's own scalar types.
package scalar

import (
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/99designs/gqlgen/graphql"
	"github.com/sosodev/duration"
)

// Error is a value that a scalar does not take; its text is for the caller.
type Error string

func (e Error) Error() string { return string(e) }

func errorf(format string, args ...any) error { return Error(fmt.Sprintf(format, args...)) }

// MarshalDateTime writes RFC 3339 in UTC with microseconds, the resolution of
// the database.
func MarshalDateTime(t time.Time) graphql.Marshaler {
	return graphql.MarshalString(t.UTC().Truncate(time.Microsecond).Format(time.RFC3339Nano))
}

// rfc3339 is what time.Parse is not strict about: two digits of the hour, a
// point before the fraction, offsets below 24 hours.
var rfc3339 = regexp.MustCompile(`^.{10}[Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]([01]\d|2[0-3]):[0-5]\d)$`)

// UnmarshalDateTime reads RFC 3339.
func UnmarshalDateTime(v any) (time.Time, error) {
	s, ok := v.(string)
	if !ok {
		return time.Time{}, Error("a DateTime is a string in RFC 3339")
	}
	if t, err := time.Parse(time.RFC3339Nano, strings.ToUpper(s)); err == nil && rfc3339.MatchString(s) {
		return t, nil
	}
	return time.Time{}, errorf("%.40q is not an RFC 3339 time", s)
}

// MarshalDuration writes ISO 8601 in seconds and, from a minute on, larger
// units: PT0.0042S, PT1M24.8S.
func MarshalDuration(d time.Duration) graphql.Marshaler {
	return graphql.MarshalString(FormatDuration(d))
}

// FormatDuration is ISO 8601 with hours as the largest unit, exact to the
// nanosecond.
func FormatDuration(d time.Duration) string {
	var b strings.Builder
	if d < 0 {
		b.WriteByte('-')
		d = -d
	}
	b.WriteString("PT")
	if h := d / time.Hour; h > 0 {
		fmt.Fprintf(&b, "%dH", h)
		d -= h * time.Hour
	}
	if m := d / time.Minute; m > 0 {
		fmt.Fprintf(&b, "%dM", m)
		d -= m * time.Minute
	}
	if d > 0 || strings.HasSuffix(b.String(), "T") {
		text := fmt.Sprintf("%d.%09d", d/time.Second, d%time.Second)
		b.WriteString(strings.TrimRight(strings.TrimRight(text, "0"), "."))
		b.WriteByte('S')
	}
	return b.String()
}

// UnmarshalDuration reads ISO 8601 without weeks, months and years, whose
// length is not fixed.
func UnmarshalDuration(v any) (time.Duration, error) {
	s, ok := v.(string)
	if !ok {
		return 0, Error("a Duration is a string in ISO 8601, such as PT15S")
	}
	d, err := duration.Parse(s)
	if err != nil || len(s) > 40 || !strings.ContainsAny(s, "0123456789") {
		return 0, errorf("%.40q is not an ISO 8601 duration, such as PT15S", s)
	}
	if d.Years != 0 || d.Months != 0 || d.Weeks != 0 {
		return 0, errorf("duration %.40q has weeks, months or years; use days, hours, minutes and seconds", s)
	}
	if d.Days > 10_000 || d.Hours > 240_000 || d.Minutes > 1e7 || d.Seconds > 1e9 {
		return 0, errorf("duration %.40q is too long", s)
	}
	return d.ToTimeDuration().Round(time.Microsecond), nil
}

// MarshalBigInt writes a 64-bit number as a string.
func MarshalBigInt(n int64) graphql.Marshaler {
	return graphql.MarshalString(strconv.FormatInt(n, 10))
}

// UnmarshalBigInt reads a decimal string, or a number that JSON carries whole.
func UnmarshalBigInt(v any) (int64, error) {
	text := fmt.Sprint(v)
	switch v.(type) {
	case string, int, int64, json.Number:
	default:
		return 0, Error("a BigInt is a string of decimal digits")
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0, errorf("%.40q is not a whole number of 64 bits", text)
	}
	return n, nil
}

// MarshalJSON writes a value that is JSON already, compact and with its
// numbers untouched.
func MarshalJSON(raw json.RawMessage) graphql.Marshaler {
	return graphql.WriterFunc(func(w io.Writer) {
		if len(raw) == 0 {
			raw = json.RawMessage("null")
		}
		_, _ = w.Write(raw)
	})
}

// UnmarshalJSON takes any value.
func UnmarshalJSON(v any) (json.RawMessage, error) { return json.Marshal(v) }
