package upkeep

import (
	"bytes"
	"testing"
	"time"

	"github.com/streaming-hub/streaming-hub/db"
	"github.com/streaming-hub/streaming-hub/hub"
	"github.com/streaming-hub/streaming-hub/hub/health"
	"github.com/streaming-hub/streaming-hub/hub/retry"
)

func TestLanes_frozen_destinations(t *testing.T) {
	const curved, doubling = 1, 2
	id := func(n byte) hub.ID { return hub.ID{n} }
	known := policies{{ID: id(curved)}: {Kind: hub.RetryCurve}, {ID: id(doubling)}: retry.Workfront(false)}
	for _, row := range []struct {
		rule   string
		sub    byte
		state  health.RateState
		inLane int
		held   int
	}{
		{"are_emptied_and_past_48_hours_dropped", doubling, health.Frozen, 0, 0},
		{"of_another_policy_keep_what_is_held", curved, health.Frozen, 0, 1200},
		{"that_are_only_disabled_keep_all", doubling, health.Disabled, 1100, 1200},
	} {
		t.Run(row.rule, func(t *testing.T) {
			fill := func(m *memoryLanes) {
				lane := db.Lane{Tenant: "acme", Destination: hub.DestinationID{ID: id(row.sub)}}
				m.frozen = []db.StoredRate{{Lane: lane, Rate: health.Rate{Judged: row.state}}}
				m.lane, m.held = 1100, 1200
			}
			lanesBubble(t, known, fill, func(t *testing.T, m *memoryLanes, _ *Lanes, _ *bytes.Buffer) {
				pass(time.Minute)
				m.do(func() {
					if m.lane != row.inLane || m.held != row.held {
						t.Errorf("%d wait in the lane and %d are held", m.lane, m.held)
					}
					for _, end := range m.ends {
						if end.Reason != hub.DeadDroppedFrozen || m.heldOf.ID != id(doubling) || time.Since(m.heldSince) != 48*time.Hour {
							t.Errorf("ended as %+v", end)
						}
					}
				})
			})
		})
	}
}

func TestLanes_expire_with_their_events(t *testing.T) {
	lanesBubble(t, nil, func(m *memoryLanes) { m.expired = 1700 }, func(t *testing.T, m *memoryLanes, l *Lanes, _ *bytes.Buffer) {
		pass(time.Minute)
		m.do(func() {
			if m.expired != 1700 {
				t.Error("deliveries ended though events are kept for ever")
			}
			l.EventRetention = 30 * 24 * time.Hour
		})
		pass(time.Minute)
		m.do(func() {
			if m.expired != 0 || time.Since(m.expiredAt) != 30*24*time.Hour || m.ends[0].Reason != hub.DeadExpired {
				t.Errorf("%d wait past %v; ended as %+v", m.expired, m.expiredAt, m.ends)
			}
		})
	})
}
