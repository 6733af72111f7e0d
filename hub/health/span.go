package health

import (
	"fmt"
	"time"
)

// The gates of FAILURE_SPAN unless set otherwise.
const (
	DefaultWindow = 120 * time.Hour
	DefaultSpread = 12 * time.Hour
)

// SpanSettings are the two gates of FAILURE_SPAN; both must be passed.
type SpanSettings struct {
	// Window is how long the span must have lasted: now − first failure;
	// more than 0.
	Window time.Duration
	// Spread is how far apart first and last failure must lie; 0 to Window. At
	// 0 a single failure that nothing follows trips when Window has passed.
	Spread time.Duration
}

// DefaultSpan is the preset: 120 h and 12 h.
func DefaultSpan() SpanSettings {
	return SpanSettings{Window: DefaultWindow, Spread: DefaultSpread}
}

// Validate says in one sentence what is wrong with the settings.
func (s SpanSettings) Validate() error {
	if s.Window <= 0 {
		return fmt.Errorf("the window of the FAILURE_SPAN policy is %v; it needs to be more than 0", s.Window)
	}
	if s.Spread < 0 || s.Spread > s.Window {
		return fmt.Errorf("the spread of the FAILURE_SPAN policy is %v; it needs 0 to the window of %v", s.Spread, s.Window)
	}
	return nil
}

// Span is the unbroken run of failures of one subscription. The zero value is
// no span: nothing failed since the last success.
type Span struct {
	FirstFailureAt time.Time
	LastFailureAt  time.Time
	FailureCount   int64
}

// Open reports whether there is a span.
func (sp Span) Open() bool { return sp.FailureCount > 0 }

// After is the span after an attempt that ended at at. Outcomes of several
// workers may come a little out of order: a success that ended before the
// first failure is no news, and one that ended before the last failure leaves
// a span of that failure alone. Enabling a subscription is Span{}.
func (sp Span) After(o Outcome, at time.Time) Span {
	switch {
	case o == Failed && !sp.Open():
		return Span{FirstFailureAt: at, LastFailureAt: at, FailureCount: 1}
	case o == Failed:
		if at.Before(sp.FirstFailureAt) {
			sp.FirstFailureAt = at
		}
		if at.After(sp.LastFailureAt) {
			sp.LastFailureAt = at
		}
		sp.FailureCount = plus(sp.FailureCount, 1)
		return sp
	case o == Succeeded && at.Before(sp.FirstFailureAt):
		return sp
	case o == Succeeded && at.Before(sp.LastFailureAt):
		return Span{FirstFailureAt: sp.LastFailureAt, LastFailureAt: sp.LastFailureAt, FailureCount: 1}
	case o == Succeeded:
		return Span{}
	default:
		return sp
	}
}

// Verdict is what FAILURE_SPAN says of a span at a moment.
type Verdict struct {
	Sustained bool // now − first failure ≥ Window
	Spread    bool // last failure − first failure ≥ Spread
	Trips     bool // both
	// WouldTripAt is when it trips if nothing changes, that is without any
	// further attempt: first failure + Window once Spread holds, in the past
	// when it trips already. Zero if never: no span, or not spread.
	WouldTripAt time.Time
	// Mark is the highest of Marks that the way to WouldTripAt has passed,
	// 0 for none. A span that would never trip warns nobody.
	Mark int
}

// Marks returns the warning marks in per cent of Window, in rising order.
func Marks() []int { return []int{50, 75, 90} }

// Verdict judges the span at now. Malformed settings count as DefaultSpan.
func (sp Span) Verdict(now time.Time, s SpanSettings) Verdict {
	if s.Validate() != nil {
		s = DefaultSpan()
	}
	if !sp.Open() {
		return Verdict{}
	}
	lasted := now.Sub(sp.FirstFailureAt)
	v := Verdict{
		Sustained: lasted >= s.Window,
		Spread:    sp.LastFailureAt.Sub(sp.FirstFailureAt) >= s.Spread,
	}
	v.Trips = v.Sustained && v.Spread
	if !v.Spread {
		return v
	}
	v.WouldTripAt = sp.FirstFailureAt.Add(s.Window)
	for _, mark := range Marks() {
		if lasted >= share(s.Window, mark) {
			v.Mark = mark
		}
	}
	return v
}

// share is percent of d, without overflow for percent up to 100.
func share(d time.Duration, percent int) time.Duration {
	p := time.Duration(percent)
	return d/100*p + d%100*p/100
}
