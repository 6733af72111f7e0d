package dispatch

import (
	"time"

	"github.com/streaming-hub/streaming-hub/hub"
	"github.com/streaming-hub/streaming-hub/hub/limit"
)

const (
	// slotsFor is how long slots are held in the database without being
	// renewed: longer than the longest attempt, so that what a dead process had
	// under way is over when its slots return.
	slotsFor = 45 * time.Second
	// slotsTrusted is how long after a renewal an attempt may still begin on
	// them: its end then lies within slotsFor.
	slotsTrusted = slotsFor - hub.MaxTimeout
	// renewSlots is when they are renewed, at the latest.
	renewSlots = 5 * time.Second
	// askAgain is the least time between two questions for one destination.
	askAgain = 50 * time.Millisecond
	// late is by how much a start may come after its moment; older ones are
	// lost, so that starts do not gather.
	late = 100 * time.Millisecond
)

// pace is what this process may start of a destination with limits, out of
// what all processes may.
type pace struct {
	rateLimit, maxInFlight int32 // 0 for none

	granted []grant
	slots   int32
	renewed time.Time // when the slots were granted
	asked   time.Time
}

// grant is a row of starts.
type grant struct {
	next  time.Time
	every time.Duration
	left  int
}

// Set takes the limits of a destination as they are now.
func (c *pace) Set(d *hub.Destination) {
	if d.RateLimit != c.rateLimit {
		c.granted = nil // of another rate
	}
	c.rateLimit, c.maxInFlight = d.RateLimit, d.MaxInFlight
}

// Take adds what was granted at a moment.
func (c *pace) Take(s limit.Starts, slots int32, at time.Time) {
	if s.N > 0 {
		c.granted = append(c.granted, grant{next: at.Add(s.In), every: s.Every, left: s.N})
	}
	c.slots, c.renewed = slots, at
}

// Ready reports whether an attempt may start now, beside those that run; if
// not, when to look again: zero when only an answer from the database or the
// end of an attempt can help.
func (c *pace) Ready(now time.Time, running int) (ok bool, again time.Time) {
	if c.maxInFlight > 0 && (running >= int(c.slots) || now.Sub(c.renewed) >= slotsTrusted) {
		return false, time.Time{}
	}
	if c.rateLimit == 0 {
		return true, time.Time{}
	}
	c.expire(now)
	if len(c.granted) == 0 {
		return false, time.Time{}
	}
	if next := c.granted[0].next; next.After(now) {
		return false, next
	}
	return true, time.Time{}
}

// Start uses up one start. Ready has just said that there is one.
func (c *pace) Start() {
	if c.rateLimit == 0 || len(c.granted) == 0 {
		return
	}
	g := &c.granted[0]
	g.next, g.left = g.next.Add(g.every), g.left-1
	if g.left == 0 {
		c.granted = c.granted[1:]
	}
}

func (c *pace) expire(now time.Time) {
	for len(c.granted) > 0 {
		g := &c.granted[0]
		for g.left > 0 && now.Sub(g.next) > late {
			g.next, g.left = g.next.Add(g.every), g.left-1
		}
		if g.left > 0 {
			return
		}
		c.granted = c.granted[1:]
	}
}

// Spare is how many deliveries are worth claiming beside those that wait and
// run: no more than can start soon.
func (c *pace) Spare(now time.Time, waiting, running int) int {
	n := maxHeld
	if c.rateLimit > 0 {
		c.expire(now)
		n = 0
		for _, g := range c.granted {
			n += g.left
		}
		n -= waiting
	}
	if c.maxInFlight > 0 {
		n = min(n, int(c.slots)-running-waiting)
	}
	return max(n, 0)
}

// Asks says what to ask the database for, if it is time: so many starts and
// slots for wanted deliveries beside those that wait and run.
func (c *pace) Asks(now time.Time, wanted, waiting, running int) (starts int, slots int32, ask bool) {
	if now.Sub(c.asked) < askAgain {
		return 0, 0, false
	}
	if c.rateLimit > 0 {
		c.expire(now)
		starts = wanted + waiting
		for _, g := range c.granted {
			starts -= g.left
		}
		starts = max(starts, 0)
		ask = starts > 0
	}
	if c.maxInFlight > 0 {
		slots = int32(min(wanted+waiting+running, hub.MaxMaxInFlight))
		ask = ask || slots != c.slots && (slots < c.slots || c.slots < c.maxInFlight) || (slots > 0 || c.slots > 0) && now.Sub(c.renewed) >= renewSlots
	}
	return starts, slots, ask
}
