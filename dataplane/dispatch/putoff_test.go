package dispatch

import (
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
	for name, row := range map[string]struct {
		change func(c *db.TenantConfig)
		putOff time.Duration
	}{
		"disabled":   {func(c *db.TenantConfig) { c.Subscriptions[0].Enabled = false }, 30 * time.Second},
		"unverified": {func(c *db.TenantConfig) { c.Subscriptions[0].VerificationState = hub.VerificationPending }, 30 * time.Second},
		"deleted":    {func(c *db.TenantConfig) { c.Subscriptions = nil }, time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, 1, nil, func(r *rig) {
				r.store.change(row.change)
				r.ingest(r.deliveries(0, 1))
				r.after(time.Second)
				if len(r.sink.log()) != 0 || len(r.queue.givenBack()) != 1 || r.queue.givenBack()[0].putOff != row.putOff {
					t.Errorf("sent %d, released %+v, want it put off by %s", len(r.sink.log()), r.queue.givenBack(), row.putOff)
				}
				if held, _ := r.pool.Held(); held != 0 {
					t.Errorf("%d held", held)
				}
			})
		})
	}
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
