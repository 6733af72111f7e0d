package health

import "time"

// SpanDelta sums what one process saw of a subscription since it last wrote.
// The zero value is empty.
type SpanDelta struct {
	SuccessAt time.Time // of the last success; zero for none
	Failures  Span      // of the failures after it
}

// Add is the sum with one more attempt that ended at at.
func (d SpanDelta) Add(o Outcome, at time.Time) SpanDelta {
	switch o {
	case Succeeded:
		if at.After(d.SuccessAt) {
			d.SuccessAt = at
		}
		d.Failures = d.Failures.After(Succeeded, at)
	case Failed:
		d.Failures = d.Failures.After(Failed, at)
	}
	return d
}

// Then is the sum of d and, after it, next.
func (d SpanDelta) Then(next SpanDelta) SpanDelta {
	if next.SuccessAt.After(d.SuccessAt) {
		d.SuccessAt = next.SuccessAt
		d.Failures = d.Failures.After(Succeeded, next.SuccessAt)
	}
	d.Failures = d.Failures.join(next.Failures)
	return d
}

// Apply is the span after a process's sum.
func (sp Span) Apply(d SpanDelta) Span {
	if !d.SuccessAt.IsZero() {
		sp = sp.After(Succeeded, d.SuccessAt)
	}
	return sp.join(d.Failures)
}

// join is one span over the failures of two.
func (sp Span) join(other Span) Span {
	switch {
	case !other.Open():
		return sp
	case !sp.Open():
		return other
	}
	if other.FirstFailureAt.Before(sp.FirstFailureAt) {
		sp.FirstFailureAt = other.FirstFailureAt
	}
	if other.LastFailureAt.After(sp.LastFailureAt) {
		sp.LastFailureAt = other.LastFailureAt
	}
	sp.FailureCount = plus(sp.FailureCount, other.FailureCount)
	return sp
}

// RateDelta sums what one process saw of a destination URL since it last
// wrote, without the tries of a disabled one. The zero value is empty.
type RateDelta struct {
	Attempts, Failures int64
	Row                int64     // failures in a row at the end
	SuccessAt          time.Time // of the last success; zero for none
}

// Empty reports whether there is nothing to apply.
func (d RateDelta) Empty() bool { return d.Attempts == 0 }

// Add is the sum with one more attempt that ended at at.
func (d RateDelta) Add(o Outcome, at time.Time) RateDelta {
	switch o {
	case Succeeded:
		d.Attempts++
		d.Row = 0
		if at.After(d.SuccessAt) {
			d.SuccessAt = at
		}
	case Failed:
		d.Attempts++
		d.Failures++
		d.Row++
	}
	return d
}

// Then is the sum of d and, after it, next.
func (d RateDelta) Then(next RateDelta) RateDelta {
	if next.Attempts > next.Row { // it has a success
		d.Row = 0
	}
	d.Attempts, d.Failures, d.Row = plus(d.Attempts, next.Attempts), plus(d.Failures, next.Failures), plus(d.Row, next.Row)
	if next.SuccessAt.After(d.SuccessAt) {
		d.SuccessAt = next.SuccessAt
	}
	return d
}

// Apply is the value after a process's sum, judged by where it ends.
func (r Rate) Apply(d RateDelta, now time.Time, s RateSettings) Rate {
	if d.Empty() {
		return r
	}
	if !d.SuccessAt.IsZero() {
		r.Row = 0
		if d.SuccessAt.After(r.LastSuccessAt) {
			r.LastSuccessAt = d.SuccessAt
		}
	}
	r.Attempts, r.Failures, r.Row = plus(r.Attempts, d.Attempts), plus(r.Failures, d.Failures), plus(r.Row, d.Row)
	return r.Judge(now, s)
}
