package health

import (
	"fmt"
	"math"
	"math/bits"
	"time"

	"github.com/streaming-hub/streaming-hub/hub"
)

// RateState says whether a destination URL under FAILURE_RATE is tried.
type RateState string

const (
	Active   RateState = "ACTIVE"
	Disabled RateState = "DISABLED" // one delivery is tried every TryEvery
	Frozen   RateState = "FROZEN"   // nothing is tried until a person enables it
)

// RateSettings are the thresholds of FAILURE_RATE.
type RateSettings struct {
	// Percent and MinAttempts: DISABLED when more than Percent (1–100) of more
	// than MinAttempts (≥ 0) attempts failed.
	Percent     int64
	MinAttempts int64
	// DisableRow failures in a row: DISABLED, whatever the rate; ≥ 1.
	DisableRow int64
	// FreezeRow and FreezeAge: FROZEN when more than FreezeRow (≥ 1) failures
	// in a row and the last success more than FreezeAge (> 0) ago.
	FreezeRow int64
	FreezeAge time.Duration
	// FreezeAnyRow failures in a row: FROZEN at any age; ≥ 1.
	FreezeAnyRow int64
	// TryEvery is the wait between two tries while DISABLED; ≥ 1 s.
	TryEvery time.Duration
}

// Workfront is the preset.
func Workfront() RateSettings {
	return RateSettings{
		Percent: 70, MinAttempts: 100,
		DisableRow: 2_000,
		FreezeRow:  2_000, FreezeAge: 72 * time.Hour,
		FreezeAnyRow: 50_000,
		TryEvery:     10 * time.Minute,
	}
}

// Validate says in one sentence what is wrong with the settings.
func (s RateSettings) Validate() error {
	switch {
	case s.Percent < 1 || s.Percent > 100:
		return fmt.Errorf("the FAILURE_RATE policy disables above %d %%; it needs 1 to 100", s.Percent)
	case s.MinAttempts < 0:
		return fmt.Errorf("the FAILURE_RATE policy judges the rate above %d attempts; it needs 0 or more", s.MinAttempts)
	case s.DisableRow < 1 || s.FreezeRow < 1 || s.FreezeAnyRow < 1:
		return fmt.Errorf("the FAILURE_RATE policy counts %d, %d and %d failures in a row; each needs to be at least 1", s.DisableRow, s.FreezeRow, s.FreezeAnyRow)
	case s.FreezeAge <= 0:
		return fmt.Errorf("the FAILURE_RATE policy freezes %v after the last success; it needs to be more than 0", s.FreezeAge)
	case s.TryEvery < time.Second:
		return fmt.Errorf("the FAILURE_RATE policy tries a disabled URL every %v; it needs at least 1s", s.TryEvery)
	}
	return nil
}

func (s RateSettings) effective() RateSettings {
	if s.Validate() != nil {
		return Workfront()
	}
	return s
}

// Rate is what FAILURE_RATE knows of one destination URL since it was last
// enabled. NewRate makes one.
type Rate struct {
	Attempts int64
	Failures int64
	Row      int64 // failures in a row
	// LastSuccessAt is the creation of the destination before its first
	// success. Enabling does not change it: it is no counter.
	LastSuccessAt time.Time
	// Judged is the state that the last outcome or sweep found; "" is ACTIVE.
	// DISABLED and FROZEN last until something enables the URL, even when the
	// counts alone would no longer say so.
	Judged RateState
	// JudgedAt is when Judged began.
	JudgedAt time.Time
	// NextTryAt is when a delivery may be tried; zero unless DISABLED.
	NextTryAt time.Time
}

// NewRate begins with a destination.
func NewRate(created time.Time) Rate { return Rate{LastSuccessAt: created} }

// State judges the URL at now. FROZEN outranks DISABLED. Malformed settings
// count as Workfront.
func (r Rate) State(now time.Time, s RateSettings) RateState {
	s = s.effective()
	old := !r.LastSuccessAt.IsZero() && now.Sub(r.LastSuccessAt) > s.FreezeAge
	switch {
	case r.Judged == Frozen, r.Row >= s.FreezeAnyRow, r.Row > s.FreezeRow && old:
		return Frozen
	case r.Judged == Disabled, r.Row >= s.DisableRow, r.Attempts > s.MinAttempts && s.above(r):
		return Disabled
	default:
		return Active
	}
}

