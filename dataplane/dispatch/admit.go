package dispatch

import (
	"time"

	"github.com/streaming-hub/streaming-hub/db"
)

const (
	// horizon is how much work a process holds in memory, measured in time at
	// its present pace: enough to keep the workers busy while the next claim is
	// under way, little enough that a claimed delivery starts soon.
	horizon = 100 * time.Millisecond
	// maxHeld bounds it whatever the pace.
	maxHeld = 2048
	// maxYield is how long a large ingest batch waits for room, looked at each
	// yieldStep.
	maxYield, yieldStep = 250 * time.Millisecond, 2 * time.Millisecond
	// maxHeldBytes bounds the bodies that are held.
	maxHeldBytes = 64 << 20
)

// Room is how many deliveries a process may hold, waiting in memory or being
// attempted, given its workers and the deliveries it finished per second.
func Room(workers int, perSecond float64) int {
	return max(4*workers, min(int(perSecond*horizon.Seconds()), maxHeld))
}

// DestinationCap is how many workers of a process one destination may hold.
func DestinationCap(workers int) int { return max(1, workers/2) }

// LaneShare is how much of the room one lane may take, so that a destination
// which stops answering cannot fill the memory of its neighbours.
func LaneShare(room int) int { return max(1, room/2) }

// Quotas splits free room over lanes that have due deliveries, in the order
// given: equally, at least one each, and for no lane more than its share
// allows on top of what it holds. Few lanes get much each, many lanes little.
func Quotas(lanes []db.Lane, held func(db.Lane) int, free, room int) []db.LaneQuota {
	quotas := make([]db.LaneQuota, 0, len(lanes))
	for i, lane := range lanes {
		if free <= 0 {
			break
		}
		each := max(1, free/(len(lanes)-i))
		if n := min(each, LaneShare(room)-held(lane)); n > 0 {
			quotas = append(quotas, db.LaneQuota{Lane: lane, Quota: n})
			free -= n
		}
	}
	return quotas
}
