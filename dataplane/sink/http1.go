package sink

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/net/http/httpguts"

	"github.com/streaming-hub/streaming-hub/hub"
)

// http1Conn carries HTTP/1.1 on the attempt's own goroutine: the request goes out
// in one write, then its answer is read. net/http's client connection has two
// goroutines for that, and takes the request's header as a map that it sorts;
// both were a third of what an attempt cost. Reading the answer, where peers
// are strange, is still net/http's.
type http1Conn struct {
	conn net.Conn        // plain or TLS
	tcp  syscall.RawConn // the socket under it; nil when there is none to ask
	head headLimit
	in   *bufio.Reader

	// Of the request that is under way:
	stop    func() bool // no longer interrupt when its context ends
	sending chan error  // of a body that is sent while the answer is read
	lasts   bool        // the answer leaves the connection open
}

// sentAtOnce is how long a request may be to go out in one write before the
// answer is read, in bytes. It fits into any socket's buffer, so the write does
// not wait for a receiver that answers without reading.
const sentAtOnce = 8 << 10

func newHTTP1(conn, socket net.Conn) *http1Conn {
	h := &http1Conn{conn: conn, head: headLimit{from: conn}}
	if s, ok := socket.(syscall.Conn); ok {
		h.tcp, _ = s.SyscallConn()
	}
	h.in = bufio.NewReaderSize(&h.head, 4<<10)
	return h
}

// requestBuffers hold a request's bytes while it is written.
var requestBuffers = sync.Pool{New: func() any {
	b := make([]byte, 0, sentAtOnce)
	return &b
}}

func (h *http1Conn) roundTrip(ctx context.Context, r *request, clock *phases) (*http.Response, error) {
	buffer := requestBuffers.Get().(*[]byte)
	defer func() {
		clear(*buffer) // there may have been a credential in it
		requestBuffers.Put(buffer)
	}()
	out, err := appendHead((*buffer)[:0], r)
	if err != nil {
		return nil, err
	}
	h.stop = context.AfterFunc(ctx, h.interrupt)
	whole := len(out)+len(r.body) <= sentAtOnce
	if whole {
		out = append(out, r.body...)
	}
	*buffer = out
	n, err := h.conn.Write(out)
	if n > 0 {
		clock.headSent()
	}
	if err != nil {
		return nil, err
	}
	if whole {
		clock.requestSent()
	} else {
		h.sending = make(chan error, 1)
		go func() {
			_, err := h.conn.Write(r.body)
			if err == nil {
				clock.requestSent()
			}
			h.sending <- err
		}()
	}
	return h.readHead(clock)
}

// post is the request that answers are read for: what they mean depends on its
// method only.
var post = &http.Request{Method: http.MethodPost}

// readHead reads up to the answer's body. All that comes before counts against
// one limit, informational answers included.
func (h *http1Conn) readHead(clock *phases) (*http.Response, error) {
	h.head.left = maxResponseHeaderBytes
	if _, err := h.in.Peek(1); err != nil {
		return nil, err
	}
	clock.answerBegun()
	for {
		res, err := http.ReadResponse(h.in, post)
		if err != nil {
			return nil, err
		}
		if res.StatusCode >= 100 && res.StatusCode < 200 && res.StatusCode != http.StatusSwitchingProtocols {
			continue
		}
		h.head.left = noLimit
		h.lasts = !res.Close && res.StatusCode >= 200
		// Closing net/http's body reads it to its end, however long that is.
		res.Body = io.NopCloser(res.Body)
		return res, nil
	}
}

// appendHead writes a request's head. The lines were judged when they were
// made; a value that would end its line goes nowhere all the same.
func appendHead(to []byte, r *request) ([]byte, error) {
	to = append(to, "POST "...)
	to = append(to, r.to.requestURI...)
	to = append(to, " HTTP/1.1\r\nHost: "...)
	to = append(to, r.to.url.Host...)
	to = append(to, "\r\nContent-Length: "...)
	to = strconv.AppendInt(to, int64(len(r.body)), 10)
	to = append(to, "\r\n"...)
	for _, l := range r.lines {
		if !httpguts.ValidHeaderFieldName(l.Name) || !httpguts.ValidHeaderFieldValue(l.Value) {
			return nil, unsendableLine(l)
		}
		to = append(to, l.Name...)
		to = append(to, ": "...)
		to = append(to, l.Value...)
		to = append(to, "\r\n"...)
	}
	return append(to, "\r\n"...), nil
}

func unsendableLine(l hub.Header) error {
	return &unsendableError{reason: "the header " + hub.Storable(l.Name, 64) + " cannot be sent: its name or value is none of HTTP"}
}

// interrupt ends what the attempt waits for.
func (h *http1Conn) interrupt() { _ = h.conn.SetDeadline(time.Unix(1, 0)) }

// free ends the request. A body may still be on its way: its goroutine ends a
// moment after the answer, or never where the receiver answers without it.
func (h *http1Conn) free() bool {
	ended := h.stop()
	h.stop = nil
	if h.sending != nil {
		select {
		case err := <-h.sending:
			h.sending = nil
			ended = ended && err == nil
		case <-time.After(settleTime):
			ended = false
		}
	}
	return ended && h.lasts && h.in.Buffered() == 0
}

// reserve reports whether the receiver still keeps an idle connection open.
func (h *http1Conn) reserve() bool { return !h.ended() }

// ended looks whether anything waits to be read on an idle connection: its
// end, or something that nobody asked for.
func (h *http1Conn) ended() bool {
	if h.tcp == nil {
		return false
	}
	quiet := false
	err := h.tcp.Read(func(fd uintptr) bool {
		quiet = nothingToRead(fd)
		return true // do not wait
	})
	return err != nil || !quiet
}

func (h *http1Conn) close() {
	if h.stop != nil {
		h.stop()
	}
	_ = h.conn.Close()
	if h.sending != nil {
		<-h.sending
	}
}

// errHeadTooLarge is a fault of the answer, as the limit of HTTP/2 is.
var errHeadTooLarge = errors.New("the answer's head is longer than the hub reads (32 KiB)")

const noLimit = -1

// headLimit bounds what is read before an answer's body.
type headLimit struct {
	from io.Reader
	left int // bytes; noLimit behind the head
}

func (l *headLimit) Read(p []byte) (int, error) {
	if l.left == noLimit {
		return l.from.Read(p)
	}
	if l.left == 0 {
		return 0, errHeadTooLarge
	}
	n, err := l.from.Read(p[:min(len(p), l.left)])
	l.left -= n
	return n, err
}
