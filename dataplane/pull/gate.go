package pull

import (
	"context"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/streaming-hub/streaming-hub/hub"
)

const (
	// maxGated bounds the tenants whose rate is kept in memory.
	maxGated = 10_000
	// answersOfTenant and answersAtOnce bound the answers that are read and
	// written at one time, and with them the memory: at most about 3 MiB each.
	answersOfTenant, answersAtOnce = 4, 32
	// slotPatience is how long a request waits for its turn to be answered.
	slotPatience = 10 * time.Second
	// maxWaiting bounds the long polls of one tenant.
	maxWaiting = 2000
)

// gate holds back who asks too often or too much at once.
type gate struct {
	rate  rate.Limit // requests per second of a tenant
	burst int
	slots chan struct{} // one token per answer of the process

	mu      sync.Mutex
	tenants map[hub.TenantID]*gated
}

// gated is the state of one tenant. It is forgotten when it says no more than
// a new one would.
type gated struct {
	limiter *rate.Limiter
	slots   chan struct{} // one token per answer of the tenant
	inside  int           // requests that hold this state
	waiting int           // long polls among them
}

func newGate(perSecond, burst int) *gate {
	return &gate{
		rate: rate.Limit(perSecond), burst: burst,
		slots: make(chan struct{}, answersAtOnce), tenants: map[hub.TenantID]*gated{},
	}
}

// enter counts a request of a tenant. The fault says that it came too early.
func (g *gate) enter(t hub.TenantID, now time.Time) (*gated, *fault) {
	g.mu.Lock()
	defer g.mu.Unlock()
	one := g.tenants[t]
	if one == nil {
		g.makeRoom(now)
		one = &gated{limiter: rate.NewLimiter(g.rate, g.burst), slots: make(chan struct{}, answersOfTenant)}
		g.tenants[t] = one
	}
	turn := one.limiter.ReserveN(now, 1)
	if delay := turn.DelayFrom(now); delay > 0 {
		turn.CancelAt(now)
		return nil, tooMany("rate_limited", delay, "tenant %s asks more often than %g times a second, after %d at once", t, float64(g.rate), g.burst)
	}
	one.inside++
	return one, nil
}

// makeRoom forgets tenants that have not asked for a while, and, where that is
// not enough, all that are not inside: they get a new burst.
func (g *gate) makeRoom(now time.Time) {
	for _, rested := range []bool{true, false} {
		if len(g.tenants) < maxGated {
			return
		}
		for t, one := range g.tenants {
			if one.inside == 0 && (!rested || one.limiter.TokensAt(now) >= float64(g.burst)) {
				delete(g.tenants, t)
			}
		}
	}
}

func (g *gate) leave(one *gated) {
	g.mu.Lock()
	defer g.mu.Unlock()
	one.inside--
}

// startWaiting counts a long poll until done is called.
func (g *gate) startWaiting(one *gated) (done func(), f *fault) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if one.waiting >= maxWaiting {
		return nil, tooMany("too_many_waiting", time.Second, "%d requests of this tenant wait for events already", maxWaiting)
	}
	one.waiting++
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		one.waiting--
	}, nil
}

// slot waits for the turn of an answer: first among those of the tenant, so
// that one tenant's slow readers cannot fill the process's.
func (g *gate) slot(ctx context.Context, one *gated) (free func(), err error) {
	ctx, cancel := context.WithTimeout(ctx, slotPatience)
	defer cancel()
	taken := [...]chan struct{}{one.slots, g.slots}
	for i, slots := range taken {
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
			for _, held := range taken[:i] {
				<-held
			}
			return nil, tooMany("too_busy", time.Second, "too many answers are under way")
		}
	}
	return func() { <-g.slots; <-one.slots }, nil
}
