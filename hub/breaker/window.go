package breaker

import "time"

// The window of the ratio rule: 2 min in buckets of 10 s.
const (
	Buckets    = 12
	BucketSpan = 10 * time.Second
)

// Window counts the attempts of the last two minutes. A bucket holds what
// ended within ten seconds that begin at a multiple of ten seconds since 1970;
// the window of a moment is its bucket and the eleven before. So an outcome
// counts for at least 110 s and for less than 120 s after its end. The zero
// value is empty. Bucket n is at index n mod 12 of both arrays, which are
// columns as they stand.
type Window struct {
	Newest   int64 // number of the newest bucket: seconds since 1970 / 10
	Attempts [Buckets]int32
	Failures [Buckets]int32 // of Attempts
}

func bucketOf(t time.Time) int64 {
	seconds, span := t.Unix(), int64(BucketSpan/time.Second)
	if seconds < 0 {
		return 0 // before 1970 no clock is right
	}
	return seconds / span
}

// Totals are the attempts and the failures within the window of now. Buckets
// ahead of now, of a replica whose clock is ahead, count too.
func (w Window) Totals(now time.Time) (attempts, failures int64) {
	w.moveTo(bucketOf(now))
	for i := range Buckets {
		attempts += int64(w.Attempts[i])
		failures += int64(w.Failures[i])
	}
	return attempts, failures
}

// add counts one attempt that ended at at.
func (w *Window) add(failed bool, at time.Time) {
	n := bucketOf(at)
	w.moveTo(n)
	w.Attempts[n%Buckets]++
	if failed {
		w.Failures[n%Buckets]++
	}
}

// merge adds the counts of another window, as far as both lie within the
// window of now.
func (w *Window) merge(other Window, now time.Time) {
	w.moveTo(bucketOf(now))
	other.moveTo(bucketOf(now))
	w.moveTo(other.Newest)
	other.moveTo(w.Newest)
	for i := range Buckets {
		w.Attempts[i] += other.Attempts[i]
		w.Failures[i] += other.Failures[i]
	}
}

// moveTo makes n the newest bucket unless a newer one is there, and empties
// those that fall out. A window that lies two minutes or more ahead was
// written by a wrong clock and is emptied.
func (w *Window) moveTo(n int64) {
	switch ahead := n - w.Newest; {
	case ahead >= Buckets || ahead <= -Buckets || w.Newest < 0:
		*w = Window{Newest: n}
	case ahead > 0:
		for b := w.Newest + 1; b <= n; b++ {
			w.Attempts[b%Buckets], w.Failures[b%Buckets] = 0, 0
		}
		w.Newest = n
	}
}
