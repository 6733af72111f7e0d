package sink

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/streaming-hub/streaming-hub/hub"
	"github.com/streaming-hub/streaming-hub/hub/address"
	"github.com/streaming-hub/streaming-hub/hub/signing"
	"github.com/streaming-hub/streaming-hub/hub/wire"
)

// Webhook makes attempts over HTTP. It is safe for concurrent use.
type Webhook struct {
	guard     *guard
	pool      *pool
	targets   targets
	prefix    string
	signature string // name of the hub's own signature header
	userAgent string
	now       func() time.Time
	log       *slog.Logger
	scratch   sync.Pool // *[]hub.Header, the lines of a request
	buffers   sync.Pool // *[]byte, the beginning of an answer's body
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

	// Headers are the subscription's custom headers. One that may not be sent
	// is left out: what was stored long ago must not stop a delivery.
	Headers []hub.Header
	// Credential and Certificate of the destination; nil for none. Nothing of
	// them is in the hub.Attempt that comes of the job.
	Credential  *Credential
	Certificate *Certificate
}

// NewWebhook makes the sink of all webhook destinations.
func NewWebhook(c Config) *Webhook {
	if c.HeaderPrefix == "" {
		c.HeaderPrefix = wire.DefaultHeaderPrefix
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	g := newGuard(c.Policy)
	return &Webhook{
		guard:     g,
		pool:      newPool(newOpener(g), c.Now),
		targets:   targets{policy: c.Policy},
		prefix:    c.HeaderPrefix,
		signature: c.HeaderPrefix + "Signature",
		userAgent: c.UserAgent,
		now:       c.Now,
		log:       c.Log,
		scratch:   sync.Pool{New: func() any { return new([]hub.Header) }},
		buffers: sync.Pool{New: func() any {
			b := make([]byte, maxSnippet+utf8.UTFMax-1)
			return &b
		}},
	}
}

// Close drops idle connections, and those in use as soon as they are free.
func (w *Webhook) Close() { w.pool.close() }

// Attempt sends exactly one request and returns what came of it. It ends
// within the job's timeout, whatever the receiver does.
func (w *Webhook) Attempt(ctx context.Context, job Job) hub.Attempt {
	started := w.now()
	attempt := hub.Attempt{ID: job.AttemptID, Number: job.Number, Started: started}
	ctx, cancel := context.WithTimeout(ctx, job.Timeout)
	defer cancel()
	clock := &phases{now: w.now, started: started, phase: hub.PhasePrepare}
	hidden := newMask(job.Credential)

	err := w.exchange(ctx, job, &attempt, clock, &hidden)
	phase, answered := clock.record(&attempt)
	if err != nil {
		// The transport's own error can hide that time was up.
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		attempt.Failure = Classify(err, phase, answered)
		w.logRefusal(job, err)
	}
	attempt.Failure.Detail = hub.CutText(hidden.hide(attempt.Failure.Detail), maxDetail)
	return attempt
}

// exchange sends the request on a connection of its own and takes the answer
// in; an error says that there was none.
func (w *Webhook) exchange(ctx context.Context, job Job, attempt *hub.Attempt, clock *phases, hidden *mask) error {
	to := w.targets.of(job.URL)
	if to.refused != nil {
		return to.refused
	}
	scratch := w.scratch.Get().(*[]hub.Header)
	defer func() {
		clear(*scratch) // there may be a credential in it
		w.scratch.Put(scratch)
	}()
	lines, err := w.lines((*scratch)[:0], &job, attempt.Started)
	if err != nil {
		return err
	}
	*scratch = lines
	r := &request{to: to, lines: lines, body: job.Event.Body}
	at := to.place
	at.identity = identityOf(job.Certificate)
	clock.enter(hub.PhaseConnect)
	for {
		c, err := w.pool.take(ctx, at, job.Certificate, clock)
		if err != nil {
			return err
		}
		res, err := c.roundTrip(ctx, r, clock)
		if err == nil {
			var whole bool
			if attempt.Answer, whole = w.read(res, hidden); whole {
				w.pool.give(c)
			} else {
				c.close()
			}
			if res.StatusCode < 200 || res.StatusCode > 299 {
				attempt.Failure = StatusFailure(attempt.Answer.Status, res.Header.Get("Location"))
			}
			if res.StatusCode < 100 || res.StatusCode > 599 {
				attempt.Answer.Status = 0 // it is none
			}
			return nil
		}
		c.close()
		// A kept connection may turn out to be closed before the head of the
		// request was written: then nothing was sent, and the next one is as
		// good as the first. After that point an attempt never tries again.
		if !c.kept || clock.wasSent() || ctx.Err() != nil {
			return err
		}
	}
}

// request is what goes out. Names are written as they are here: HTTP does not
// mind case.
type request struct {
	to    *target
	lines []hub.Header
	body  []byte
}

// lines appends to dst all that is sent before the body.
func (w *Webhook) lines(dst []hub.Header, job *Job, at time.Time) ([]hub.Header, error) {
	dst = wire.WebhookHeaders(dst, w.prefix, job.Event, job.Delivery, job.AttemptID, job.Number, at)
	for _, h := range job.Headers {
		value := strings.Trim(h.Value, " \t")
		if wire.CheckCustomHeaderUnder(w.prefix, h.Name, value) == nil && (job.Credential == nil || !strings.EqualFold(h.Name, job.Credential.Header)) {
			dst = append(dst, hub.Header{Name: h.Name, Value: value})
		}
	}
	if c := job.Credential; c != nil {
		value := string(c.Value.Reveal())
		if err := wire.CheckCredentialHeader(w.prefix, c.Header, value); err != nil {
			return nil, &unsendableError{reason: "the destination's credential cannot be sent: " + err.Error()}
		}
		dst = append(dst, hub.Header{Name: c.Header, Value: value})
	}
	standard, lerian := job.Signer.Sign(job.Delivery.ID.String(), at.Unix(), job.Event.Body)
	return append(dst,
		hub.Header{Name: "webhook-signature", Value: standard},
		hub.Header{Name: w.signature, Value: lerian},
		hub.Header{Name: "User-Agent", Value: w.userAgent},
	), nil
}

// logRefusal tells the operator the address that the tenant is not shown.
func (w *Webhook) logRefusal(job Job, err error) {
	var blocked *BlockedError
	if !errors.As(err, &blocked) {
		return
	}
	refused := ""
	var refusal *address.Refusal
	if errors.As(err, &refusal) {
		refused = refusal.Address.String()
	}
	w.log.Info("the address policy refused a delivery", "host", blocked.Host, "address", refused, "reason", blocked.Reason.Error(),
		"destination", job.Delivery.Destination.String())
}

// UserAgent is the User-Agent of a program's version.
func UserAgent(version string) string { return "streaming-hub/" + version }
