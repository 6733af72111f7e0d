package replay_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/streaming-hub/streaming-hub/hub"
	"github.com/streaming-hub/streaming-hub/hub/replay"
)

// release is what one step released, and when.
type release struct {
	at time.Time
	n  int64
}

// run is a job among receivers that answer as chance has it.
type run struct {
	job      hub.ReplayJob
	now      time.Time
	releases []release
}

// step takes a step and checks what holds for each.
func (r *run) step(t *rapid.T) {
	j := &r.job
	was := *j
	s := replay.Next(j, r.now)
	if s.Release < 0 || int64(s.Release) > j.Pending() || s.Release > replay.MaxRelease {
		t.Fatalf("releases %d of %d pending items", s.Release, j.Pending())
	}
	if s.Release > 0 && (s.State != hub.JobRunning || j.State != hub.JobRunning) {
		t.Fatalf("releases %d items in state %s, then %s", s.Release, j.State, s.State)
	}
	if s.PacedTo.Before(j.PacedTo) || s.PacedTo.After(r.now) || s.PacedTo != s.PacedTo.Truncate(time.Microsecond) {
		t.Fatalf("paced from %v to %v at %v", j.PacedTo, s.PacedTo, r.now)
	}
	skipped := int64(0)
	for range s.Release {
		if rapid.IntRange(0, 9).Draw(t, "skip") == 0 {
			skipped++
		}
	}
	j.Released, j.Skipped = j.Released+int64(s.Release)-skipped, j.Skipped+skipped
	j.PacedTo, j.CanaryPassed, j.State, j.PausedBy, j.Reason = s.PacedTo, s.CanaryPassed, s.State, s.PausedBy, s.Reason
	r.releases = append(r.releases, release{r.now, int64(s.Release)})

	canary := int64(j.Pace.Canary)
	if !j.CanaryPassed && canary > 0 && j.Released > canary {
		t.Fatalf("%d items are released, before the canary of %d passed", j.Released, canary)
	}
	if j.CanaryPassed && !was.CanaryPassed && (was.Tried < was.Released || was.Released < canary) {
		t.Fatalf("the canary passed with %d of %d released, %d tried", was.Released, canary, was.Tried)
	}
	if most := max(1000, 10*int64(j.Pace.RatePerSecond)); s.Release > 0 && j.Released-j.Tried > most {
		t.Fatalf("%d released items were not tried", j.Released-j.Tried)
	}
	if j.State == hub.JobCompleted && (j.Released+j.Skipped != j.Total || j.Delivered+j.Dead != j.Released) {
		t.Fatalf("completed as %+v", j)
	}
}

// answer lets some items be tried and some that were tried get their end.
func (r *run) answer(t *rapid.T, all bool, failing int) {
	j := &r.job
	tries := j.Released - j.Tried
	if !all {
		tries = min(tries, int64(rapid.IntRange(0, 200).Draw(t, "tries")))
	}
	for range tries {
		j.Tried++
		if rapid.IntRange(1, 100).Draw(t, "answer") <= failing {
			j.Failed++
		}
	}
	ends := j.Tried - j.Delivered - j.Dead
	if !all {
		ends = min(ends, int64(rapid.IntRange(0, 200).Draw(t, "ends")))
	}
	for range ends {
		if rapid.Bool().Draw(t, "dead") {
			j.Dead++
		} else {
			j.Delivered++
		}
	}
}

// Whatever the steps and the answers, the canary goes alone, what was released
// is tried before much more follows, and a job that is let go on ends.
func TestNext_ends_whatever_happens(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := &run{now: start, job: hub.ReplayJob{State: hub.JobReady, PreviewedAt: start, Total: int64(rapid.IntRange(0, 400).Draw(t, "total"))}}
		if _, err := replay.Start(&r.job, hub.ReplayPace{
			RatePerSecond:     int32(rapid.IntRange(1, 400).Draw(t, "rate")),
			Canary:            int32(rapid.IntRange(0, 50).Draw(t, "canary")),
			PauseAbovePercent: int32(rapid.IntRange(0, 100).Draw(t, "percent")),
		}, r.now); err != nil {
			t.Fatal(err)
		}
		failing := rapid.IntRange(0, 100).Draw(t, "failing")
		for range rapid.IntRange(0, 30).Draw(t, "steps") {
			r.now = r.now.Add(time.Duration(rapid.IntRange(0, 3_000_000).Draw(t, "gap")) * time.Microsecond)
			r.step(t)
			r.answer(t, false, failing)
			switch rapid.IntRange(0, 9).Draw(t, "click") {
			case 0:
				r.click(t, func() (bool, error) { return replay.Pause(&r.job, "") })
			case 1:
				r.click(t, func() (bool, error) { return replay.Resume(&r.job, r.now) })
			}
		}
		// At worst one item a second, and a resumption for each item that failed.
		for n := 0; r.job.State != hub.JobCompleted; n++ {
			if n > 5000 {
				t.Fatalf("never ends: %s %+v", replay.Explain(&r.job, r.now), r.job)
			}
			r.now = r.now.Add(time.Second)
			r.step(t)
			r.answer(t, true, failing)
			if r.job.State == hub.JobPaused {
				r.click(t, func() (bool, error) { return replay.Resume(&r.job, r.now) })
			}
		}
		r.checkRate(t)
	})
}

