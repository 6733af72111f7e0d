package dispatch

import (
	"context"
	"crypto/rand"
	"log/slog"
	"math"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/streaming-hub/streaming-hub/dataplane/circuit"
	"github.com/streaming-hub/streaming-hub/dataplane/circuit/circuittest"
	"github.com/streaming-hub/streaming-hub/dataplane/sink"
	"github.com/streaming-hub/streaming-hub/dataplane/snapshot"
	"github.com/streaming-hub/streaming-hub/db"
	"github.com/streaming-hub/streaming-hub/hub"
	"github.com/streaming-hub/streaming-hub/hub/hubtest"
	"github.com/streaming-hub/streaming-hub/hub/secret"
)

// scripted is a sink that does what a test says.
type scripted struct {
	mu      sync.Mutex
	sent    []sent
	running map[hub.DestinationID]int
	most    map[hub.DestinationID]int // attempts of a destination at once
	do      func(ctx context.Context, job sink.Job) hub.Failure
}

type sent struct {
	id     hub.DeliveryID
	to     hub.DestinationID
	number int32
	at     time.Time
}

func (s *scripted) Attempt(ctx context.Context, job sink.Job) hub.Attempt {
	started := time.Now()
	dest := job.Delivery.Destination
	s.mu.Lock()
	s.sent = append(s.sent, sent{job.Delivery.ID, dest, job.Number, started})
	s.running[dest]++
	s.most[dest] = max(s.most[dest], s.running[dest])
	s.mu.Unlock()
	a := hub.Attempt{ID: job.AttemptID, Number: job.Number, Started: started, Answer: hub.Answer{Status: 200}}
	if s.do != nil {
		a.Failure = s.do(ctx, job)
	}
	s.mu.Lock()
	s.running[dest]--
	s.mu.Unlock()
	return a
}

func (s *scripted) log() []sent {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.sent)
}

// peak is how many attempts of a destination there were at once.
func (s *scripted) peak(dest hub.DestinationID) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.most[dest]
}

// configStore is a tenant's configuration that tests change.
type configStore struct {
	mu     sync.Mutex
	config db.TenantConfig
}

func (s *configStore) change(do func(c *db.TenantConfig)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.config.Version++
	do(&s.config)
}

func (s *configStore) TenantConfigs(_ context.Context, ids []hub.TenantID) (map[hub.TenantID]*db.TenantConfig, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.config
	c.Tenant = ids[0]
	c.Subscriptions = slices.Clone(c.Subscriptions)
	return map[hub.TenantID]*db.TenantConfig{ids[0]: &c}, nil
}

func (s *configStore) ConfigVersions(_ context.Context, ids []hub.TenantID) (map[hub.TenantID]int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return map[hub.TenantID]int64{ids[0]: s.config.Version}, nil
}

// rig is a pool in a bubble of fake time, with everything around it.
type rig struct {
	*testing.T
	pool   *Pool
	queue  *memoryQueue
	sink   *scripted
	store  *configStore
	boards *circuittest.Memory
	health *openHealth
	lanes  []db.Lane // one subscription each
	subs   map[db.Lane]hub.SubscriptionID

	deps Deps
	ctx  context.Context
	more sync.WaitGroup

	stop func() // asks the pool to stop
	done chan struct{}
	hard func() // ends what still works
}

func newID() hub.ID { return hubtest.NewID() }

