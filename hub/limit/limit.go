// Package limit shares out what a destination with a limit may take: starts
// per second, and attempts under way at a time, over all processes together.
// A process asks now and then; what is stored is asked under a lock, so the
// sums hold at every moment.
package limit

import "time"

// Ahead is how far into the future starts are given out. A process asks again
// before it has used them up; what it does not use is lost, which is little.
const Ahead = 500 * time.Millisecond

// Starts are n moments from which one attempt each may start: the first In
// from now, each further one Every later.
type Starts struct {
	N     int
	In    time.Duration
	Every time.Duration
}

// Rate gives out up to want starts at perSecond (≥ 1). freeIn is when the next
// one is free, negative for a moment in the past: starts that nobody used do
// not gather, so no second ever sees more than its rate. It returns the
// starts and when the next one after them is free.
func Rate(perSecond int32, freeIn time.Duration, want int) (s Starts, after time.Duration) {
	every := time.Second / time.Duration(max(perSecond, 1))
	in := max(freeIn, 0)
	if want <= 0 || in >= Ahead {
		return Starts{}, freeIn
	}
	n := min(want, int((Ahead-in-1)/every)+1)
	return Starts{N: n, In: in, Every: every}, in + time.Duration(n)*every
}

// Share is what one process holds of the attempts under way, and how many it
// would like to hold.
type Share struct {
	Slots, Wanted int32
}

// Slots is what a process gets of most (≥ 1), beside the other processes: what
// it wants if that is free. When all want more than there is, each is content
// with an equal part, plus what others do not want; but nobody gives up what
// runs. A process may get none while others hold everything; it asks again.
func Slots(most int32, others []Share, wanted, running int32) int32 {
	free, needed, fairNeeds := most, wanted, int32(0)
	wanters := int32(1)
	for _, o := range others {
		if o.Wanted > 0 {
			wanters++
		}
	}
	fair := max(1, most/wanters)
	for _, o := range others {
		free -= o.Slots
		needed += max(o.Wanted, o.Slots)
		fairNeeds += max(min(o.Wanted, fair), o.Slots)
	}
	got := min(wanted, free)
	if needed > most {
		got = min(got, max(fair, most-fairNeeds))
	}
	return max(got, running, 0)
}
