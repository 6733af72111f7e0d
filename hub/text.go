package hub

import (
	"strings"
	"unicode/utf8"
)

// Storable makes any bytes safe to keep as text: valid UTF-8 without NUL, at
// most limit bytes, cut between characters. What is not text becomes U+FFFD.
func Storable(s string, limit int) string {
	s = CutText(s, limit)
	if utf8.ValidString(s) && strings.IndexByte(s, 0) < 0 {
		return s
	}
	s = strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
	return CutText(s, limit) // a replacement is longer than what it replaces
}

// CutText cuts to at most limit bytes without splitting a character that is
// whole in s.
func CutText(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	cut := limit
	for cut > 0 && cut > limit-utf8.UTFMax && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut]
}
