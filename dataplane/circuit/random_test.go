package circuit_test

import (
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/streaming-hub/streaming-hub/hub"
	"github.com/streaming-hub/streaming-hub/hub/breaker"
)

const (
	randomRuns  = 300
	randomSteps = 150
)

// randomly runs a test with chance; its seed is in the log.
func randomly(t *testing.T, test func(c *cluster, r *rand.Rand)) {
	seed := rand.Uint64()
	for n := range uint64(randomRuns) {
		bubble(t, nil, func(c *cluster) {
			defer func() {
				if c.Failed() {
					c.Logf("run %d of seed %d", n, seed)
				}
			}()
			test(c, rand.New(rand.NewPCG(seed, n)))
		})
		if t.Failed() {
			return
		}
	}
	t.Logf("%d runs of seed %d", randomRuns, seed)
}

// underway is an attempt that has not ended.
type underway struct {
	board   *board
	outcome breaker.Outcome // as far as it is known when it starts
	began   time.Time
}

// kinds returns the outcomes of a spell: for a while a destination is well,
// sick or broken.
func kinds(r *rand.Rand) func() breaker.Kind {
	sick := []float64{0.05, 0.5, 0.9}[r.IntN(3)]
	left := 5 + r.IntN(40)
	return func() breaker.Kind {
		if left--; left < 0 {
			sick, left = []float64{0.05, 0.5, 0.9}[r.IntN(3)], 5+r.IntN(40)
		}
		switch {
		case r.IntN(20) == 0:
			return breaker.Neutral
		case r.Float64() < sick:
			return breaker.Failed
		default:
			return breaker.Succeeded
		}
	}
}

// asked is what a board says to a delivery.
func asked(b *board, c *cluster, last bool) (string, breaker.Admission) {
	a := b.Admit(c.lane, last)
	switch {
	case a.Probe:
		return "probe", a
	case a.Allow:
		return "run", a
	default:
		return "wait", a
	}
}

// Two boards that have time to share between outcomes are one breaker.
func TestBoards_are_one_breaker(t *testing.T) {
	opened, closed, probes := 0, 0, 0
	randomly(t, func(c *cluster, r *rand.Rand) {
		ref, kind := reference{}, kinds(r)
		var running []underway
		for range randomSteps {
			b, last := c.boards[r.IntN(2)], r.IntN(6) == 0
			switch n := r.IntN(10); {
			case n < 5:
				want := ref.admit(time.Now(), last)
				got, a := asked(b, c, last)
				if got != want || got == "run" && a.Generation != ref.generation {
					c.Fatalf("a board says %q (%+v), the reference %q of %+v", got, a, want, ref)
				}
				run := underway{b, breaker.Outcome{Generation: a.Generation}, time.Now()}
				if got == "probe" {
					o, taken := c.probe(b)
					if !taken {
						c.Fatal("a due probe is not to be had")
					}
					probes++
					run.outcome = o
					ref.take(o.Probe, time.Now())
				}
				if got != "wait" {
					running = append(running, run)
				}
			case n < 9 && len(running) > 0:
				i := r.IntN(len(running))
				o := running[i].outcome
				if o.Kind = kind(); o.Kind == breaker.Failed && r.IntN(4) == 0 {
					o.RetryAfter = time.Duration(r.IntN(1000)) * time.Second
				}
				before := ref.generation
				ref.ended(o, time.Now(), running[i].board.writes())
				if ref.generation != before && ref.open {
					opened++
				} else if ref.generation != before {
					closed++
				}
				running[i].board.Record(c.lane, o)
				running = slices.Delete(running, i, i+1)
			default:
				c.pass(time.Duration(r.IntN(40_000)) * time.Millisecond)
			}
			c.share()
			s := c.memory.State(c.lane)
			if ref.row == 1 && ref.fresh {
				ref.row = int(s.Failures) // 0 or 1
			}
			if ref.row > 0 {
				ref.fresh = false
			}
			ramp := breaker.Ramp(s)
			if c.phase() != ref.phase() || s.Generation != ref.generation || int(s.Failures) != ref.row ||
				s.Probe.Attempt != ref.probe || ref.open && (s.OpenFor != ref.wait || !s.NextProbeAt.Equal(ref.next)) || ramp != ref.ramp {
				c.Fatalf("stored is\n%+v with a ramp of %d\nthe reference\n%+v", s, ramp, ref)
			}
			for n, b := range c.boards {
				for _, last := range []bool{false, true} {
					if got, a := asked(b, c, last); got != ref.admit(time.Now(), last) {
						c.Fatalf("board %d says %q (%+v) with last %v, the reference\n%+v", n, got, a, last, ref)
					}
				}
			}
		}
	})
	if min(opened, closed, probes) < 100 {
		t.Errorf("only %d openings, %d closings and %d probes", opened, closed, probes)
	}
}

