package replay

import (
	"math"
	"time"

	"github.com/streaming-hub/streaming-hub/hub"
)

// Estimate is how long the job's set takes at its pace, or at the limits of its
// destinations if one of them takes longer. Waits for the canary, failures and
// other work of a destination come on top: nobody knows them beforehand. rate
// tells the limit of a destination.
func Estimate(j *hub.ReplayJob, rate func(hub.DestinationID) (perSecond float64, limited bool)) time.Duration {
	longest := take(j.Total, float64(j.Pace.RatePerSecond))
	for _, share := range j.Shares {
		if perSecond, limited := rate(share.Destination); limited {
			longest = max(longest, take(share.Count, perSecond))
		}
	}
	return longest
}

func take(items int64, perSecond float64) time.Duration {
	if perSecond <= 0 {
		return 0
	}
	return time.Duration(min(float64(items)/perSecond*float64(time.Second), math.MaxInt64/2))
}
