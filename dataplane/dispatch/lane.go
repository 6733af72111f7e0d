package dispatch

import (
	"time"

	"github.com/streaming-hub/streaming-hub/db"
)

// lane is what this process holds of one destination.
type lane struct {
	waiting []*job
	running int // attempts under way
	held    int // reserved + waiting + running
	*conduct
}

// conduct is what this process knows of a destination, also while it holds
// nothing of it.
type conduct struct {
	manner manner
	pace   *pace // nil without limits
	timer  bool  // a timer will look at the lane again
	lasts  bool  // last attempts were found behind its open circuit
	usedAt time.Time
}

// conductKept bounds what is known of destinations that nobody uses.
const conductKept = time.Hour

func (p *Pool) conductOf(key db.Lane) *conduct {
	c, ok := p.conducts[key]
	if !ok {
		c = &conduct{}
		p.conducts[key] = c
	}
	c.usedAt = p.deps.Now()
	return c
}

func (p *Pool) lane(key db.Lane) *lane {
	l, ok := p.lanes[key]
	if !ok {
		l = &lane{conduct: p.conductOf(key)}
		p.lanes[key] = l
	}
	return l
}

func (p *Pool) hold(l *lane, bytes, n int) {
	l.held += n
	p.held += n
	if l.manner.Suspect() {
		p.suspectHeld += n
	}
	p.bytes += bytes
}

func (p *Pool) drop(key db.Lane, bytes int) {
	l := p.lanes[key]
	p.hold(l, -bytes, -1)
	if l.held == 0 {
		p.trusted.remove(key)
		p.suspects.remove(key)
		delete(p.lanes, key)
	}
}

// setManner changes what is known of a lane, and with it the sums over
// suspects.
func (p *Pool) setManner(key db.Lane, l *lane, m manner) {
	if was, is := l.manner.Suspect(), m.Suspect(); was != is {
		sign := 1
		if was {
			sign = -1
		}
		p.suspectHeld += sign * l.held
		p.suspectRunning += sign * l.running
		p.trusted.remove(key)
		p.suspects.remove(key)
	}
	l.manner = m
	if p.hasBacklog(key) {
		p.addBacklog(key)
	}
	p.place(key, l)
}

// allowance is how many attempts of the lane may be under way.
func (p *Pool) allowance(key db.Lane, l *lane) int {
	return l.manner.Allowance(p.deps.Workers, p.deps.Circuits.Ramp(key))
}

// place puts a lane where the workers find it, or takes it away from there:
// whenever something changed that decides about it.
func (p *Pool) place(key db.Lane, l *lane) {
	set := p.trusted
	if l.manner.Suspect() {
		set = p.suspects
	}
	if len(l.waiting) == 0 || l.running >= p.allowance(key, l) || !p.paced(key, l) {
		set.remove(key)
		return
	}
	set.add(key)
	p.ready.Signal()
}

// paced reports whether the limits of a lane let an attempt start now, and
// sees to it that somebody looks again when they will.
func (p *Pool) paced(key db.Lane, l *lane) bool {
	if l.pace == nil {
		return true
	}
	now := p.deps.Now()
	ok, again := l.pace.Ready(now, l.running)
	if !ok && !again.IsZero() && !l.timer {
		l.timer = true
		time.AfterFunc(again.Sub(now), func() {
			p.mu.Lock()
			defer p.mu.Unlock()
			c := p.conducts[key]
			if c != nil {
				c.timer = false
			}
			if l, ok := p.lanes[key]; ok {
				p.place(key, l)
			}
		})
	}
	return ok
}

// enqueue makes a held job available to the workers.
func (p *Pool) enqueue(j *job) {
	if j.alone() {
		p.alone = append(p.alone, j)
		p.ready.Signal()
		return
	}
	key := j.lane()
	l := p.lane(key)
	l.waiting = append(l.waiting, j)
	p.place(key, l)
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
		if j := p.next(); j != nil {
			return j
		}
		p.ready.Wait()
	}
}

