package health

import "github.com/streaming-hub/streaming-hub/hub"

// Outcome is what an attempt says about its destination's health.
type Outcome uint8

const (
	Neutral   Outcome = iota // nothing: no policy changes
	Succeeded                // answered with 200–299
	Failed                   // everything else that the destination can help
)

func (o Outcome) String() string {
	switch o {
	case Succeeded:
		return "succeeded"
	case Failed:
		return "failed"
	default:
		return "neutral"
	}
}

// Counts reports whether a failure is held against the destination. Faults of
// the hub's side are not: no key, an attempt that the hub cancelled, and an
// address that the policy refused. "" is no failure.
func Counts(class hub.ErrorClass) bool {
	switch class {
	case "", hub.ErrNoSecret, hub.ErrCancelled, hub.ErrBlocked:
		return false
	default:
		return true
	}
}

// OutcomeOf judges an attempt by its error class, "" for a success. A failed
// attempt of a replay is neutral: an operator who tries old deliveries again
// disables nothing. Its success counts like any other.
func OutcomeOf(class hub.ErrorClass, replay bool) Outcome {
	switch {
	case class == "":
		return Succeeded
	case replay || !Counts(class):
		return Neutral
	default:
		return Failed
	}
}