// Whatever happens at the same time and while the store is away: one probe in
// the cluster, agreement as soon as there is quiet, and an end to every
// opening.
func TestBoards_agree_after_whatever(t *testing.T) {
	probes, aways := 0, 0
	randomly(t, func(c *cluster, r *rand.Rand) {
		kind, away := kinds(r), false
		var running []underway
		end := func(i int, k breaker.Kind) {
			o := running[i].outcome
			o.Kind = k
			running[i].board.Record(c.lane, o)
			running = slices.Delete(running, i, i+1)
		}
		begin := func(b *board, last bool) {
			got, a := asked(b, c, last)
			switch got {
			case "wait":
				return
			case "run":
				running = append(running, underway{b, breaker.Outcome{Generation: a.Generation}, time.Now()})
				return
			}
			id := hub.AttemptID{ID: newID()}
			generation, taken, err := b.TakeProbe(c.Context(), c.lane, id)
			if away {
				if taken || err == nil {
					c.Fatal("a probe without a store")
				}
				return
			}
			if !taken {
				return
			}
			probes++
			for _, u := range running {
				if !u.outcome.Probe.IsZero() {
					c.Fatalf("a second probe, %v after the first one", time.Since(u.began))
				}
			}
			running = append(running, underway{b, breaker.Outcome{Generation: generation, Probe: id}, time.Now()})
		}
		// pass lets time go by; attempts end after 29 s at the latest.
		pass := func(d time.Duration) {
			for until := time.Now().Add(d); time.Now().Before(until); {
				c.pass(min(time.Second, time.Until(until)))
				for i := len(running) - 1; i >= 0; i-- {
					if time.Since(running[i].began) >= 28*time.Second {
						end(i, breaker.Failed)
					}
				}
			}
		}
		quiet := func() {
			c.share()
			s := c.memory.State(c.lane)
			for n, b := range c.boards {
				for _, last := range []bool{false, true} {
					got, want := b.Admit(c.lane, last), breaker.Admit(s, time.Now(), last)
					if got.Allow != want.Allow || got.Probe != want.Probe || !got.PutOff.Equal(want.PutOff) || got.Generation != want.Generation {
						c.Fatalf("board %d says\n%+v, the store\n%+v", n, got, want)
					}
				}
				if n := b.Ramp(c.lane); n != breaker.Ramp(s) && !s.Settled(time.Now()) {
					c.Fatalf("the ramp is %d, in the store %d", n, breaker.Ramp(s))
				}
			}
		}
		for range randomSteps {
			switch n := r.IntN(40); {
			case n < 14:
				begin(c.boards[r.IntN(2)], r.IntN(6) == 0)
			case n < 28 && len(running) > 0:
				end(r.IntN(len(running)), kind())
			case n < 33:
				pass(time.Duration(r.IntN(2_000)) * time.Millisecond)
			case n < 37:
				pass(time.Duration(r.IntN(40_000)) * time.Millisecond)
			case n == 37:
				if away = !away; away {
					aways++
				}
				c.memory.SetAway(away)
			default:
				if !away {
					quiet()
				}
			}
		}
		away = false
		c.memory.SetAway(false)
		for len(running) > 0 {
			end(0, kind())
		}
		quiet()
		for range 11 * 60 { // from now on the destination is well
			begin(c.boards[r.IntN(2)], false)
			for len(running) > 0 {
				end(0, breaker.Succeeded)
			}
			c.pass(time.Second)
		}
		quiet()
		if c.wantPhase(breaker.Closed); breaker.Ramp(c.memory.State(c.lane)) != 0 {
			c.Errorf("the ramp never ended: %+v", c.memory.State(c.lane))
		}
		synctest.Wait()
	})
	if min(probes, aways) < 100 {
		t.Errorf("only %d probes, and the store was away %d times", probes, aways)
	}
}
