package sink

import (
	"context"
	"net/http"
	"sync"
	"time"
)

// Limits of kept connections.
const (
	maxIdle         = 4096             // of a process
	maxIdlePerPlace = 1024             // many destinations may share a host
	maxIdleTime     = 60 * time.Second // receivers commonly close after 60 s and more
	maxAge          = 10 * time.Minute // a name that leads elsewhere is followed by then
	sweepEvery      = 15 * time.Second
)

// place is where attempts may share connections: those that agree in all of
// it. Tenants share hosts, so what a connection proves about its client is part
// of it.
type place struct {
	scheme, address string // address is host:port
	identity        identity
}

// carrier is an open connection in one version of HTTP. It carries one request
// at a time.
type carrier interface {
	// roundTrip sends a request and reads the head of its answer. An error says
	// that there was no answer; the connection is then good for nothing.
	roundTrip(ctx context.Context, r *request, clock *phases) (*http.Response, error)
	// free ends a request whose answer was read to its end, and reports
	// whether another one may follow.
	free() bool
	// reserve takes an idle connection for the next request; it reports whether
	// it is still open.
	reserve() bool
	// ended reports whether an idle connection can carry no more requests.
	ended() bool
	close()
}

// connection is a carrier and what the pool knows of it.
type connection struct {
	carrier
	place     place
	peer      peerFacts
	kept      bool // it has carried a request before
	born      time.Time
	idleSince time.Time
}

// pool keeps open connections for the next attempt.
type pool struct {
	opener *opener
	now    func() time.Time

	mu       sync.Mutex
	idle     map[place][]*connection // the one idle for the shortest time last
	count    int
	closed   bool
	sweeping *time.Timer // set while connections are idle
}

func newPool(o *opener, now func() time.Time) *pool {
	return &pool{opener: o, now: now, idle: make(map[place][]*connection)}
}

// take gives a connection that nobody else uses, kept or new. A new one is
// opened within ctx: when the attempt ends, nothing of it goes on.
func (p *pool) take(ctx context.Context, at place, cert *Certificate, clock *phases) (*connection, error) {
	for {
		c := p.pop(at)
		if c == nil {
			return p.open(ctx, at, cert, clock)
		}
		if c.reserve() {
			clock.reuse(c.peer)
			return c, nil
		}
		c.close() // the receiver has ended it meanwhile
	}
}

func (p *pool) open(ctx context.Context, at place, cert *Certificate, clock *phases) (*connection, error) {
	opened, err := p.opener.open(ctx, at, cert, clock)
	if err != nil {
		return nil, err
	}
	return &connection{carrier: opened, place: at, peer: clock.connected(), born: p.now()}, nil
}

// settleTime is how long a request may take to end after its answer did. It
// ends within microseconds, unless the receiver answered without taking the
// body.
const settleTime = 50 * time.Millisecond

// give keeps a connection whose answer was read to its end, if it can carry
// another request.
func (p *pool) give(c *connection) {
	now := p.now()
	if !c.free() || now.Sub(c.born) > maxAge || !p.keep(c, now) {
		c.close()
	}
}

func (p *pool) pop(at place) *connection {
	p.mu.Lock()
	defer p.mu.Unlock()
	list := p.idle[at]
	if len(list) == 0 {
		return nil
	}
	last := len(list) - 1
	c := list[last]
	list[last] = nil
	p.setIdle(at, list[:last])
	return c
}

func (p *pool) keep(c *connection, now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	list := p.idle[c.place]
	if p.closed || len(list) >= maxIdlePerPlace {
		return false
	}
	if p.count >= maxIdle {
		p.evict()
		list = p.idle[c.place]
	}
	c.kept, c.idleSince = true, now
	p.setIdle(c.place, append(list, c))
	if p.sweeping == nil {
		p.sweeping = time.AfterFunc(sweepEvery, p.sweep)
	}
	return true
}

func (p *pool) setIdle(at place, list []*connection) {
	p.count += len(list) - len(p.idle[at])
	p.idle[at] = list // an empty one keeps its room; sweep forgets it
}

// evict closes the longest idle connection among a few places, which the map
// gives in an order of its own: near enough to the longest idle of all.
func (p *pool) evict() {
	const sample = 16
	var oldest *connection
	seen := 0
	for _, list := range p.idle {
		if len(list) == 0 {
			continue
		}
		if oldest == nil || list[0].idleSince.Before(oldest.idleSince) {
			oldest = list[0]
		}
		if seen++; seen == sample {
			break
		}
	}
	if oldest != nil {
		p.setIdle(oldest.place, append([]*connection(nil), p.idle[oldest.place][1:]...))
		go oldest.close()
	}
}

// sweep closes what has been idle too long, and forgets what receivers closed.
func (p *pool) sweep() {
	now := p.now()
	var ended []*connection
	p.mu.Lock()
	for at, list := range p.idle {
		kept := list[:0]
		for _, c := range list {
			if now.Sub(c.idleSince) > maxIdleTime || now.Sub(c.born) > maxAge || c.ended() {
				ended = append(ended, c)
			} else {
				kept = append(kept, c)
			}
		}
		clear(list[len(kept):])
		p.count -= len(list) - len(kept)
		if p.idle[at] = kept; len(kept) == 0 {
			delete(p.idle, at)
		}
	}
	p.sweeping = nil
	if len(p.idle) > 0 && !p.closed {
		p.sweeping = time.AfterFunc(sweepEvery, p.sweep)
	}
	p.mu.Unlock()
	for _, c := range ended {
		c.close()
	}
}

// close ends idle connections now, and those in use when they are given back.
func (p *pool) close() {
	p.mu.Lock()
	idle := p.idle
	p.idle, p.count, p.closed = make(map[place][]*connection), 0, true
	if p.sweeping != nil {
		p.sweeping.Stop()
	}
	p.mu.Unlock()
	for _, list := range idle {
		for _, c := range list {
			c.close()
		}
	}
}
