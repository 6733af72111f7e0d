package sink

import (
	"io"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/streaming-hub/streaming-hub/hub"
)

// read takes the answer in; whole is true when it was read to its end, so that
// its connection can carry another request. The status line has decided
// already: a body that is slow, huge or broken changes nothing.
func (w *Webhook) read(res *http.Response, m *mask) (answer hub.Answer, whole bool) {
	defer res.Body.Close() // ends the stream unless the body was read to its end
	answer = hub.Answer{
		Status:     int32(res.StatusCode),
		Headers:    storableHeaders(res.Header),
		RetryAfter: hub.CutText(m.hide(hub.Storable(res.Header.Get("Retry-After"), 256)), 256),
	}
	m.hideHeaders(answer.Headers)
	if res.StatusCode == http.StatusSwitchingProtocols {
		return answer, false
	}
	buffer := w.buffers.Get().(*[]byte)
	defer w.buffers.Put(buffer)
	// A credential that the cut goes through must be seen whole, and so must a
	// character.
	room := maxSnippet + utf8.UTFMax - 1 + m.longest
	if len(*buffer) < room {
		*buffer = make([]byte, room)
	}
	kept, err := fill(res.Body, (*buffer)[:room])
	size := int64(kept)
	if err == nil {
		var rest int64
		rest, err = io.Copy(io.Discard, io.LimitReader(res.Body, maxBodyRead-size))
		if size += rest; err == nil && size < maxBodyRead {
			err = io.EOF
		}
	}
	whole = err == io.EOF
	text := m.hide(hub.Storable(string((*buffer)[:kept]), 3*room)) // a replacement has three bytes
	if kept == room {
		text = hub.CutText(text, len(text)-m.longest) // the last credential may be half there
	}
	answer.Snippet = hub.CutText(text, maxSnippet)
	answer.Truncated = size > maxSnippet || len(text) > len(answer.Snippet) || res.ContentLength > size
	return answer, whole
}

// fill reads until the buffer is full or the reader ends, and says how.
func fill(r io.Reader, buffer []byte) (n int, err error) {
	for n < len(buffer) && err == nil {
		var more int
		more, err = r.Read(buffer[n:])
		n += more
	}
	return n, err
}

// storableHeaders keeps an answer's headers, sorted by name. The transport has
// bounded their sum already.
func storableHeaders(h http.Header) []hub.Header {
	kept := make([]hub.Header, 0, min(len(h), maxResponseHeaders))
	for name, values := range h {
		for _, v := range values {
			kept = append(kept, hub.Header{Name: hub.Storable(name, 256), Value: hub.Storable(v, maxResponseHeaderBytes)})
		}
	}
	slices.SortStableFunc(kept, func(a, b hub.Header) int { return strings.Compare(a.Name, b.Name) })
	if len(kept) > maxResponseHeaders {
		kept = slices.Clone(kept[:maxResponseHeaders])
	}
	return kept
}
