package sink

import (
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"sync"
	"time"

	"github.com/streaming-hub/streaming-hub/hub"
	"github.com/streaming-hub/streaming-hub/hub/signing"
	"github.com/streaming-hub/streaming-hub/hub/wire"
)

// Webhook makes attempts over HTTP. It is safe for concurrent use.
type Webhook struct {
	transport *http.Transport
	prefix    string
	signature string // name of the hub's own signature header
	userAgent []string
	now       func() time.Time
	urls      sync.Map // string → *url.URL: destinations are few, attempts many
	scratch   sync.Pool
}

// Job is one attempt to make.
type Job struct {
	Event     *hub.Event
	Delivery  *hub.Delivery
	AttemptID hub.AttemptID
	Number    int32 // from 1
	URL       string
	Signer    *signing.Signer
	Timeout   time.Duration // whole attempt, response body included
}

// NewWebhook makes the sink of all webhook destinations.
func NewWebhook(c Config) *Webhook {
	if c.HeaderPrefix == "" {
		c.HeaderPrefix = wire.DefaultHeaderPrefix
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	return &Webhook{
		transport: newTransport(c),
		prefix:    c.HeaderPrefix,
		signature: c.HeaderPrefix + "Signature",
		userAgent: []string{c.UserAgent},
		now:       c.Now,
		scratch:   sync.Pool{New: func() any { return new([]hub.Header) }},
	}
}

// Close drops idle connections.
func (w *Webhook) Close() { w.transport.CloseIdleConnections() }

// Attempt sends exactly one request and returns what came of it. It ends
// within the job's timeout, whatever the receiver does.
func (w *Webhook) Attempt(ctx context.Context, job Job) hub.Attempt {
	started := w.now()
	attempt := hub.Attempt{ID: job.AttemptID, Number: job.Number, Started: started}
	ctx, cancel := context.WithTimeout(ctx, job.Timeout)
	defer cancel()
	clock := &phases{now: w.now, started: started, phase: hub.PhasePrepare}
	req, err := w.request(httptrace.WithClientTrace(ctx, clock.trace()), job, started)
	if err != nil {
		attempt.Failure = Classify(err, hub.PhasePrepare)
		return attempt
	}
	clock.enter(hub.PhaseConnect)
	res, err := w.transport.RoundTrip(req)
	if err == nil {
		attempt.Answer = w.read(res)
		if res.StatusCode < 200 || res.StatusCode > 299 {
			attempt.Failure = StatusFailure(attempt.Answer.Status, res.Header.Get("Location"))
		}
	}
	timings, phase, remote := clock.result()
	attempt.Timings, attempt.Answer.RemoteIP = timings, remote
	if err != nil {
		// The transport's own error can hide that time was up.
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		attempt.Failure = Classify(err, phase)
	}
	return attempt
}

func (w *Webhook) request(ctx context.Context, job Job, at time.Time) (*http.Request, error) {
	target, err := w.parse(job.URL)
	if err != nil {
		return nil, err
	}
	body := job.Event.Body
	scratch := w.scratch.Get().(*[]hub.Header)
	lines := wire.WebhookHeaders((*scratch)[:0], w.prefix, job.Event, job.Delivery, job.AttemptID, job.Number, at)
	header := make(http.Header, len(lines)+4)
	values := make([]string, len(lines)+3)
	for i, l := range lines {
		// Names go out as they are written here: HTTP does not mind case, and
		// canonical ones would be made anew for each attempt.
		values[i] = l.Value
		header[l.Name] = values[i : i+1 : i+1]
	}
	*scratch = lines
	w.scratch.Put(scratch)
	standard, lerian := job.Signer.Sign(job.Delivery.ID.String(), at.Unix(), body)
	n := len(lines)
	values[n], values[n+1] = standard, lerian
	header["webhook-signature"] = values[n : n+1 : n+1]
	header[w.signature] = values[n+1 : n+2 : n+2]
	header["User-Agent"] = w.userAgent

	req := (&http.Request{
		Method: http.MethodPost, URL: target, Host: target.Host, Header: header,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		ContentLength: int64(len(body)), Body: http.NoBody,
	}).WithContext(ctx)
	if len(body) > 0 {
		req.Body = io.NopCloser(bytes.NewReader(body))
		// Lets the transport take a fresh connection when a kept one was closed
		// before a byte was written; it never sends a POST a second time.
		req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
	}
	return req, nil
}

func (w *Webhook) parse(raw string) (*url.URL, error) {
	if u, ok := w.urls.Load(raw); ok {
		return u.(*url.URL), nil
	}
	u, err := url.Parse(raw)
	if err != nil {
		return nil, err
	}
	w.urls.Store(raw, u)
	return u, nil
}

// read takes the answer in. The status line has decided already: a body that
// is slow, huge or broken changes nothing.
func (w *Webhook) read(res *http.Response) hub.Answer {
	defer res.Body.Close() // drops the connection unless the body was read to its end
	a := hub.Answer{
		Status:     int32(res.StatusCode),
		Headers:    storableHeaders(res.Header),
		RetryAfter: hub.Storable(res.Header.Get("Retry-After"), 256),
	}
	if res.TLS != nil {
		a.TLSVersion = tls.VersionName(res.TLS.Version)
	}
	if res.ContentLength == 0 || res.StatusCode == http.StatusSwitchingProtocols {
		return a
	}
	var body bytes.Buffer
	_, _ = io.Copy(&body, io.LimitReader(res.Body, maxBodyRead))
	text := hub.Storable(body.String(), 3*maxBodyRead) // whole: a replacement has three bytes
	a.Snippet = hub.CutText(text, maxSnippet)
	a.Truncated = body.Len() > maxSnippet || len(text) > len(a.Snippet) || res.ContentLength > int64(body.Len())
	return a
}

// UserAgent is the User-Agent of a program's version.
func UserAgent(version string) string { return "streaming-hub/" + version }
