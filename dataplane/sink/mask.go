package sink

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net/url"
	"strings"

	"github.com/streaming-hub/streaming-hub/hub"
)

const redacted = "[REDACTED]"

// minPart is the shortest part of a credential that is masked by itself, in
// bytes: a shorter one stands in ordinary text too.
const minPart = 4

// mask hides a credential in what a receiver sent back: many answers repeat
// the request, in their own notation. The zero value hides nothing.
type mask struct {
	forms   []string // longer ones first, as far as one holds the other
	longest int
}

func newMask(c *Credential) mask {
	if c == nil {
		return mask{}
	}
	whole := string(c.Value.Reveal())
	parts := []string{whole}
	if scheme, rest, ok := strings.Cut(whole, " "); ok {
		parts = append(parts, rest)
		if strings.EqualFold(scheme, "basic") {
			if pair, err := base64.StdEncoding.DecodeString(rest); err == nil {
				_, password, _ := strings.Cut(string(pair), ":")
				parts = append(parts, string(pair), password)
			}
		}
	}
	var m mask
	for i, part := range parts {
		if part == "" || i > 0 && len(part) < minPart {
			continue
		}
		for _, form := range append(notations(part), encodings(part)...) {
			m.forms = append(m.forms, form)
			m.longest = max(m.longest, len(form))
		}
	}
	return m
}

// notations are a text as it is, in JSON as several languages write it, and in
// a URL.
func notations(s string) []string {
	quoted, _ := json.Marshal(s)
	var plain bytes.Buffer
	e := json.NewEncoder(&plain)
	e.SetEscapeHTML(false)
	_ = e.Encode(s)
	inJSON := strings.Trim(strings.TrimSpace(plain.String()), `"`)
	list := []string{s}
	for _, form := range []string{
		strings.ReplaceAll(inJSON, "/", `\/`), inJSON, strings.Trim(string(quoted), `"`), url.QueryEscape(s), url.PathEscape(s),
	} {
		if form != s {
			list = append(list, form)
		}
	}
	return list
}

// minEncoded is the shortest part of a credential that is looked for in base64
// and hex, in bytes: what stands for a shorter one stands in ordinary text too.
const minEncoded = 8

// encodings are a text in hex, and in base64 as it stands when it is a part of
// what was encoded: three bytes become four letters, so that it has three faces,
// less the letters at its ends that its neighbours share.
func encodings(s string) []string {
	if len(s) < minEncoded {
		return nil
	}
	low := hex.EncodeToString([]byte(s))
	list := []string{low, strings.ToUpper(low)}
	for before := range 3 {
		padded := append(make([]byte, before), s...)
		from, to := (before*8+5)/6, len(padded)*8/6
		for _, alphabet := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
			list = append(list, alphabet.EncodeToString(padded)[from:to])
		}
	}
	return list
}

// hide replaces the credential in a text.
func (m *mask) hide(s string) string {
	for _, form := range m.forms {
		if strings.Contains(s, form) {
			s = strings.ReplaceAll(s, form, redacted)
		}
	}
	return s
}

// hideHeaders does so in header lines.
func (m *mask) hideHeaders(headers []hub.Header) {
	if len(m.forms) == 0 {
		return
	}
	for i := range headers {
		headers[i].Name, headers[i].Value = m.hide(headers[i].Name), m.hide(headers[i].Value)
	}
}