// next is a job to attempt now, nil when there is none.
func (p *Pool) next() *job {
	if j := p.nextAlone(); j != nil {
		return j
	}
	// Suspects and the others take turns; but the others are never kept
	// waiting by a full half.
	first, second := p.trusted, p.suspects
	if p.turn = !p.turn; p.turn {
		first, second = second, first
	}
	for _, set := range []*rotation{first, second} {
		if set == p.suspects && p.suspectRunning >= SuspectCap(p.deps.Workers) {
			continue
		}
		key, ok := set.next()
		if !ok {
			continue
		}
		l := p.lanes[key]
		j := l.waiting[0]
		l.waiting[0] = nil
		l.waiting = l.waiting[1:]
		p.start(key, l, j)
		return j
	}
	return nil
}

func (p *Pool) start(key db.Lane, l *lane, j *job) {
	l.running++
	p.running++
	if l.manner.Suspect() {
		p.suspectRunning++
	}
	if l.pace != nil {
		l.pace.Start()
	}
	j.started = p.deps.Now()
	j.at = p.started.PushBack(j)
	p.place(key, l)
}

// finish lets go of a job that a worker took; attempted says that a request
// was made, and how that ended.
func (p *Pool) finish(j *job, attempted, succeeded bool) {
	key := j.lane()
	p.mu.Lock()
	l := p.lanes[key]
	l.running--
	p.running--
	if l.manner.Suspect() {
		p.suspectRunning--
	}
	if j.at != nil {
		p.started.Remove(j.at)
	}
	if j.alone() {
		p.aloneRuns = false
		p.ready.Signal()
	}
	if attempted {
		p.setManner(key, l, l.manner.After(p.deps.Now().Sub(j.started), succeeded, p.deps.Workers))
		p.finished++
	} else {
		p.place(key, l)
	}
	p.drop(key, int(j.claim.Delivery.BodyBytes))
	if p.suspects.len() > 0 {
		p.ready.Signal() // the half of the suspects may have been full
	}
	hungry := p.backlog.len() > 0 && p.held-p.suspectHeld <= p.room/2 || p.patient.has(key)
	p.mu.Unlock()
	if hungry {
		p.signal()
	}
}

// noteSlow marks the lanes of attempts that have run for longer than slowAfter
// and gives back what waits behind them beyond a suspect's share.
func (p *Pool) noteSlow() {
	now := p.deps.Now()
	var surplus []db.Claim
	p.mu.Lock()
	for el := p.started.Front(); el != nil && now.Sub(el.Value.(*job).started) > slowAfter; el = p.started.Front() {
		j := p.started.Remove(el).(*job)
		j.at = nil
		key := j.lane()
		l := p.lanes[key]
		p.setManner(key, l, l.manner.Running())
		keep := LaneShare(p.room, true, p.allowance(key, l))
		for len(l.waiting) > keep {
			last := l.waiting[len(l.waiting)-1]
			l.waiting[len(l.waiting)-1] = nil
			l.waiting = l.waiting[:len(l.waiting)-1]
			surplus = append(surplus, last.claim)
			p.hold(l, -int(last.claim.Delivery.BodyBytes), -1)
		}
		p.place(key, l)
	}
	if now.Sub(p.pruned) > time.Minute {
		p.pruned = now
		for key, c := range p.conducts {
			if _, inUse := p.lanes[key]; !inUse && !c.timer && now.Sub(c.usedAt) > conductKept {
				delete(p.conducts, key)
				delete(p.limited, key)
			}
		}
	}
	if len(p.alone) > 0 {
		p.ready.Signal() // it may have waited for its destination's limits
	}
	p.mu.Unlock()
	for _, c := range surplus {
		p.outcomes.release(db.Release{Claim: c})
	}
}

// Moved is told when a lane's circuit moved: what was blocked may go on.
func (p *Pool) Moved(key db.Lane) {
	p.mu.Lock()
	if l, ok := p.lanes[key]; ok {
		p.place(key, l)
	}
	p.addBacklog(key)
	p.mu.Unlock()
	p.signal()
}
