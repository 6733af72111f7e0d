package sink

import (
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/streaming-hub/streaming-hub/hub"
)

// storable makes any bytes safe to keep as text: valid UTF-8 without NUL, at
// most limit bytes, cut between characters. What is not text becomes U+FFFD.
func storable(s string, limit int) string {
	s = cutText(s, limit)
	if utf8.ValidString(s) && strings.IndexByte(s, 0) < 0 {
		return s
	}
	s = strings.ToValidUTF8(s, "\uFFFD")
	s = strings.ReplaceAll(s, "\x00", "\uFFFD")
	return cutText(s, limit) // a replacement is longer than what it replaces
}

// cutText cuts to at most limit bytes without splitting a character that is
// whole in s.
func cutText(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	cut := limit
	for cut > 0 && cut > limit-utf8.UTFMax && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut]
}

// storableHeaders keeps an answer's headers, sorted by name. The transport has
// bounded their sum already.
func storableHeaders(h http.Header) []hub.Header {
	kept := make([]hub.Header, 0, len(h))
	for name, values := range h {
		for _, v := range values {
			kept = append(kept, hub.Header{Name: storable(name, 256), Value: storable(v, maxResponseHeaderBytes)})
		}
	}
	slices.SortStableFunc(kept, func(a, b hub.Header) int { return strings.Compare(a.Name, b.Name) })
	return kept
}
