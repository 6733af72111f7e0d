// Package receiver is a webhook receiver for development, tests and
// benchmarks. It checks the signatures of what it gets, echoes verification
// challenges, remembers the requests, and answers as it was told to:
//
//	POST   /any/path            a webhook
//	GET    /requests            what came, the oldest first (?path= ?limit=)
//	DELETE /requests            forget it
//	PUT    /script/any/path     how to answer POST /any/path from now on
//	DELETE /script/any/path     answer by itself again
//	PUT    /secrets             accept one more signing secret
//	GET    /counts              how many requests, ids, repeats
//
// It is not for the open internet: whoever reaches it may script it.
package receiver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// VerificationType is the event type of the hub's verification probe.
const VerificationType = "hub.verification"

const (
	// maxBody is above the largest event body that the hub can be set to.
	maxBody     = 32 << 20
	defaultKeep = 1000
	// keptBytes bounds the bodies in memory, whatever Keep says.
	keptBytes = 64 << 20
)

// Options of a receiver; the zero value keeps the last 1000 requests and
// knows no secret.
type Options struct {
	// Secrets by path, in the form whsec_…; those under "" hold for every path.
	Secrets map[string][]string
	// HeaderPrefix of the hub's own headers; "" means X-Lerian-.
	HeaderPrefix string
	// Keep is how many requests are remembered; 0 means 1000.
	Keep int
	// CountOnly remembers no requests, only how often each webhook-id came:
	// for benchmarks. Signatures are still checked, by the hub's own code.
	CountOnly bool
	// Observe, when not nil, is called for every webhook before its answer.
	// It must be quick and keep neither headers nor body.
	Observe func(Observation)
	// Now is the clock; nil means time.Now.
	Now func() time.Time
}

// Observation is a webhook as it arrives.
type Observation struct {
	Path     string
	Header   http.Header
	Body     []byte
	Verified bool
	Status   int // of the answer that follows
	At       time.Time
}

// Receiver is an http.Handler.
type Receiver struct {
	prefix    string
	countOnly bool
	observe   func(Observation)
	now       func() time.Time

	keys    keyring
	scripts scripts
	log     requestLog
	counts  counter
	buffers sync.Pool // of *[]byte, used only when nothing keeps the body
}

// New makes a receiver. The error names a malformed secret by its path.
func New(o Options) (*Receiver, error) {
	r := &Receiver{prefix: o.HeaderPrefix, countOnly: o.CountOnly, observe: o.Observe, now: o.Now}
	if r.prefix == "" {
		r.prefix = "X-Lerian-"
	}
	if r.now == nil {
		r.now = time.Now
	}
	keep := o.Keep
	if keep <= 0 {
		keep = defaultKeep
	}
	r.log.init(keep, keptBytes)
	r.buffers.New = func() any { return new([]byte) }
	for path, texts := range o.Secrets {
		for _, text := range texts {
			if err := r.AddSecret(path, text); err != nil {
				return nil, fmt.Errorf("secret of path %q: %w", path, err)
			}
		}
	}
	return r, nil
}

// AddSecret accepts signatures of one more secret on a path, "" for all.
func (r *Receiver) AddSecret(path, text string) error { return r.keys.add(path, text) }

// Serve answers on l until ctx ends.
func (r *Receiver) Serve(ctx context.Context, l net.Listener) error {
	server := &http.Server{Handler: r, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute}
	stop := context.AfterFunc(ctx, func() { server.Close() })
	defer stop()
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve the receiver: %w", err)
	}
	return nil
}

// ServeHTTP takes webhooks on every path but its own.
func (r *Receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	path := req.URL.Path
	switch {
	case path == "/" && req.Method == http.MethodGet:
		r.welcome(w, req.Host)
	case path == "/requests":
		r.serveRequests(w, req)
	case path == "/counts":
		r.serveCounts(w, req)
	case path == "/secrets":
		r.serveSecrets(w, req)
	case strings.HasPrefix(path, "/script/"):
		r.serveScript(w, req)
	case req.Method == http.MethodPost:
		r.webhook(w, req)
	default:
		refuse(w, http.StatusMethodNotAllowed, "webhooks are sent by POST; GET / says what else is here")
	}
}

