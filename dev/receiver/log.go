package receiver

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"
	"unicode/utf8"
)

// Request is a webhook as it came, and how it was answered.
type Request struct {
	Path       string      `json:"path"`
	WebhookID  string      `json:"webhookId"`
	Headers    http.Header `json:"headers"`
	BodyBase64 []byte      `json:"bodyBase64"` // exact; JSON shows base64
	Body       *string     `json:"body"`       // null when it is not UTF-8
	Verified   bool        `json:"verified"`   // both signatures
	Signatures Signatures  `json:"signatures"`
	Status     int         `json:"status"` // that was answered
	ReceivedAt time.Time   `json:"receivedAt"`
}

func newRequest(req *http.Request, body []byte, sig Signatures, status int, at time.Time) Request {
	r := Request{
		Path: req.URL.Path, WebhookID: req.Header.Get("webhook-id"), Headers: req.Header, BodyBase64: body,
		Verified: sig.Verified(), Signatures: sig, Status: status, ReceivedAt: at,
	}
	if utf8.Valid(body) {
		text := string(body)
		r.Body = &text
	}
	return r
}

// requestLog keeps the newest requests, bounded by number and by bytes.
type requestLog struct {
	mu      sync.Mutex
	keep    int
	bytes   int
	most    int
	list    []Request // the oldest first
	changed chan struct{}
}

func (l *requestLog) init(keep, bytes int) {
	l.keep, l.most, l.changed = keep, bytes, make(chan struct{})
}

func (l *requestLog) add(r Request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.list = append(l.list, r)
	l.bytes += len(r.BodyBase64)
	for len(l.list) > l.keep || (l.bytes > l.most && len(l.list) > 1) {
		l.bytes -= len(l.list[0].BodyBase64)
		l.list[0] = Request{} // lets the body go at once
		l.list = l.list[1:]
	}
	close(l.changed)
	l.changed = make(chan struct{})
}

func (l *requestLog) clear() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.list, l.bytes = nil, 0
}

// last are the newest limit requests of a path, the oldest of them first; ""
// is every path and 0 no limit. changed closes when the next one comes.
func (l *requestLog) last(path string, limit int) (list []Request, changed <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	list = []Request{}
	for i := len(l.list) - 1; i >= 0 && (limit == 0 || len(list) < limit); i-- {
		if path == "" || l.list[i].Path == path {
			list = append(list, l.list[i])
		}
	}
	slices.Reverse(list)
	return list, l.changed
}

// Requests are the remembered requests of a path ("" for all), the oldest
// first.
func (r *Receiver) Requests(path string) []Request {
	list, _ := r.log.last(path, 0)
	return list
}

// Await waits until at least n requests of a path ("" for all) are remembered.
func (r *Receiver) Await(ctx context.Context, path string, n int) ([]Request, error) {
	for {
		list, changed := r.log.last(path, 0)
		if len(list) >= n {
			return list, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return list, fmt.Errorf("wait for %d requests on %q, %d came: %w", n, path, len(list), ctx.Err())
		}
	}
}
