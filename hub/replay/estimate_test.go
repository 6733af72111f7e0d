package replay_test

import (
	"testing"
	"time"

	"github.com/streaming-hub/streaming-hub/hub"
	"github.com/streaming-hub/streaming-hub/hub/replay"
)

func TestEstimate(t *testing.T) {
	one, two := hub.DestinationID{ID: hub.ID{1}}, hub.DestinationID{ID: hub.ID{2}}
	for _, row := range []struct {
		rule   string
		limits map[hub.DestinationID]float64
		want   time.Duration
	}{
		{"by_the_rate", nil, 20 * time.Second},
		{"by_a_destination_that_takes_longer", map[hub.DestinationID]float64{one: 9, two: 2}, 100 * time.Second},
		{"not_by_one_that_is_faster", map[hub.DestinationID]float64{one: 50, two: 50}, 20 * time.Second},
		{"a_limit_below_1", map[hub.DestinationID]float64{two: 0.5}, 400 * time.Second},
		{"a_limit_that_is_none", map[hub.DestinationID]float64{two: 0}, 20 * time.Second},
	} {
		t.Run(row.rule, func(t *testing.T) {
			j := &hub.ReplayJob{
				Total: 1000, Pace: hub.ReplayPace{RatePerSecond: 50},
				Shares: []hub.DestinationShare{{Destination: one, Count: 800}, {Destination: two, Count: 200}},
			}
			got := replay.Estimate(j, func(id hub.DestinationID) (float64, bool) {
				limit, ok := row.limits[id]
				return limit, ok
			})
			if got != row.want {
				t.Errorf("%v, want %v", got, row.want)
			}
		})
	}
}
