package breaker_test

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/streaming-hub/streaming-hub/hub"
	"github.com/streaming-hub/streaming-hub/hub/breaker"
)

// cluster is two replicas that share one row by compare-and-set, beside the
// reference, which takes every write that the row took.
type cluster struct {
	t        *rapid.T
	now      time.Time
	row      breaker.State
	ref      reference
	replicas [2]replica
	attempts []attempt // under way
	started  int
}

// replica is what a process remembers.
type replica struct {
	cached breaker.State // the row as last read: may be stale
	delta  breaker.Delta
	list   []seenOutcome // the delta, for the reference
}

type attempt struct {
	replica    int
	id         hub.AttemptID
	generation int64
	probe      bool
	deadline   time.Time
}

// swap stores next over the row it came from, as the database would.
func (c *cluster) swap(r *replica, next breaker.State) bool {
	if r.cached.Version != c.row.Version {
		r.cached = c.row
		return false
	}
	next.Version++
	c.row, r.cached = next, next
	return true
}

// start asks for one attempt on a replica and runs it when admitted.
func (c *cluster) start(n int, last bool) {
	r := &c.replicas[n]
	for {
		a := breaker.Admit(r.cached, c.now, last)
		if last && !a.Allow {
			c.t.Fatalf("a last attempt is put off: %+v", a)
		}
		if !a.Allow {
			if !a.PutOff.After(c.now) || a.PutOff.Sub(c.now) > breaker.MaxOpen {
				c.t.Fatalf("put off from %v to %v", c.now, a.PutOff)
			}
			return
		}
		c.started++
		run := attempt{replica: n, id: attemptNo(c.started), generation: a.Generation, probe: a.Probe, deadline: c.now.Add(hub.MaxTimeout)}
		if a.Probe {
			taken, ok := breaker.TakeProbe(r.cached, run.id, c.now)
			if !ok {
				c.t.Fatal("Admit offers a probe that TakeProbe refuses")
			}
			if !c.swap(r, taken) {
				continue // another replica wrote; ask again
			}
			c.ref.takeProbe(run.id, c.now)
		}
		c.attempts = append(c.attempts, run)
		return
	}
}

// finish ends an attempt and writes what cannot wait.
func (c *cluster) finish(i int, o breaker.Outcome) {
	a := c.attempts[i]
	c.attempts = slices.Delete(c.attempts, i, i+1)
	r := &c.replicas[a.replica]
	o.Generation = a.generation
	if a.probe {
		o.Probe = a.id
		for isProbe := true; isProbe; {
			isProbe = r.cached.Phase == breaker.HalfOpen && r.cached.Probe.Attempt == a.id
			if isProbe && c.swap(r, breaker.After(r.cached, o, c.now)) {
				c.ref.probeEnded(o, c.now)
				return
			}
		}
	}
	r.delta = r.delta.Add(o, c.now)
	r.list = append(r.list, seenOutcome{o, c.now})
	if breaker.Moved(r.cached, breaker.Apply(r.cached, r.delta, c.now)) {
		c.flush(a.replica)
	}
}

// flush writes a replica's sum.
func (c *cluster) flush(n int) {
	r := &c.replicas[n]
	for !c.swap(r, breaker.Apply(r.cached, r.delta, c.now)) {
	}
	c.ref.write(r.list, c.now)
	r.delta, r.list = breaker.Delta{}, nil
}

// pass lets time go by; an attempt that reaches its timeout fails then.
func (c *cluster) pass(d time.Duration) {
	until := c.now.Add(d)
	for {
		i := slices.IndexFunc(c.attempts, func(a attempt) bool { return !a.deadline.After(until) })
		if i < 0 {
			break
		}
		for j, a := range c.attempts {
			if a.deadline.Before(c.attempts[i].deadline) {
				i = j
			}
		}
		c.now = c.attempts[i].deadline
		c.finish(i, breaker.Outcome{Kind: breaker.Failed})
		c.check()
	}
	c.now = until
}

// die loses what a replica knows, its attempts too.
func (c *cluster) die(n int) {
	c.replicas[n] = replica{cached: c.row}
	c.attempts = slices.DeleteFunc(c.attempts, func(a attempt) bool { return a.replica == n })
}

// check compares the row with the reference and counts the probes.
func (c *cluster) check() {
	s, ref := c.row, &c.ref
	phase := s.Phase
	if phase == "" {
		phase = breaker.Closed
	}
	if phase != ref.phase || s.Cause != ref.cause || s.Generation != ref.generation || int(s.Failures) != ref.row ||
		s.OpenFor != ref.wait || !s.NextProbeAt.Equal(ref.nextProbe) || s.Probe.Attempt != ref.probe || breaker.Ramp(s) != ref.ramp {
		c.t.Fatalf("the row is\n%+v\nthe reference\n%+v", s, *ref)
	}
	if phase == breaker.Closed {
		attempts, failures := s.Window.Totals(c.now)
		if a, f := ref.counts(c.now); attempts != a || failures != f {
			c.t.Fatalf("the window holds %d, %d, the reference %d, %d", attempts, failures, a, f)
		}
	}
	for _, last := range []bool{false, true} {
		a := breaker.Admit(s, c.now, last)
		want := ref.admit(c.now, last)
		if a.Allow != (want != "wait") || a.Probe != (want == "probe") {
			c.t.Fatalf("Admit = %+v, want %s", a, want)
		}
	}
	probes := 0
	for _, a := range c.attempts {
		if a.probe && a.generation == s.Generation {
			probes++
		}
	}
	if probes > 1 {
		c.t.Fatalf("%d probes at once", probes)
	}
}

