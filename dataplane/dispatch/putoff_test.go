package dispatch

import (
	"bytes"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/streaming-hub/streaming-hub/db"
	"github.com/streaming-hub/streaming-hub/hub"
)

func TestPool_puts_off(t *testing.T) {
	t.Run("unsigned_until_a_key_is_there", func(t *testing.T) {
		bubble(t, 1, nil, func(r *rig) {
			dest := r.lanes[0].Destination
			keys := r.store.config.Destinations[dest]
			r.store.change(func(c *db.TenantConfig) {
				c.Destinations = map[hub.DestinationID]db.DestinationConfig{dest: {Destination: keys.Destination}}
			})
			if err := r.pool.Ready(); err != nil {
				t.Errorf("Ready = %v before anything happened", err)
			}
			r.ingest(r.deliveries(0, 1))
			r.after(0)
			if len(r.sink.log()) != 0 || len(r.queue.givenBack()) != 1 || r.queue.givenBack()[0].putOff != 10*time.Second {
				t.Fatalf("sent %d, released %+v", len(r.sink.log()), r.queue.givenBack())
			}
			if err := r.pool.Ready(); err == nil || !strings.Contains(err.Error(), "nothing is sent unsigned: the destination has no signing secret") {
				t.Errorf("Ready = %v", err)
			}
			r.after(25 * time.Second)
			if len(r.sink.log()) != 0 || len(r.queue.givenBack()) != 3 {
				t.Errorf("sent %d, released %d times after 25 s", len(r.sink.log()), len(r.queue.givenBack()))
			}
			r.store.change(func(c *db.TenantConfig) {
				c.Destinations = map[hub.DestinationID]db.DestinationConfig{dest: keys}
			})
			r.after(15 * time.Second)
			r.wantSettled(1)
			if r.sink.log()[0].number != 1 {
				t.Errorf("the wait used up attempts: number %d", r.sink.log()[0].number)
			}
			r.after(30 * time.Second)
			if err := r.pool.Ready(); err != nil {
				t.Errorf("Ready = %v after the wait is over", err)
			}
		})
	})
	for name, change := range map[string]func(c *db.TenantConfig){
		"held_while_disabled":   func(c *db.TenantConfig) { c.Subscriptions[0].Enabled = false },
		"held_while_unverified": func(c *db.TenantConfig) { c.Subscriptions[0].VerificationState = hub.VerificationPending },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, 1, nil, func(r *rig) {
				r.store.change(change)
				r.ingest(r.deliveries(0, 1))
				r.after(time.Hour)
				if back := r.queue.givenBack(); len(r.sink.log()) != 0 || len(back) != 1 || !back[0].hold {
					t.Errorf("sent %d, released %+v, want it held", len(r.sink.log()), back)
				}
				if held, _ := r.pool.Held(); held != 0 {
					t.Errorf("the pool holds %d", held)
				}
			})
		})
	}
	t.Run("subscription_that_is_too_new_to_be_known", func(t *testing.T) {
		bubble(t, 1, nil, func(r *rig) {
			subs := r.store.config.Subscriptions
			r.store.change(func(c *db.TenantConfig) { c.Subscriptions = nil })
			r.ingest(r.deliveries(0, 1))
			r.after(0)
			if back := r.queue.givenBack(); len(r.queue.history()) != 0 || len(back) != 1 || back[0].putOff != time.Second {
				t.Errorf("recorded %d, released %+v", len(r.queue.history()), back)
			}
			r.store.change(func(c *db.TenantConfig) { c.Subscriptions = subs })
			r.after(3 * time.Second)
			r.wantSettled(1)
		})
	})
	t.Run("deleted_subscription_ends_the_delivery", func(t *testing.T) {
		bubble(t, 1, nil, func(r *rig) {
			r.store.change(func(c *db.TenantConfig) { c.Subscriptions = nil })
			r.queue.deleted = true
			r.ingest(r.deliveries(0, 1))
			r.after(time.Second)
			r.wantEnd(hub.DeadSubscriptionDeleted)
		})
	})
	t.Run("body_larger_than_what_is_sent_ends_the_delivery", func(t *testing.T) {
		bubble(t, 1, func(_ *rig, d *Deps) { d.MaxBody = 10 }, func(r *rig) {
			list := r.deliveries(0, 2)
			list[0].Delivery.BodyBytes = 11
			r.ingest(list)
			r.after(time.Second)
			if len(r.sink.log()) != 1 || r.sink.log()[0].id != list[1].Delivery.ID {
				t.Errorf("sent %+v, want the one of 10 bytes", r.sink.log())
			}
			r.queue.recorded = slices.DeleteFunc(r.queue.recorded, func(o hub.Outcome) bool { return o.Delivery.ID == list[1].Delivery.ID })
			r.sink.sent = nil
			r.wantEnd(hub.DeadPayloadTooLarge)
		})
	})
	t.Run("timeout_that_no_lease_covers_is_said", func(t *testing.T) {
		var log bytes.Buffer
		bubble(t, 1, func(_ *rig, d *Deps) {
			d.Lease, d.Log = 10*time.Second, slog.New(slog.NewTextHandler(&log, nil))
		}, func(r *rig) {
			r.ingest(r.deliveries(0, 1))
			r.after(90 * time.Second)
			if back := r.queue.givenBack(); len(r.sink.log()) != 0 || len(back) != 2 || back[0].putOff != time.Minute {
				t.Errorf("sent %d, released %+v", len(r.sink.log()), back)
			}
		})
		if strings.Count(log.String(), "into DISPATCH_LEASE") != 1 || !strings.Contains(log.String(), "timeout=15s lease=10s") {
			t.Errorf("log:\n%s", log.String())
		}
	})
	t.Run("moved_to_the_destination_that_its_subscription_has_now", func(t *testing.T) {
		bubble(t, 2, nil, func(r *rig) {
			r.store.change(func(c *db.TenantConfig) { c.Subscriptions[0].Destination = r.lanes[1].Destination })
			r.ingest(r.deliveries(0, 1))
			r.after(time.Second)
			if back := r.queue.givenBack(); len(back) != 1 || back[0].to != r.lanes[1].Destination {
				t.Fatalf("released %+v", back)
			}
			if got := r.sink.log(); len(got) != 1 || got[0].to != r.lanes[1].Destination {
				t.Errorf("sent %+v", got)
			}
			r.wantSettled(1)
		})
	})
	t.Run("event_that_retention_dropped", func(t *testing.T) {
		bubble(t, 1, nil, func(r *rig) {
			r.queue.forgetEvents()
			r.queue.insert(r.deliveries(0, 1), 0)
			r.after(time.Second)
			if len(r.sink.log()) != 0 || len(r.queue.givenBack()) != 1 || r.queue.givenBack()[0].putOff != 10*time.Minute {
				t.Errorf("sent %d, released %+v", len(r.sink.log()), r.queue.givenBack())
			}
		})
	})
}
