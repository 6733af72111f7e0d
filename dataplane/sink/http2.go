package sink

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptrace"
	"time"
)

// http2Conn carries HTTP/2, one request at a time: a stream that stalls, or a peer
// that stops reading, holds up the attempt that it belongs to and no other.
type http2Conn struct{ *http.ClientConn }

func (h http2Conn) roundTrip(ctx context.Context, r *request, clock *phases) (*http.Response, error) {
	ctx = httptrace.WithClientTrace(ctx, clock.traceOfRequest())
	header := make(http.Header, len(r.lines))
	values := make([]string, len(r.lines))
	for i, l := range r.lines {
		values[i] = l.Value
		header[l.Name] = values[i : i+1 : i+1]
	}
	// The body can be read once and there is no way to get another: whatever
	// failed, nothing underneath could send it again.
	req := &http.Request{
		Method: http.MethodPost, URL: r.to.url, Host: r.to.url.Host, Header: header,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		ContentLength: int64(len(r.body)), Body: http.NoBody,
	}
	if len(r.body) > 0 {
		req.Body = io.NopCloser(bytes.NewReader(r.body))
	}
	return h.RoundTrip(req.WithContext(ctx))
}

// free waits until the request is over at this end as well: its goroutine ends
// a moment after the answer. It looks again and again, because the
// connection's state hook leaves out a change that comes while it runs.
func (h http2Conn) free() bool {
	for wait := 20 * time.Microsecond; h.InFlight() > 0; wait *= 2 {
		if wait > settleTime {
			return false
		}
		time.Sleep(wait)
	}
	return h.Available() > 0
}

func (h http2Conn) reserve() bool { return h.Reserve() == nil }

func (h http2Conn) ended() bool { return h.Err() != nil || h.Available() == 0 }

func (h http2Conn) close() { _ = h.Close() }
