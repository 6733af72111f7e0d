package health_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"github.com/streaming-hub/streaming-hub/dataplane/dispatch"
	"github.com/streaming-hub/streaming-hub/dataplane/health"
	"github.com/streaming-hub/streaming-hub/dataplane/health/healthtest"
	"github.com/streaming-hub/streaming-hub/db"
	"github.com/streaming-hub/streaming-hub/hub"
	rules "github.com/streaming-hub/streaming-hub/hub/health"
	"github.com/streaming-hub/streaming-hub/hub/hubtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// cluster is two replicas over one store, in a bubble of fake time, with one
// subscription and its destination.
type cluster struct {
	*testing.T
	store *healthtest.Memory
	lane  db.Lane
	sub   hub.SubscriptionID
	one   *replica
	two   *replica
	begun time.Time

	policy hub.FailurePolicy
	deps   health.Deps
	log    *lockedBuffer
}

// replica is a board that shares.
type replica struct {
	*health.Board
	stop func() // waits until it has written what was left
}

func newID() hub.ID { return hubtest.NewID() }

// bubble runs a test of two replicas; change adapts what they are made of.
func bubble(t *testing.T, change func(c *cluster), test func(c *cluster)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := &cluster{
			T: t, store: &healthtest.Memory{}, log: &lockedBuffer{},
			lane: db.Lane{Tenant: "acme", Destination: hub.DestinationID{ID: newID()}},
		}
		c.store.AddDestination(c.lane, time.Now())
		c.sub = c.subscription()
		c.deps = health.Deps{
			Store: c.store, Span: rules.DefaultSpan(), Act: true, Now: time.Now, Random: rand.Reader,
			Log: slog.New(slog.NewTextHandler(c.log, nil)),
		}
		if change != nil {
			change(c)
		}
		c.one = c.start()
		time.Sleep(300 * time.Millisecond) // replicas do not tick together
		c.two = c.start()
		time.Sleep(20100 * time.Millisecond) // nor do minutes or seconds begin with a test
		c.begun = time.Now()
		test(c)
		c.one.stop()
		c.two.stop()
	})
}

func (c *cluster) subscription() hub.SubscriptionID {
	id := hub.SubscriptionID{ID: newID()}
	c.store.AddSubscription(hub.EventSubscription{
		ID: id, Tenant: c.lane.Tenant, Destination: c.lane.Destination, Enabled: true, VerificationState: hub.VerificationActive,
		DisableOnGone: true,
	})
	return id
}

// start makes a replica that knows nothing yet.
func (c *cluster) start() *replica {
	deps := c.deps
	deps.Metrics = prometheus.NewRegistry()
	r := &replica{Board: health.New(deps)}
	ctx, cancel := context.WithCancel(c.Context())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	synctest.Wait()
	r.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			c.Errorf("Run = %v", err)
		}
	})
	return r
}

// restart replaces both replicas by new ones after a pause.
func (c *cluster) restart(pause time.Duration) {
	c.one.stop()
	c.two.stop()
	time.Sleep(pause)
	c.one, c.two = c.start(), c.start()
}

// pass lets time go by, and all that is due then happen.
func (c *cluster) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// until lets time go by until so long after the test began.
func (c *cluster) until(d time.Duration) { c.pass(d - time.Since(c.begun)) }

// share lets every replica write and read.
func (c *cluster) share() { c.pass(2100 * time.Millisecond) }

// either is a replica by turns.
func (c *cluster) either(n int) *replica { return []*replica{c.one, c.two}[n%2] }

// see makes an attempt of the subscription end on a replica.
func (c *cluster) see(r *replica, class hub.ErrorClass, change ...func(o *dispatch.Observed)) {
	o := dispatch.Observed{Lane: c.lane, Subscription: c.sub, Policy: c.policy, Class: class, Status: 200}
	if class != "" {
		o.Status = 500
	}
	for _, do := range change {
		do(&o)
	}
	r.Record(o)
}

func (c *cluster) fail(r *replica)    { c.see(r, hub.ErrStatus) }
func (c *cluster) succeed(r *replica) { c.see(r, "") }

func replay(o *dispatch.Observed) { o.Replay = true }
func tried(o *dispatch.Observed)  { o.Try = true }

// told are the kinds of the notices of the subscription or destination.
func (c *cluster) told() (kinds []hub.NoticeKind) {
	for _, n := range c.store.Notices() {
		if n.Tenant != c.lane.Tenant || n.Destination != c.lane.Destination || n.At.IsZero() || n.Reason == "" {
			c.Errorf("a notice without what it is about: %+v", n)
		}
		kinds = append(kinds, n.Kind)
	}
	return kinds
}

func (c *cluster) enabled() bool { return c.store.Subscription(c.sub).Enabled }

// lockedBuffer is a log that a test reads while it is written.
type lockedBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// eachTrouble runs a test with a store that is away at times, and with one
// that can be read then and not written.
func eachTrouble(t *testing.T, test func(c *cluster, away func(bool))) {
	t.Helper()
	t.Run("away", func(t *testing.T) {
		bubble(t, nil, func(c *cluster) { test(c, c.store.SetAway) })
	})
	t.Run("read_only", func(t *testing.T) {
		store := &readOnly{}
		bubble(t, func(c *cluster) {
			store.Memory = c.store
			c.deps.Store = store
		}, func(c *cluster) { test(c, store.refuse.Store) })
	})
}

// readOnly is a store that refuses to be written at times.
type readOnly struct {
	*healthtest.Memory
	refuse atomic.Bool
}

func (s *readOnly) ChangeSpans(ctx context.Context, wanted []db.FailureSpan, feedID hub.ID, change func(int, db.FailureSpan) (db.FailureSpan, []hub.Notice)) ([]db.FailureSpan, error) {
	if s.refuse.Load() {
		return nil, healthtest.ErrAway
	}
	return s.Memory.ChangeSpans(ctx, wanted, feedID, change)
}

func (s *readOnly) ChangeRates(ctx context.Context, lanes []db.Lane, feedID hub.ID, change func(int, rules.Rate) (rules.Rate, []hub.Notice)) ([]rules.Rate, error) {
	if s.refuse.Load() {
		return nil, healthtest.ErrAway
	}
	return s.Memory.ChangeRates(ctx, lanes, feedID, change)
}
