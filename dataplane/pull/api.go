package pull

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/streaming-hub/streaming-hub/access"
	"github.com/streaming-hub/streaming-hub/hub"
)

// fruitlessPause keeps a long poll whose filter lets nothing through from
// scanning at each commit of a busy tenant.
const fruitlessPause = 100 * time.Millisecond

// Subscriptions reads saved filters.
type Subscriptions interface {
	SubscriptionsByID(ctx context.Context, ids []hub.SubscriptionID) ([]hub.EventSubscription, error)
}

// Deps are what an API works with.
type Deps struct {
	Store         Store
	Subscriptions Subscriptions
	Tokens        *access.Tokens
	Watcher       *Watcher
	// Rate is how many requests a tenant has per second in the long run, Burst
	// how many at once.
	Rate, Burst int
	// Stopping ends when the process shuts down: long polls are answered then.
	Stopping context.Context
	Now      func() time.Time
	Metrics  *Metrics
	Log      *slog.Logger
}

// API answers GET /v1/events.
type API struct {
	deps   Deps
	gate   *gate
	places places
}

// New makes the API.
func New(d Deps) *API { return &API{deps: d, gate: newGate(d.Rate, d.Burst)} }

// errLeft means that the reader went away.
var errLeft = errors.New("the reader went away")

func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	status := "broken" // unless the answer comes to its end
	defer func() { a.deps.Metrics.Requests.WithLabelValues(status).Inc() }()

	err := a.serve(w, r)
	if err == nil {
		status = "2xx"
		return
	}
	if r.Context().Err() != nil {
		status = "left"
		return
	}
	var f *fault
	if !errors.As(err, &f) {
		a.deps.Log.Warn("a pull request failed", "error", err)
		f = unavailable("read events")
	}
	status = fmt.Sprintf("%dxx", f.status/100)
	f.write(w)
}

// serve answers with a page, or returns why there is none.
func (a *API) serve(w http.ResponseWriter, r *http.Request) error {
	if r.Method != http.MethodGet {
		w.Header().Set("Allow", http.MethodGet)
		return &fault{status: http.StatusMethodNotAllowed, Code: "method_not_allowed", Message: "events are read by GET"}
	}
	token, err := a.authenticate(r)
	if err != nil {
		return err
	}
	p, f := parseParams(r.URL.RawQuery)
	if f != nil {
		return f
	}
	tenant, f := tenantOf(token, p.tenant)
	if f != nil {
		return f
	}
	own, f := a.gate.enter(tenant, a.deps.Now())
	if f != nil {
		return f
	}
	defer a.gate.leave(own)
	wishes, err := a.filter(r.Context(), tenant, &p)
	if err != nil {
		return err
	}
	return a.read(w, r, own, tenant, wishes, &p)
}

// authenticate tells whose token the request carries.
func (a *API) authenticate(r *http.Request) (hub.APIToken, error) {
	token, err := a.deps.Tokens.Authenticate(r.Context(), access.Bearer(r.Header.Get("Authorization")))
	switch {
	case errors.Is(err, access.ErrBadToken):
		return token, unauthenticated()
	case err != nil:
		a.deps.Log.Warn("cannot check an API token", "error", err)
		return token, unavailable("check tokens")
	case !token.Role.Includes(hub.Viewer):
		return token, forbidden("this token may not read events")
	}
	return token, nil
}

// tenantOf is the tenant whose events a token reads.
func tenantOf(token hub.APIToken, named hub.TenantID) (hub.TenantID, *fault) {
	switch {
	case token.Tenant == "" && named == "":
		return "", badParameter("tenant", "tenant: a token of scope PLATFORM has to name the tenant")
	case token.Tenant == "":
		return named, nil
	case named != "" && named != token.Tenant:
		return "", forbidden("this token belongs to another tenant")
	}
	return token.Tenant, nil
}

// filter is what the request wants of the tenant's events: its own wish, and
// that of the subscription that it names.
func (a *API) filter(ctx context.Context, t hub.TenantID, p *params) (filter, error) {
	var f filter
	if p.wish != nil {
		p.wish.Tenant = t
		f = append(f, *p.wish)
	}
	if p.saved.IsZero() {
		return f, nil
	}
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	found, err := a.deps.Subscriptions.SubscriptionsByID(ctx, []hub.SubscriptionID{p.saved})
	if err != nil {
		return nil, err
	}
	if len(found) == 0 || found[0].Tenant != t || !found[0].DeletedAt.IsZero() {
		return nil, &fault{status: http.StatusNotFound, Code: "not_found", Parameter: "subscription", Message: "the tenant has no such event subscription"}
	}
	saved := found[0]
	switch {
	case saved.Kind != hub.SinkPull:
		return nil, badParameter("subscription", "the events of this subscription are delivered to its webhook; only one whose destination is pull is read here")
	case !saved.Enabled:
		return nil, &fault{status: http.StatusConflict, Code: "subscription_disabled", Parameter: "subscription", Message: "this event subscription is disabled, so it wants no event; enable it to read on"}
	}
	saved.VerificationState = hub.VerificationActive // there is nothing to verify
	return append(f, saved), nil
}

// read answers when there is something, when the time to wait is up, which it
// is at once without a wait, or when the process stops.
func (a *API) read(w http.ResponseWriter, r *http.Request, own *gated, t hub.TenantID, f filter, p *params) error {
	waiting, cancel := context.WithTimeout(r.Context(), p.wait)
	defer cancel()
	if p.wait > 0 {
		done, tooMany := a.gate.startWaiting(own)
		if tooMany != nil {
			return tooMany
		}
		defer done()
		defer context.AfterFunc(a.deps.Stopping, cancel)()
		// Joined before the first look: nothing is stored in between unseen.
		defer a.deps.Watcher.join(t)()
	}
	g, err := a.open(r.Context(), t, p)
	if err != nil {
		return err
	}
	for woken := false; ; woken = true {
		before := g.scanned
		answered, err := a.tryAnswer(w, r, own, g, f, p, waiting.Err() != nil)
		if answered || err != nil {
			return err
		}
		a.await(waiting, g, woken && g.scanned > before)
		if r.Context().Err() != nil {
			return errLeft
		}
		// A token that was revoked meanwhile gets nothing more.
		if _, err := a.authenticate(r); err != nil {
			return err
		}
	}
}

// tryAnswer looks for events, and answers if there are any, or if it is the
// last time. Only then a turn to answer is held, not while waiting.
func (a *API) tryAnswer(w http.ResponseWriter, r *http.Request, own *gated, g *page, f filter, p *params, last bool) (bool, error) {
	free, err := a.gate.slot(r.Context(), own)
	if err != nil {
		return false, err
	}
	defer free()
	if err := a.fill(r.Context(), g, f, p.limit); err != nil {
		return false, err
	}
	if len(g.picked) == 0 && !g.full && !last {
		return false, nil
	}
	if a.deps.Stopping.Err() != nil {
		w.Header().Set("Connection", "close") // the next request goes to another process
	}
	if !g.made.IsZero() {
		a.places.keep(g.tenant, g.at, g.made)
	}
	return true, a.answer(r.Context(), w, g, p.raw)
}

// await waits until there is something behind the page, or the context ends.
func (a *API) await(ctx context.Context, g *page, fruitless bool) {
	a.deps.Metrics.Waiting.Inc()
	defer a.deps.Metrics.Waiting.Dec()
	if fruitless {
		pause(ctx, fruitlessPause)
	}
	newest, _ := a.deps.Watcher.wait(ctx, g.tenant, g.at)
	g.newest = max(g.newest, newest)
}

// pause waits for a time or the end of the context.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
