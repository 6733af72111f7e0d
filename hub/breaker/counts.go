package breaker

import (
	"time"

	"github.com/streaming-hub/streaming-hub/hub"
	"github.com/streaming-hub/streaming-hub/hub/health"
)

// Kind is what an attempt says about its destination.
type Kind uint8

const (
	Neutral   Kind = iota // nothing: the breaker stays as it is
	Succeeded             // answered with 200–299
	Failed                // a failure that counts
)

func (k Kind) String() string {
	switch k {
	case Succeeded:
		return "succeeded"
	case Failed:
		return "failed"
	default:
		return "neutral"
	}
}

// Counts reports whether a failure counts. An answer that judges this one
// request, 422 for instance, says nothing about the next one; faults of the
// hub's side count nowhere (see health.Counts). status is 0 without an answer.
func Counts(status int32, class hub.ErrorClass) bool {
	if class == hub.ErrStatus {
		switch {
		case status == 400, status == 405, status == 406, status == 409,
			411 <= status && status <= 417, 422 <= status && status <= 428,
			status == 431, status == 451:
			return false
		}
	}
	return health.Counts(class)
}

// KindOf judges an attempt by its answer and its failure.
func KindOf(status int32, class hub.ErrorClass) Kind {
	switch {
	case class == "":
		return Succeeded
	case Counts(status, class):
		return Failed
	default:
		return Neutral
	}
}

// Outcome is one finished attempt.
type Outcome struct {
	Kind Kind
	// Generation is that of the Admission.
	Generation int64
	// Probe is the attempt's id when it ran as the probe, else zero.
	Probe hub.AttemptID
	// RetryAfter is how long the destination asked to be left alone, 0 for not
	// at all. Only a probe that failed uses it, up to MaxOpen.
	RetryAfter time.Duration
}