// webhook is one delivery or verification probe.
func (r *Receiver) webhook(w http.ResponseWriter, req *http.Request) {
	body, release, err := r.body(req)
	if err != nil {
		refuse(w, http.StatusBadRequest, "the body could not be read: "+err.Error())
		return
	}
	defer release()
	at := r.now()
	var sig Signatures
	if r.countOnly {
		sig = r.keys.quick(req.URL.Path, req.Header, r.prefix, body, at)
	} else {
		sig = r.keys.check(req.URL.Path, req.Header, r.prefix, body, at)
	}
	answer := r.answer(req, body, sig)
	if r.observe != nil {
		r.observe(Observation{Path: req.URL.Path, Header: req.Header, Body: body, Verified: sig.Verified(), Status: answer.Status, At: at})
	}
	// Remembered before the answer leaves: who sees the answer finds the request.
	r.counts.add(req.Header, sig.Verified())
	if !r.countOnly {
		r.log.add(newRequest(req, body, sig, answer.Status, at))
	}
	answer.send(w, req)
}

// answer is the script's, else what a good receiver says: the challenge to a
// probe, 401 to a wrong signature, 200 to the rest.
func (r *Receiver) answer(req *http.Request, body []byte, sig Signatures) Answer {
	answer, scripted := r.scripts.next(req.URL.Path)
	if !scripted {
		answer = Answer{Status: http.StatusOK}
		if sig.Wrong() {
			return Answer{Status: http.StatusUnauthorized, Body: "the signature does not verify\n"}
		}
	}
	if answer.Body == "" && answer.Status/100 == 2 && req.Header.Get(r.prefix+"Event-Type") == VerificationType {
		var probe struct {
			Challenge string `json:"challenge"`
		}
		if json.Unmarshal(body, &probe) == nil && probe.Challenge != "" {
			// A map of strings always marshals.
			echo, _ := json.Marshal(map[string]string{"challenge": probe.Challenge})
			answer.Body = string(echo)
		}
	}
	return answer
}

// body reads the request's body. In counting mode the memory is lent: release
// takes it back.
func (r *Receiver) body(req *http.Request) (body []byte, release func(), err error) {
	if req.ContentLength > maxBody {
		return nil, nil, fmt.Errorf("it has %d bytes, more than %d", req.ContentLength, maxBody)
	}
	if req.ContentLength < 0 {
		body, err = io.ReadAll(io.LimitReader(req.Body, maxBody))
		return body, func() {}, err
	}
	if !r.countOnly {
		body = make([]byte, req.ContentLength)
		_, err = io.ReadFull(req.Body, body)
		return body, func() {}, err
	}
	buf := r.buffers.Get().(*[]byte)
	if int64(cap(*buf)) < req.ContentLength {
		*buf = make([]byte, req.ContentLength)
	}
	body = (*buf)[:req.ContentLength]
	_, err = io.ReadFull(req.Body, body)
	return body, func() { r.buffers.Put(buf) }, err
}

// copyOnWrite is a map for many readers and few writers; readers take no lock.
type copyOnWrite[V any] struct {
	mu  sync.Mutex
	now atomic.Pointer[map[string]V]
}

func (c *copyOnWrite[V]) get(key string) (v V, ok bool) {
	if m := c.now.Load(); m != nil {
		v, ok = (*m)[key]
	}
	return v, ok
}

// update changes a copy and puts it in place.
func (c *copyOnWrite[V]) update(change func(map[string]V)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	next := map[string]V{}
	if m := c.now.Load(); m != nil {
		for k, v := range *m {
			next[k] = v
		}
	}
	change(next)
	c.now.Store(&next)
}
