package upkeep

import (
	"bytes"
	"crypto/rand"
	"errors"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/streaming-hub/streaming-hub/hub"
	"github.com/streaming-hub/streaming-hub/hub/retry"
)

func TestLanes_fix_last_attempts(t *testing.T) {
	const h, day = time.Hour, 24 * time.Hour
	start := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC) // of fake time
	sub := func(n byte) hub.SubscriptionID { return hub.SubscriptionID{ID: hub.ID{n}} }
	known := policies{
		sub(1): {Kind: hub.RetryCurve},
		sub(2): {Kind: hub.RetrySchedule, StepsMillis: []int64{0, (10 * h).Milliseconds(), (10 * h).Milliseconds(), (10 * h).Milliseconds()}},
		sub(3): retry.Workfront(false),
		sub(4): {Kind: hub.RetrySchedule, StepsMillis: []int64{0, 1000}},
	}
	made := func(n byte, age time.Duration, change func(d *hub.Delivery)) hub.Delivery {
		at := start.Add(-age)
		d := hub.Delivery{
			ID: hub.DeliveryID{ID: hub.NewID(at, rand.Reader)}, Tenant: "acme", Subscription: sub(n),
			ReceivedAt: at, DueAt: at.Add(time.Second),
		}
		if change != nil {
			change(&d)
		}
		return d
	}

	t.Run("by_the_policy", func(t *testing.T) {
		rows := []struct {
			rule     string
			delivery hub.Delivery
			want     time.Duration // since the receipt; -1 for not fixed
		}{
			{"curve_24h_after_receipt", made(1, 25*h, nil), 24 * h},
			{"schedule_sum_of_its_steps", made(2, 25*h, nil), 30 * h},
			{"schedule_24h_at_least", made(4, 25*h, nil), 24 * h},
			{"schedule_by_number", made(4, 25*h, func(d *hub.Delivery) { d.RunAttempts = 1 }), time.Second},
			{"exponential_48h_after_the_first_failure", made(3, 25*h, func(d *hub.Delivery) { d.FirstFailedAt = d.ReceivedAt.Add(h) }), 49 * h},
			{"exponential_48h_after_the_skipped_try", made(3, 25*h, func(d *hub.Delivery) { d.DueAt = d.ReceivedAt.Add(2 * h) }), 50 * h},
			{"gone_subscription_is_skipped", made(9, 25*h, nil), -1},
			{"behind_a_gone_one_goes_on", made(1, 25*h-time.Second, nil), 24 * h},
			{"too_young", made(1, 23*h+50*time.Minute, nil), -1},
		}
		fill := func(m *memoryLanes) {
			for _, r := range rows {
				m.waiting = append(m.waiting, r.delivery)
			}
		}
		var fixed map[hub.DeliveryID]time.Time
		lanesBubble(t, known, fill, func(t *testing.T, m *memoryLanes, _ *Lanes, log *bytes.Buffer) {
			pass(time.Minute)
			m.do(func() { fixed = maps.Clone(m.fixed) })
			if log.Len() > 0 {
				t.Errorf("log: %s", log)
			}
		})
		for _, r := range rows {
			t.Run(r.rule, func(t *testing.T) {
				at, there := fixed[r.delivery.ID]
				if there != (r.want >= 0) || there && at.Sub(r.delivery.ReceivedAt) != r.want {
					t.Errorf("fixed %v, %v after the receipt", there, at.Sub(r.delivery.ReceivedAt))
				}
			})
		}
	})
	t.Run("walks_by_age_from_where_it_stood_and_once_an_hour_all", func(t *testing.T) {
		gone := made(9, 30*h, nil) // is never fixed and would be read each time
		late := made(1, 40*h, nil) // older, and held meanwhile
		young := made(1, 24*h-10*time.Minute, nil)
		fill := func(m *memoryLanes) { m.waiting = append(m.waiting, gone, young) }
		lanesBubble(t, known, fill, func(t *testing.T, m *memoryLanes, _ *Lanes, _ *bytes.Buffer) {
			pass(9*time.Minute + time.Second)
			m.do(func() {
				if len(m.after) != 9 || m.after[0] != (hub.DeliveryID{}) || m.after[1] != gone.ID || m.after[8] != gone.ID {
					t.Errorf("walked from %v", m.after)
				}
				if len(m.fixed) != 0 {
					t.Errorf("fixed %v", m.fixed)
				}
				m.waiting = append(m.waiting, late)
			})
			pass(2 * time.Minute)
			m.do(func() {
				if _, fixed := m.fixed[young.ID]; !fixed || len(m.fixed) != 1 {
					t.Errorf("when it became a day old, fixed are %v", m.fixed)
				}
			})
			pass(48 * time.Minute)
			m.do(func() {
				if len(m.fixed) != 1 {
					t.Error("walked all again within an hour")
				}
			})
			pass(time.Minute)
			m.do(func() {
				if _, fixed := m.fixed[late.ID]; !fixed {
					t.Error("not walked again after an hour")
				}
				if m.read[len(m.read)-1] != h || m.forgets != 60 {
					t.Errorf("read at %v, slots forgotten %d times in an hour", m.read, m.forgets)
				}
			})
		})
	})
	t.Run("all_pages_of_one_walk_at_once", func(t *testing.T) {
		fill := func(m *memoryLanes) {
			for n := range 2*lastsBatch + 500 {
				m.waiting = append(m.waiting, made([]byte{1, 9}[n%2], 2*day-time.Duration(n)*time.Millisecond, nil))
			}
		}
		lanesBubble(t, known, fill, func(t *testing.T, m *memoryLanes, _ *Lanes, _ *bytes.Buffer) {
			pass(time.Minute)
			m.do(func() {
				if len(m.fixed) != lastsBatch+250 || len(m.read) != 3 {
					t.Errorf("fixed %d with %d reads", len(m.fixed), len(m.read))
				}
			})
		})
	})
	t.Run("an_error_is_said_once_and_loses_no_place", func(t *testing.T) {
		old := made(1, 30*h, nil)
		fill := func(m *memoryLanes) {
			m.waiting = append(m.waiting, old)
			m.refuseFix = errors.New("read only")
		}
		lanesBubble(t, known, fill, func(t *testing.T, m *memoryLanes, _ *Lanes, log *bytes.Buffer) {
			pass(10 * time.Minute)
			if n := strings.Count(log.String(), "read only"); n != 1 {
				t.Errorf("said %d times:\n%s", n, log)
			}
			m.do(func() {
				if m.forgets != 10 {
					t.Errorf("slots were forgotten %d times meanwhile", m.forgets)
				}
				m.refuseFix = nil
			})
			pass(time.Minute)
			m.do(func() {
				if _, fixed := m.fixed[old.ID]; !fixed {
					t.Error("it was passed over")
				}
			})
		})
	})
}