// bubble runs a test of a pool with so many destinations; change adapts it
// before it is made. Run is not started.
func bubble(t *testing.T, destinations int, change func(r *rig, d *Deps), test func(r *rig)) {
	synctest.Test(t, func(t *testing.T) {
		keyring, err := secret.ParseKeyring("k:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=")
		if err != nil {
			t.Fatal(err)
		}
		r := &rig{
			T: t, queue: &memoryQueue{rows: map[hub.DeliveryID]*queueRow{}}, subs: map[db.Lane]hub.SubscriptionID{},
			sink: &scripted{running: map[hub.DestinationID]int{}, most: map[hub.DestinationID]int{}},
		}
		r.boards, r.health = &circuittest.Memory{}, &openHealth{}
		r.store = &configStore{config: db.TenantConfig{Version: 1, Destinations: map[hub.DestinationID]db.DestinationConfig{}}}
		for range destinations {
			dest, sub, binding := hub.DestinationID{ID: newID()}, hub.SubscriptionID{ID: newID()}, secret.Binding{Tenant: "acme", Row: newID(), Version: 1}
			_, key := secret.NewSigning(rand.Reader)
			sealed, err := keyring.Seal(rand.Reader, key, binding)
			if err != nil {
				t.Fatal(err)
			}
			r.store.config.Destinations[dest] = db.DestinationConfig{
				Destination: hub.Destination{ID: dest, Tenant: "acme", Kind: hub.SinkWebhook, URL: "https://example.com/"},
				Secrets:     []db.SealedSecret{{Sealed: sealed, Binding: binding}},
			}
			r.store.config.Subscriptions = append(r.store.config.Subscriptions, hub.EventSubscription{
				ID: sub, Tenant: "acme", Destination: dest, Kind: hub.SinkWebhook, Enabled: true,
				VerificationState: hub.VerificationActive, EventTypes: []string{"*"}, Timeout: hub.DefaultTimeout,
			})
			lane := db.Lane{Tenant: "acme", Destination: dest}
			r.lanes = append(r.lanes, lane)
			r.subs[lane] = sub
		}
		r.health.all = r.lanes
		tenants := snapshot.New(snapshot.Deps{Store: r.store, Keyring: keyring, Now: time.Now, Log: slog.New(slog.DiscardHandler)})
		board := circuit.New(circuit.Deps{
			Store: r.boards, Now: time.Now, Random: rand.Reader, Log: slog.New(slog.DiscardHandler),
			Moved: func(l db.Lane) { r.pool.Moved(l) },
		})
		var token int64
		var tokens sync.Mutex
		deps := Deps{
			Queue: r.queue, Sink: r.sink, Tenants: tenants, Circuits: board, Health: r.health, Workers: 8, Now: time.Now, Random: rand.Reader,
			Token: func() int64 {
				tokens.Lock()
				defer tokens.Unlock()
				token++
				return token
			},
			Jitter:  func() float64 { return math.Nextafter(1, 0) },
			Metrics: NewMetrics(prometheus.NewRegistry()), Log: slog.New(slog.DiscardHandler),
		}
		if change != nil {
			change(r, &deps)
		}
		r.pool, r.deps = NewPool(deps), deps
		ctx, stop := context.WithCancel(t.Context())
		hard, endHard := context.WithCancel(t.Context())
		r.stop, r.hard, r.done, r.ctx = stop, endHard, make(chan struct{}), ctx
		started := make(chan struct{})
		go func() {
			defer close(r.done)
			var beside sync.WaitGroup
			beside.Go(func() { _ = tenants.Run(ctx) })
			beside.Go(func() { _ = board.Run(ctx) })
			close(started)
			if err := r.pool.Run(ctx, hard); err != nil {
				t.Error(err)
			}
			beside.Wait()
		}()
		<-started
		synctest.Wait()
		defer func() {
			stop()
			endHard()
			<-r.done
			r.more.Wait()
		}()
		test(r)
	})
}

// replica starts another process beside the first: a pool and a board of its
// own, over the same queue and the same stored circuits.
func (r *rig) replica() *Pool {
	d := r.deps
	var pool *Pool
	board := circuit.New(circuit.Deps{
		Store: r.boards, Now: time.Now, Random: rand.Reader, Log: d.Log, Moved: func(l db.Lane) { pool.Moved(l) },
	})
	d.Circuits, d.Metrics = board, NewMetrics(prometheus.NewRegistry())
	pool = NewPool(d)
	r.more.Go(func() { _ = board.Run(r.ctx) })
	r.more.Go(func() {
		if err := pool.Run(r.ctx, r.ctx); err != nil {
			r.Error(err)
		}
	})
	return pool
}

// openHealth is a failure policy that nothing trips, and remembers what it saw.
type openHealth struct {
	mu   sync.Mutex
	all  []db.Lane
	seen []Observed
	shut bool // no attempt of any destination
	try  bool // one, when asked for
	lost bool // another process takes it
}