// above reports whether more than Percent of the attempts failed, at any size
// of the counters.
func (s RateSettings) above(r Rate) bool {
	failed, failedLow := bits.Mul64(uint64(max(r.Failures, 0)), 100)
	most, mostLow := bits.Mul64(uint64(max(r.Attempts, 0)), uint64(s.Percent))
	return failed > most || failed == most && failedLow > mostLow
}

// plus is a sum of counts, which ends at the largest number.
func plus(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// Judge keeps the state of now in the value. After does it with each outcome;
// a sweep does it because the age of the last success passes by itself.
func (r Rate) Judge(now time.Time, s RateSettings) Rate {
	s = s.effective()
	state := r.State(now, s)
	if state == r.Judged || state == Active {
		return r
	}
	r.Judged, r.JudgedAt, r.NextTryAt = state, now, time.Time{}
	if state == Disabled {
		r.NextTryAt = now.Add(s.TryEvery)
	}
	return r
}

// After is the value after an attempt that ended at at. try marks the one that
// TakeTry let through: its success enables the URL, its failure restarts the
// wait. Attempts that were under way when the URL was disabled are counted and
// do neither.
func (r Rate) After(o Outcome, try bool, at time.Time, s RateSettings) Rate {
	s = s.effective()
	switch o {
	case Succeeded:
		if at.After(r.LastSuccessAt) {
			r.LastSuccessAt = at
		}
		if try && r.Judged == Disabled {
			return r.Enabled(at)
		}
		r.Attempts = plus(r.Attempts, 1)
		r.Row = 0
	case Failed:
		r.Attempts, r.Failures, r.Row = plus(r.Attempts, 1), plus(r.Failures, 1), plus(r.Row, 1)
		if try && r.Judged == Disabled {
			r.NextTryAt = at.Add(s.TryEvery)
		}
	default:
		return r
	}
	return r.Judge(at, s)
}

// Enabled is the value after the URL was enabled: the counters are 0. Enabling
// an ACTIVE one changes nothing, so that nobody can dodge the policy by
// enabling in a loop.
func (r Rate) Enabled(now time.Time) Rate {
	if r.Judged != Disabled && r.Judged != Frozen {
		return r
	}
	return Rate{LastSuccessAt: r.LastSuccessAt, JudgedAt: now}
}

// Lifted is the value while the kill switch is on: the counters go on, and
// nothing is kept back. State still says what would be.
func (r Rate) Lifted() Rate {
	r.Judged, r.JudgedAt, r.NextTryAt = "", time.Time{}, time.Time{}
	return r
}

// Repolicied is the value after the policy of the destination was changed. One
// that another kind of policy judges now begins anew: nothing of FAILURE_RATE
// keeps it back any more, and what succeeded meanwhile nobody would have
// counted. With other thresholds the counters go on, and what is switched off
// stays so until its try succeeds or a person enables it; only a wait that is
// longer than the new one ends sooner.
func (r Rate) Repolicied(was, is hub.FailurePolicy, now time.Time) Rate {
	if was.Kind != hub.FailureRate || is.Kind != hub.FailureRate {
		return Rate{LastSuccessAt: now, JudgedAt: now}
	}
	if next := now.Add(RateSettingsOf(is).effective().TryEvery); next.Before(r.NextTryAt) { // DISABLED, then
		r.NextTryAt = next
	}
	return r
}

// TryDue is the moment from which the next delivery may be tried: now when
// ACTIVE, the end of the wait when DISABLED, and false when FROZEN.
func (r Rate) TryDue(now time.Time, s RateSettings) (time.Time, bool) {
	switch r.State(now, s) {
	case Frozen:
		return time.Time{}, false
	case Disabled:
		if r.waits(now, s.effective()) {
			return r.NextTryAt, true
		}
	}
	return now, true
}

// waits reports whether the next try lies ahead. One further away than a whole
// wait is due: a clock was wrong, or TryEvery was longer before.
func (r Rate) waits(now time.Time, s RateSettings) bool {
	wait := r.NextTryAt.Sub(now)
	return wait > 0 && wait <= s.TryEvery
}

// TakeTry takes the one try of a DISABLED URL and starts the next wait at
// once, so that neither a second worker nor one that dies gets another. It is
// false when none is due. The try counts only when the value was stored over
// the one that it came from.
func (r Rate) TakeTry(now time.Time, s RateSettings) (Rate, bool) {
	s = s.effective()
	r = r.Judge(now, s)
	if r.Judged != Disabled || r.waits(now, s) {
		return r, false
	}
	r.NextTryAt = now.Add(s.TryEvery)
	return r, true
}
