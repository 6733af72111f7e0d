// Package dispatch makes attempts: it takes due deliveries under a lease,
// sends each once, decides what follows and records it.
//
//	pool.go      what this process holds, and its workers          (shell)
//	handover.go  new deliveries, straight from ingest              (shell)
//	claim.go     leases due deliveries from the queue              (shell)
//	admit.go     how much to claim, of which lanes                 (pure)
//	attempt.go   one attempt of one delivery                       (shell)
//	decide.go    what follows from an attempt                      (pure)
//	outcomes.go  writes outcomes in batches                        (shell)
//
// What must hold, and why:
//
//   - One claim is one attempt. Its outcome is written under the claim's
//     token; a worker that lost its lease writes nothing.
//   - A request is sent only while the lease covers its whole timeout, so a
//     delivery is not in two hands at once unless clocks stand still.
//   - Outcomes that are sent but not written are bounded: a crash repeats at
//     most those and the attempts under way.
//   - New deliveries of an idle lane go from ingest to a worker in memory; a
//     lane with a backlog in the database goes through it, so none is overtaken
//     for ever.
package dispatch

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/streaming-hub/streaming-hub/dataplane/sink"
	"github.com/streaming-hub/streaming-hub/dataplane/snapshot"
	"github.com/streaming-hub/streaming-hub/db"
	"github.com/streaming-hub/streaming-hub/hub"
)

// Queue is the delivery queue in the database.
type Queue interface {
	Lanes(ctx context.Context, after db.Lane, limit int) ([]db.LaneHead, error)
	ClaimLanes(ctx context.Context, quotas []db.LaneQuota, lease time.Duration) ([]db.Claim, error)
	Events(ctx context.Context, ids []hub.ID) ([]hub.Event, error)
	ReleaseLeases(ctx context.Context, claims []db.Claim, putOff time.Duration) error
	RecordOutcomes(ctx context.Context, feedID hub.ID, outcomes []hub.Outcome) (map[hub.DeliveryID]bool, error)
}

// Sink makes one attempt.
type Sink interface {
	Attempt(ctx context.Context, job sink.Job) hub.Attempt
}

// Tenants knows the routes of deliveries.
type Tenants interface {
	Get(ctx context.Context, ids []hub.TenantID) (map[hub.TenantID]*snapshot.Tenant, error)
}

// Deps are what a Pool works with.
type Deps struct {
	Queue     Queue
	Sink      Sink
	Tenants   Tenants
	Workers   int           // attempts at once, 8 by default
	Lease     time.Duration // of a claim, 60 s by default; longer than the longest attempt
	Unwritten int           // outcomes sent and not yet written, 512 by default
	Now       func() time.Time
	Random    io.Reader
	Token     func() int64   // a random lease token, never 0
	Jitter    func() float64 // [0, 1)
	Metrics   *Metrics
	Log       *slog.Logger
}

// job is a leased delivery in memory.
type job struct {
	claim db.Claim
	event *hub.Event
	// leaseEnds is by our clock and early: counted from before the claim.
	leaseEnds time.Time
}

func (j *job) lane() db.Lane {
	return db.Lane{Tenant: j.claim.Delivery.Tenant, Destination: j.claim.Delivery.Destination}
}

// lane is what this process holds of one destination.
type lane struct {
	waiting []*job
	running int // attempts under way
	held    int // reserved + waiting + running
}

// Pool holds leased deliveries and the workers that attempt them.
type Pool struct {
	deps     Deps
	outcomes *outcomeWriter
	wake     chan struct{} // the claim loop has something to do

	mu       sync.Mutex
	ready    *sync.Cond
	lanes    map[db.Lane]*lane
	runnable *rotation // lanes with waiting jobs and a free worker allowance
	backlog  *rotation // lanes with due deliveries in the database
	added    map[db.Lane]uint64
	adds     uint64
	room     int
	pace     float64 // deliveries finished per second, lately
	paced    bool    // some were finished: the pace is known
	held     int
	promised int // of the room, to ingest batches that are about to reserve
	bytes    int
	finished int // since the claim loop last looked
	stopping bool

	unsignedAt  time.Time // when a delivery last waited for a key
	unsignedWhy error
	toldAt      time.Time
}

// NewPool makes a pool; Run does the work.
func NewPool(d Deps) *Pool {
	if d.Workers <= 0 {
		d.Workers = 8
	}
	if d.Lease <= 0 {
		d.Lease = 60 * time.Second
	}
	if d.Unwritten <= 0 {
		d.Unwritten = 512
	}
	p := &Pool{
		deps: d, wake: make(chan struct{}, 1), lanes: map[db.Lane]*lane{},
		runnable: newRotation(), backlog: newRotation(), added: map[db.Lane]uint64{},
		room: Room(d.Workers, 0),
	}
	p.ready = sync.NewCond(&p.mu)
	p.outcomes = newOutcomeWriter(d)
	return p
}

