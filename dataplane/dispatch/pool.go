// Package dispatch makes attempts: it takes due deliveries under a lease,
// sends each once, decides what follows and records it.
//
//	deps.go      what a pool works with
//	pool.go      what the pool is made of, its start and its end    (shell)
//	lane.go      what it holds of each destination, and its workers (shell)
//	handover.go  new deliveries, straight from ingest               (shell)
//	claim.go     leases due deliveries from the queue               (shell)
//	gate.go      which lanes may be claimed at all                  (shell)
//	admit.go     how much to hold and to claim                      (pure)
//	manner.go    how a destination behaves, and what it may take    (pure)
//	pace.go      starts and slots of a destination with limits      (pure)
//	attempt.go   one attempt of one delivery, or why there is none  (shell)
//	alone.go     deliveries that a process may have died of         (shell)
//	decide.go    what follows from an attempt                       (pure)
//	outcomes.go  writes outcomes in batches                         (shell)
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
//   - A destination holds at most half of the workers, and all those that are
//     slow or unproven hold at most half together: whatever hangs, the other
//     half works.
//   - A wait that is not a try uses up no attempt: lanes behind an open circuit
//     are not claimed at all, and what was claimed before is given back.
package dispatch

import (
	"container/list"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/streaming-hub/streaming-hub/dataplane/outage"
	"github.com/streaming-hub/streaming-hub/db"
	"github.com/streaming-hub/streaming-hub/hub"
)

// job is a leased delivery in memory.
type job struct {
	claim db.Claim
	event *hub.Event
	// leaseEnds is by our clock and early: counted from before the claim.
	leaseEnds time.Time
	started   time.Time
	at        *list.Element // in Pool.started, until it is slow
}

func (j *job) lane() db.Lane {
	return db.Lane{Tenant: j.claim.Delivery.Tenant, Destination: j.claim.Delivery.Destination}
}

// Pool holds leased deliveries and the workers that attempt them.
type Pool struct {
	deps     Deps
	outages  *outage.Book
	holder   hub.ID // of slots; one for each process
	outcomes *outcomeWriter
	wake     chan struct{} // the claim loop has something to do
	due      chan struct{} // somebody left due deliveries in the queue

	mu       sync.Mutex
	ready    *sync.Cond
	lanes    map[db.Lane]*lane
	conducts map[db.Lane]*conduct
	limited  map[db.Lane]*conduct // those with a pace
	trusted  *rotation            // lanes with waiting jobs and a worker to spare
	suspects *rotation            // the same, of destinations that may hang
	turn     bool                 // whose turn it is between the two
	started  *list.List
	alone    []*job
	backlog  *rotation // lanes with due deliveries in the database
	patient  *rotation // the same, of suspects and of destinations with limits: nobody waits for them
	added    map[db.Lane]uint64
	adds     uint64
	room     int
	pace     float64 // deliveries finished per second, lately
	timed    bool    // some were finished: the pace is known
	pruned   time.Time

	held, suspectHeld       int
	running, suspectRunning int
	aloneRuns               bool
	promised                int // of the room, to ingest batches that are about to reserve
	bytes                   int
	finished                int // since the claim loop last looked
	stopping                bool

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
	if d.Poison <= 0 {
		d.Poison = 5
	}
	p := &Pool{
		deps: d, outages: outage.New(d.Log), holder: hub.NewID(d.Now(), d.Random), wake: make(chan struct{}, 1), due: make(chan struct{}, 1),
		lanes: map[db.Lane]*lane{}, conducts: map[db.Lane]*conduct{}, limited: map[db.Lane]*conduct{}, added: map[db.Lane]uint64{},
		trusted: newRotation(), suspects: newRotation(), backlog: newRotation(), patient: newRotation(), started: list.New(),
		room: Room(d.Workers, 0), pruned: d.Now(),
	}
	p.ready = sync.NewCond(&p.mu)
	p.outcomes = newOutcomeWriter(d, p.outages)
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

// Due is told that somebody left due deliveries in the queue.
func (p *Pool) Due() {
	select {
	case p.due <- struct{}{}:
	default:
	}
}

func (p *Pool) signal() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

func (p *Pool) addBacklog(key db.Lane) {
	p.adds++
	p.added[key] = p.adds
	set, other := p.backlog, p.patient
	if c := p.conductOf(key); c.pace != nil || c.manner.Suspect() {
		set, other = other, set
	}
	other.remove(key)
	set.add(key)
}

func (p *Pool) hasBacklog(key db.Lane) bool { return p.backlog.has(key) || p.patient.has(key) }

func (p *Pool) dropBacklog(key db.Lane) {
	p.backlog.remove(key)
	p.patient.remove(key)
	delete(p.added, key)
}

func (p *Pool) stop(ctx context.Context) {
	p.mu.Lock()
	p.stopping = true
	p.mu.Unlock()
	p.ready.Broadcast()
	p.giveBackWaiting(ctx)
}

// giveLeasesBack is what fails, in the log, when leases run out by themselves.
const giveLeasesBack = "give leases back before they run out"

// giveBackTimeout is how long a database that hangs may hold up the end of the
// process for leases that run out by themselves.
const giveBackTimeout = 5 * time.Second

// giveBackWaiting releases the leases of jobs that no worker has started.
func (p *Pool) giveBackWaiting(ctx context.Context) {
	var releases []db.Release
	p.mu.Lock()
	for key, l := range p.lanes {
		for _, j := range l.waiting {
			releases = append(releases, db.Release{Claim: j.claim})
			p.hold(l, -int(j.claim.Delivery.BodyBytes), -1)
		}
		l.waiting = nil
		p.place(key, l)
	}
	for _, j := range p.alone {
		releases = append(releases, db.Release{Claim: j.claim})
		p.drop(j.lane(), int(j.claim.Delivery.BodyBytes))
	}
	p.alone = nil
	p.mu.Unlock()
	if len(releases) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, giveBackTimeout)
	defer cancel()
	p.outages.Failed(giveLeasesBack, p.deps.Queue.ReleaseLeases(ctx, releases), "deliveries", len(releases))
}
