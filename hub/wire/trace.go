package wire

// maxTraceState bounds the tracestate that is passed on, in bytes. The W3C
// recommendation asks for at least 512.
const maxTraceState = 1024

// traceContext keeps what can be passed on. A traceparent that does not parse
// is dropped, and a tracestate without one with it, as W3C Trace Context asks.
// Neither is ever a fault of the event.
func traceContext(parent, state string) (string, string) {
	if !isTraceParent(parent) {
		return "", ""
	}
	if len(state) > maxTraceState || !isPrintable(state) {
		return parent, ""
	}
	return parent, state
}

// isTraceParent reports version-traceid-parentid-flags in lower-case hex.
// Versions above 00 may carry more after the flags.
func isTraceParent(s string) bool {
	const size = 2 + 1 + 32 + 1 + 16 + 1 + 2
	if len(s) < size || len(s) > 128 || s[2] != '-' || s[35] != '-' || s[52] != '-' || !isPrintable(s) {
		return false
	}
	if !isHex(s[0:2]) || !isHex(s[3:35]) || !isHex(s[36:52]) || !isHex(s[53:55]) {
		return false
	}
	if s[0:2] == "ff" || isZeros(s[3:35]) || isZeros(s[36:52]) {
		return false
	}
	return len(s) == size || s[0:2] != "00" && s[size] == '-'
}

func isHex(s string) bool {
	for i := range len(s) {
		if c := s[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

func isZeros(s string) bool {
	for i := range len(s) {
		if s[i] != '0' {
			return false
		}
	}
	return true
}

// isPrintable reports bytes 0x20–0x7E, those of a header value.
func isPrintable(s string) bool {
	for i := range len(s) {
		if s[i] < 0x20 || s[i] > 0x7e {
			return false
		}
	}
	return true
}