func (r *run) click(t *rapid.T, do func() (bool, error)) {
	if _, err := do(); err != nil && !r.job.State.Ended() {
		t.Fatalf("%s: %v", r.job.State, err)
	}
}

// checkRate looks at all pairs of steps: between them the rate holds, but for
// one second that a late step makes up for, and the item whose place came just
// after that. From the start on it holds exactly.
func (r *run) checkRate(t *rapid.T) {
	rate := int64(r.job.Pace.RatePerSecond)
	allowed := func(d time.Duration) int64 { return int64(d) * rate / int64(time.Second) }
	for i := range r.releases {
		sum := int64(0)
		for _, last := range r.releases[i:] {
			sum += last.n
			if d := last.at.Sub(r.releases[i].at); sum > allowed(d+time.Second)+1 {
				t.Fatalf("%d items within %v at %d per second", sum, d, rate)
			}
			if d := last.at.Sub(start); i == 0 && sum > allowed(d) {
				t.Fatalf("%d items in the first %v at %d per second", sum, d, rate)
			}
		}
	}
}

// While nothing else holds a job up, no second sees more than the rate and what
// the longest gap between steps puts off, and nothing of the rate is lost.
func TestNext_rate_is_exact_whatever_the_steps(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rate := int64(rapid.IntRange(1, 2000).Draw(t, "rate"))
		r := &run{now: start, job: hub.ReplayJob{
			State: hub.JobRunning, Total: 1_000_000, CanaryPassed: true, PacedTo: start, Pace: hub.ReplayPace{RatePerSecond: int32(rate)},
		}}
		longest := rapid.IntRange(1, int(min(1000*(replay.MaxRelease-1)/rate, 990))).Draw(t, "longest")
		for range 60 {
			r.now = r.now.Add(time.Duration(rapid.IntRange(1, 1000*longest).Draw(t, "gap")) * time.Microsecond)
			s := replay.Next(&r.job, r.now)
			r.job.Released, r.job.PacedTo = r.job.Released+int64(s.Release), s.PacedTo
			r.job.Tried = r.job.Released
			r.releases = append(r.releases, release{r.now, int64(s.Release)})
		}
		r.checkRate(t)
		for i := range r.releases {
			sum := int64(0)
			for _, last := range r.releases[i:] {
				if last.at.Sub(r.releases[i].at) >= time.Second {
					break
				}
				sum += last.n
			}
			if most := rate + rate*int64(longest)/1000 + 1; sum > most {
				t.Fatalf("%d items within a second at %d per second and steps of up to %d ms", sum, rate, longest)
			}
		}
		// Each step may lose a microsecond to rounding, and the last one may be short of an item.
		took := r.now.Sub(start) - 60*time.Microsecond
		if least := int64(took)*rate/int64(time.Second) - 1; r.job.Released < least {
			t.Fatalf("%d items in %v at %d per second", r.job.Released, r.now.Sub(start), rate)
		}
	})
}

// Steps that come when they should never let a second see more than the rate.
func TestNext_rate_in_every_second(t *testing.T) {
	for _, rate := range []int64{1, 3, 50, 333, 2000} {
		j := running(func(j *hub.ReplayJob) {
			j.Total, j.CanaryPassed, j.Pace.RatePerSecond = 1_000_000, true, int32(rate)
		})
		now := start
		var lastFour [4]int64
		for i := range 400 {
			now = now.Add(250 * time.Millisecond)
			s := replay.Next(j, now)
			j.Released, j.PacedTo = j.Released+int64(s.Release), s.PacedTo
			j.Tried = j.Released
			lastFour[i%4] = int64(s.Release)
			if sum := lastFour[0] + lastFour[1] + lastFour[2] + lastFour[3]; sum > rate {
				t.Fatalf("%d items in a second at %d per second", sum, rate)
			}
		}
		if least := 100*rate - 1; j.Released < least {
			t.Errorf("%d items in 100 s at %d per second", j.Released, rate)
		}
	}
}
