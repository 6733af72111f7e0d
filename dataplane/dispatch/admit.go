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
// Those of suspects have a room of their own.
func Room(workers int, perSecond float64) int {
	return max(4*workers, min(int(perSecond*horizon.Seconds()), maxHeld))
}

// DestinationCap is how many workers of a process one destination may hold.
func DestinationCap(workers int) int { return max(1, workers/2) }

// SuspectCap is how many workers all suspects may hold together.
func SuspectCap(workers int) int { return max(1, workers/2) }

// SuspectRoom is how many deliveries of suspects a process may hold.
func SuspectRoom(workers int) int { return max(4, 2*workers) }

// LaneShare is how many deliveries of one lane a process may hold: half of the
// room, so that a destination which stops answering cannot fill the memory of
// its neighbours; of a suspect, twice what may run.
func LaneShare(room int, suspect bool, allowance int) int {
	if suspect {
		return max(2, 2*allowance)
	}
	return max(1, room/2)
}

// Newcomers is the room beyond Room for lanes of which nothing is held.
func Newcomers(room int) int { return max(4, room/4) }

// Ask is a lane with due deliveries and how many of them may be taken.
type Ask struct {
	Lane    db.Lane
	Most    int
	Suspect bool
}

// Quotas splits free room over the lanes that ask, in the order given:
// equally, at least one each, and for no lane more than it may have. Few lanes
// get much each, many lanes little. Suspects take from their own room.
func Quotas(asks []Ask, free, suspectFree int) []db.LaneQuota {
	quotas := make([]db.LaneQuota, 0, len(asks))
	left := map[bool]int{}
	for _, a := range asks {
		left[a.Suspect]++
	}
	room := map[bool]int{false: free, true: suspectFree}
	for _, a := range asks {
		if room[a.Suspect] > 0 {
			each := max(1, room[a.Suspect]/left[a.Suspect])
			if n := min(each, a.Most); n > 0 {
				quotas = append(quotas, db.LaneQuota{Lane: a.Lane, Quota: n})
				room[a.Suspect] -= n
			}
		}
		left[a.Suspect]--
	}
	return quotas
}