// heal shows that nothing is stuck: from any state, an ordinary delivery gets
// through when its time has come, and closes the circuit.
func (c *cluster) heal() {
	c.flush(1)
	c.flush(0)
	for range 3 {
		a := breaker.Admit(c.row, c.now, false)
		if a.Allow {
			break
		}
		c.now = a.PutOff
	}
	before := len(c.attempts)
	c.start(0, false)
	if len(c.attempts) != before+1 {
		c.t.Fatalf("stuck: %+v at %v", c.row, c.now)
	}
	c.finish(before, breaker.Outcome{Kind: breaker.Succeeded})
	c.flush(0)
	if c.row.Phase != breaker.Closed && c.row.Phase != "" {
		c.t.Fatalf("a success left it %+v", c.row)
	}
	for range breaker.RampEnd {
		c.start(0, false)
		c.finish(len(c.attempts)-1, breaker.Outcome{Kind: breaker.Succeeded})
	}
	if c.flush(0); breaker.Ramp(c.row) != 0 {
		c.t.Fatalf("the ramp ends at %d", breaker.Ramp(c.row))
	}
}

// Two replicas with stale views, lost processes and slow attempts against the
// plain reference: never two probes, open by the rules only, last attempts
// pass, never stuck.
func TestReplicas_share_one_breaker(t *testing.T) {
	outcomes := []breaker.Kind{breaker.Failed, breaker.Failed, breaker.Failed, breaker.Succeeded, breaker.Neutral}
	rapid.Check(t, func(t *rapid.T) {
		c := &cluster{t: t, now: start, ref: reference{phase: breaker.Closed}}
		healthy := rapid.IntRange(0, 3).Draw(t, "health") // 0: nearly all fail
		for range rapid.IntRange(0, 150).Draw(t, "steps") {
			n := rapid.IntRange(0, 1).Draw(t, "replica")
			switch rapid.SampledFrom([]string{"start", "start", "start", "finish", "finish", "finish", "last", "pass", "flush", "read", "die"}).Draw(t, "step") {
			case "start":
				c.start(n, false)
			case "last":
				c.start(n, true)
			case "finish":
				if len(c.attempts) == 0 {
					continue
				}
				i := rapid.IntRange(0, len(c.attempts)-1).Draw(t, "attempt")
				kind := rapid.SampledFrom(outcomes).Draw(t, "outcome")
				if rapid.IntRange(0, 9).Draw(t, "mood") < 3*healthy {
					kind = breaker.Succeeded
				}
				c.finish(i, breaker.Outcome{Kind: kind, RetryAfter: time.Duration(rapid.IntRange(0, 1200).Draw(t, "retry after")) * time.Second})
			case "pass":
				c.pass(time.Duration(rapid.OneOf(rapid.IntRange(1, 2_000), rapid.IntRange(1, 90_000), rapid.IntRange(1, 700_000)).Draw(t, "ms")) * time.Millisecond)
			case "flush":
				c.flush(n)
			case "read":
				c.replicas[n].cached = c.row
			case "die":
				if rapid.IntRange(0, 3).Draw(t, "dies") == 0 {
					c.die(n)
				}
			}
			c.check()
		}
		c.heal()
	})
}

// The worker with the probe dies: the slot is free after its lease, and not
// before.
func TestReplicas_probe_outlives_its_worker_by_the_lease(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := &cluster{t: t, row: tripped(), now: start.Add(breaker.FirstOpen)}
		c.replicas[0].cached, c.replicas[1].cached = c.row, c.row
		c.start(0, false)
		c.start(1, false) // loses the compare-and-set and is put off
		if len(c.attempts) != 1 || !c.attempts[0].probe {
			t.Fatalf("attempts %+v", c.attempts)
		}
		c.die(0)
		c.now = c.now.Add(time.Duration(rapid.Int64Range(0, int64(breaker.ProbeLease)-1).Draw(t, "wait")))
		if c.start(1, false); len(c.attempts) != 0 {
			t.Fatal("a second probe within the lease of the first")
		}
		c.now = start.Add(breaker.FirstOpen + breaker.ProbeLease)
		if c.start(1, false); len(c.attempts) != 1 {
			t.Fatal("the slot is still taken after the lease")
		}
	})
}
