package breaker

import (
	"time"

	"github.com/streaming-hub/streaming-hub/hub"
)

const (
	// OpenRow failures in a row open the circuit.
	OpenRow = 5
	// MinAttempts is how many attempts the window needs before half of them
	// failing opens the circuit.
	MinAttempts = 10

	// FirstOpen is the wait for the first probe; it doubles with each probe
	// that fails, up to MaxOpen.
	FirstOpen = 30 * time.Second
	MaxOpen   = 10 * time.Minute

	// ProbeLease is after how long a probe without an outcome is given up; the
	// longest attempt takes hub.MaxTimeout, half of it.
	ProbeLease = 60 * time.Second
	// ProbePause is the wait after a probe that told nothing, so that a fault
	// of ours or a run of refused requests does not become a busy loop.
	ProbePause = 1 * time.Second
)

// Phase is where the circuit stands. "" and everything unknown is Closed.
type Phase string

const (
	Closed   Phase = "CLOSED"    // attempts run
	Open     Phase = "OPEN"      // only last attempts run
	HalfOpen Phase = "HALF_OPEN" // one probe is under way, and last attempts
)

// Cause is why the circuit opened; "" while it is closed.
type Cause string

const (
	CauseRow     Cause = "FAILURES_IN_A_ROW"
	CauseRatio   Cause = "FAILURE_RATIO"
	CauseEnabled Cause = "ENABLED" // by Restart
)

// State is the breaker of one destination. The zero value is a closed one that
// has seen nothing.
type State struct {
	// Version belongs to the store, which adds 1 with each write; no function
	// here changes it.
	Version int64
	Phase   Phase
	// Generation grows with each opening and each closing.
	Generation int64
	// Failures are the counted ones in a row, in this generation while closed;
	// they go on counting while open.
	Failures int32
	// Window counts attempts for the ratio rule, while closed.
	Window Window

	// Cause and OpenedAt tell of the opening; zero while closed. Probes that
	// fail do not change them.
	Cause    Cause
	OpenedAt time.Time
	// OpenFor is the present wait between probes, before what a Retry-After
	// adds; NextProbeAt is when the next one is due. Zero while closed.
	OpenFor     time.Duration
	NextProbeAt time.Time
	// Probe is the attempt that is the probe; zero unless half open.
	Probe Probe

	// ClosedAt is when the circuit last closed; zero before that and while it
	// is open.
	ClosedAt time.Time
	// RampLimit is how many attempts may be under way at a time since the
	// closing; 0 for no limit. See Ramp.
	RampLimit int32
}

// Probe is the one attempt that finds out whether an open circuit may close.
type Probe struct {
	Attempt   hub.AttemptID // unique for each try, so it names the holder too
	StartedAt time.Time
}

// isOpen reports whether the circuit is open or half open.
func (s State) isOpen() bool { return s.Phase == Open || s.Phase == HalfOpen }

// opened begins a generation of waiting. Counts stay, to be shown.
func (s State) opened(cause Cause, now time.Time) State {
	s.Phase, s.Generation = Open, s.Generation+1
	s.Cause, s.OpenedAt = cause, now
	s.OpenFor, s.NextProbeAt, s.Probe = FirstOpen, now.Add(FirstOpen), Probe{}
	s.ClosedAt, s.RampLimit = time.Time{}, 0
	return s
}

// closed begins a generation of attempts with fresh counts and a ramp.
func (s State) closed(now time.Time) State {
	return State{Version: s.Version, Phase: Closed, Generation: s.Generation + 1, ClosedAt: now, RampLimit: 1}
}

// Restart is the state after a destination was enabled again: all counts are
// fresh, and one probe, due at once, goes before everything else. Enabling
// what is enabled already must not come here.
func Restart(s State, now time.Time) State {
	s = State{Version: s.Version, Generation: s.Generation}.opened(CauseEnabled, now)
	s.NextProbeAt = now
	return s
}

// Moved reports whether after has to be stored at once: the phase, the
// generation or the probe changed. Mere counts can wait for the next flush.
func Moved(before, after State) bool {
	return before.Phase != after.Phase || before.Generation != after.Generation ||
		before.Probe.Attempt != after.Probe.Attempt || !before.NextProbeAt.Equal(after.NextProbeAt)
}
