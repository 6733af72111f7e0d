package retry

import (
	"strings"
	"time"
)

// RetryAfter reads a Retry-After header: seconds or any of the three HTTP
// dates. It counts on 429 and 503 only; everything else, a moment in the past
// included, is ignored. now is the moment of the answer: its own Date header
// when that can be read (see HTTPDate), since a date is meant by the
// receiver's clock, else ours. The result is at most MaxRetryAfter.
func RetryAfter(status int32, header string, now time.Time) (time.Duration, bool) {
	if status != 429 && status != 503 {
		return 0, false
	}
	header = strings.Trim(header, " \t")
	if header == "" {
		return 0, false
	}
	if header[0] >= '0' && header[0] <= '9' {
		return seconds(header)
	}
	at, ok := HTTPDate(header)
	if !ok {
		return 0, false
	}
	wait := at.Sub(now).Truncate(time.Millisecond)
	if wait < 0 || at.Before(now) {
		return 0, false
	}
	return min(wait, MaxRetryAfter), true
}

// seconds reads a whole number of any length; a larger one than the limit is
// the limit.
func seconds(s string) (time.Duration, bool) {
	const limit = int64(MaxRetryAfter / time.Second)
	n := int64(0)
	for i := range len(s) {
		c := s[i]
		if c < '0' || c > '9' {
			return 0, false
		}
		n = min(n*10+int64(c-'0'), limit)
	}
	return time.Duration(n) * time.Second, true
}

// HTTPDate reads a date in one of the three forms of RFC 9110, section 5.6.7:
// IMF-fixdate, RFC 850 and asctime.
func HTTPDate(s string) (time.Time, bool) {
	for _, layout := range [...]string{
		"Mon, 02 Jan 2006 15:04:05 GMT",
		"Monday, 02-Jan-06 15:04:05 GMT",
		time.ANSIC,
	} {
		t, err := time.Parse(layout, s)
		if err != nil {
			continue
		}
		// Written back it must be the same, the name of the day apart:
		// time.Parse takes fractions and other things that are no HTTP date.
		_, given, _ := strings.Cut(s, " ")
		_, exact, _ := strings.Cut(t.Format(layout), " ")
		if given == exact {
			return t, true
		}
	}
	return time.Time{}, false
}