func (h *openHealth) Admit(db.Lane) (allow, try bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return !h.shut || h.try, h.shut && h.try
}

func (h *openHealth) TakeTry(context.Context, db.Lane, hub.FailurePolicy) (bool, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	taken := h.try && !h.lost
	h.try = false
	return taken, nil
}

func (h *openHealth) OffLanes() []db.Lane {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.shut {
		return slices.Clone(h.all)
	}
	return nil
}

func (h *openHealth) Record(o Observed) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.seen = append(h.seen, o)
}

func (h *openHealth) set(shut, try bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.shut, h.try = shut, try
}

// taken makes the next try one that another process takes.
func (h *openHealth) taken() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.shut, h.try, h.lost = true, true, true
}

func (h *openHealth) observed() []Observed {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.seen)
}

// proven makes the pool know all destinations as fast.
func (r *rig) proven() {
	r.pool.mu.Lock()
	defer r.pool.mu.Unlock()
	for _, l := range r.lanes {
		r.pool.conductOf(l).manner = manner{Known: true, Grown: DestinationCap(r.pool.deps.Workers)}
	}
}

// deliveries makes n new ones of a lane.
func (r *rig) deliveries(lane, n int) []db.NewDelivery {
	list := make([]db.NewDelivery, n)
	for i := range list {
		l := r.lanes[lane]
		list[i].Delivery = hub.Delivery{
			ID: hub.DeliveryID{ID: newID()}, Event: hub.EventID{ID: newID()}, Tenant: l.Tenant, Destination: l.Destination,
			Subscription: r.subs[l], Run: 1, ReceivedAt: time.Now(), DueAt: time.Now(), BodyBytes: 10,
		}
	}
	return list
}

// ingest brings deliveries in as the consumer does.
func (r *rig) ingest(list []db.NewDelivery) {
	leasedAt := time.Now()
	r.pool.Reserve(list)
	r.queue.insert(list, r.pool.Lease())
	events := map[hub.EventID]*hub.Event{}
	for _, d := range list {
		events[d.Delivery.Event] = &hub.Event{ID: d.Delivery.Event, ResourceType: "loan", EventType: "approved", Source: "lender"}
	}
	r.pool.Submit(list, events, leasedAt)
}

// after lets fake time pass.
func (r *rig) after(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// wantSettled says whether each delivery was attempted and recorded once, and
// nothing is held any more.
func (r *rig) wantSettled(n int) {
	r.Helper()
	r.queue.mu.Lock()
	defer r.queue.mu.Unlock()
	ids := map[hub.DeliveryID]int{}
	for _, s := range r.sink.log() {
		ids[s.id]++
	}
	for id, times := range ids {
		if times != 1 {
			r.Errorf("%s was sent %d times", id, times)
		}
	}
	if len(ids) != n || len(r.queue.recorded) != n || r.queue.lost != 0 || len(r.queue.rows) != 0 {
		r.Errorf("%d sent, %d recorded, %d lost, %d left, want %d of the first two", len(ids), len(r.queue.recorded), r.queue.lost, len(r.queue.rows), n)
	}
	r.pool.mu.Lock()
	defer r.pool.mu.Unlock()
	if r.pool.held != 0 || r.pool.bytes != 0 {
		r.Errorf("the pool still holds %d deliveries of %d bytes", r.pool.held, r.pool.bytes)
	}
}

// wantEnd says whether the only delivery ended without a request, for a
// reason.
func (r *rig) wantEnd(reason hub.DeadReason) {
	r.Helper()
	history := r.queue.history()
	if len(r.sink.log()) != 0 || len(history) != 1 || len(r.queue.left()) != 0 {
		r.Fatalf("%d sent, %d recorded, %d left, want one end", len(r.sink.log()), len(history), len(r.queue.left()))
	}
	o := history[0]
	if o.Decision.State != hub.Dead || o.Decision.DeadReason != reason || o.Attempt.Number != 0 ||
		o.Attempt.Failure.Detail == "" || len(o.Decision.Fingerprint) == 0 {
		r.Errorf("outcome = %+v", o)
	}
	if held, _ := r.pool.Held(); held != 0 {
		r.Errorf("the pool holds %d", held)
	}
}