// Lease is the time that claims are leased for.
func (p *Pool) Lease() time.Duration { return p.deps.Lease }

// Run claims and attempts until ctx ends. Then it gives back what no worker
// has started, lets the attempts under way end within hard, records their
// outcomes and returns.
func (p *Pool) Run(ctx context.Context, hard context.Context) error {
	writerDone := make(chan struct{})
	go func() {
		defer close(writerDone)
		p.outcomes.run(hard)
	}()
	var workers sync.WaitGroup
	for range p.deps.Workers {
		workers.Go(func() { p.work(hard) })
	}
	p.claimLoop(ctx)
	p.stop(hard)
	workers.Wait()
	p.outcomes.close()
	<-writerDone
	return nil
}

// Held is how many deliveries this process holds, and how many it may.
func (p *Pool) Held() (held, room int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.held, p.room
}

// Ready reports whether deliveries wait for a key to sign with.
func (p *Pool) Ready() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.unsignedWhy != nil && p.deps.Now().Sub(p.unsignedAt) < 30*time.Second {
		return fmt.Errorf("deliveries wait, nothing is sent unsigned: %w", p.unsignedWhy)
	}
	return nil
}

// unsigned notes that a delivery waits for a key, and says so once a minute.
func (p *Pool) unsigned(why error) {
	p.mu.Lock()
	now := p.deps.Now()
	tell := p.unsignedWhy == nil || now.Sub(p.toldAt) >= time.Minute
	if tell {
		p.toldAt = now
	}
	p.unsignedAt, p.unsignedWhy = now, why
	p.mu.Unlock()
	if tell {
		p.deps.Log.Error("deliveries wait: nothing is sent unsigned", "error", why)
	}
}

func (p *Pool) signal() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

func (p *Pool) lane(key db.Lane) *lane {
	l, ok := p.lanes[key]
	if !ok {
		l = &lane{}
		p.lanes[key] = l
	}
	return l
}

func (p *Pool) hold(l *lane, bytes, n int) {
	l.held += n
	p.held += n
	p.bytes += bytes
}

func (p *Pool) drop(key db.Lane, bytes int) {
	l := p.lanes[key]
	p.hold(l, -bytes, -1)
	if l.held == 0 {
		delete(p.lanes, key)
	}
}

// enqueue makes a held job available to the workers.
func (p *Pool) enqueue(j *job) {
	key := j.lane()
	l := p.lane(key)
	l.waiting = append(l.waiting, j)
	if l.running < DestinationCap(p.deps.Workers) {
		p.runnable.add(key)
		p.ready.Signal()
	}
}

func (p *Pool) addBacklog(key db.Lane) {
	p.adds++
	p.added[key] = p.adds
	p.backlog.add(key)
}

// take waits for a job whose destination has a worker to spare; nil means that
// the pool is stopping.
func (p *Pool) take() *job {
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		if p.stopping {
			return nil
		}
		if key, ok := p.runnable.next(); ok {
			l := p.lanes[key]
			j := l.waiting[0]
			l.waiting[0] = nil
			l.waiting = l.waiting[1:]
			l.running++
			if len(l.waiting) == 0 || l.running >= DestinationCap(p.deps.Workers) {
				p.runnable.remove(key)
			}
			return j
		}
		p.ready.Wait()
	}
}

// finish lets go of a job that a worker took.
func (p *Pool) finish(j *job) {
	key := j.lane()
	p.mu.Lock()
	l := p.lanes[key]
	l.running--
	if len(l.waiting) > 0 && !p.runnable.has(key) {
		p.runnable.add(key)
		p.ready.Signal()
	}
	p.drop(key, int(j.claim.Delivery.BodyBytes))
	p.finished++
	hungry := p.held <= p.room/2 && p.backlog.len() > 0
	p.mu.Unlock()
	if hungry {
		p.signal()
	}
}

func (p *Pool) stop(ctx context.Context) {
	p.mu.Lock()
	p.stopping = true
	p.mu.Unlock()
	p.ready.Broadcast()
	p.giveBackWaiting(ctx)
}

// giveBackWaiting releases the leases of jobs that no worker has started.
func (p *Pool) giveBackWaiting(ctx context.Context) {
	var claims []db.Claim
	p.mu.Lock()
	for key, l := range p.lanes {
		for _, j := range l.waiting {
			claims = append(claims, j.claim)
			p.hold(l, -int(j.claim.Delivery.BodyBytes), -1)
		}
		l.waiting = nil
		p.runnable.remove(key)
	}
	p.mu.Unlock()
	if len(claims) == 0 {
		return
	}
	if err := p.deps.Queue.ReleaseLeases(ctx, claims, 0); err != nil {
		p.deps.Log.Warn("cannot give leases back; they run out by themselves", "deliveries", len(claims), "error", err)
	}
}
