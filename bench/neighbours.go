package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"
)

// latency is what the receiver measured from produce to receive, in ms.
type latency struct{ N, P50, P99, Max float64 }

// takeLatency reads what was measured since the last time.
func (r *rig) takeLatency(ctx context.Context) (l latency, err error) {
	if err := r.get("/latency", &l); err != nil {
		return l, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodDelete, "http://"+r.receiver.addr+"/latency", nil)
	if err != nil {
		return l, err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return l, err
	}
	return l, res.Body.Close()
}

// measureQuiet: one tenant has a million deliveries waiting, another has few
// events. How long do those take, alone and beside the flood? The flood's
// receiver takes 20 ms, as one behind a network does, so that the hub's
// fairness is measured; and once more none at all, when everything on the
// machine fights for its two cores.
func measureQuiet(ctx context.Context, o options, r *result) error {
	ratio, how, err := quietBeside(ctx, o, 20*time.Millisecond)
	if err != nil {
		return err
	}
	r.QuietP99Ratio = &ratio
	r.rows = append(r.rows, row{"quiet tenant's p99, beside / alone", fmt.Sprintf("%.2f", ratio), "≤ 3", how})
	saturated, how, err := quietBeside(ctx, o, 0)
	if err != nil {
		return err
	}
	r.rows = append(r.rows, row{"the same, all cores saturated", fmt.Sprintf("%.2f", saturated), "", how})
	return nil
}

// quietBeside measures it once, with a flood whose receiver takes so long.
func quietBeside(ctx context.Context, o options, flooded time.Duration) (ratio float64, how string, err error) {
	o.tenants = 2 // the flood, and the quiet one
	rig, err := newRig(ctx, o, "--timed", "--timed-from", "1", "--delay", flooded.String(), "--delayed", "1")
	if err != nil {
		return 0, "", err
	}
	defer rig.close()
	if err := rig.startPlane(ctx, "all", o.workers); err != nil {
		return 0, "", err
	}
	quiet := func(seconds int) (latency, error) {
		n := o.quietRate * seconds
		if err := rig.produceFor(ctx, n, o.quietRate, 1, 2); err != nil {
			return latency{}, err
		}
		var l latency
		if err := rig.poll(ctx, time.Minute, "the quiet tenant's events to arrive", func() (bool, error) {
			err := rig.get("/latency", &l)
			return int(l.N) >= n, err
		}); err != nil {
			return l, err
		}
		return rig.takeLatency(ctx)
	}
	if _, err := quiet(3); err != nil { // warm-up
		return 0, "", err
	}
	alone, err := quiet(o.seconds)
	if err != nil {
		return 0, "", err
	}
	if err := rig.flood(ctx, o.backlog); err != nil {
		return 0, "", err
	}
	waiting := func() (n int, err error) {
		err = rig.look.QueryRow(ctx, "SELECT count(*) FROM delivery_queue").Scan(&n)
		return n, err
	}
	if _, err := quiet(2); err != nil { // the flood gets going
		return 0, "", err
	}
	before, err := waiting()
	if err != nil {
		return 0, "", err
	}
	beside, err := quiet(o.seconds)
	if err != nil {
		return 0, "", err
	}
	after, err := waiting()
	if err != nil {
		return 0, "", err
	}
	if after == 0 {
		return 0, "", errors.New("the flood was over before the measurement: use more events")
	}
	return beside.P99 / alone.P99, fmt.Sprintf("%.1f and %.1f ms (p50 %.1f and %.1f) at %d/s, %d workers; the other's backlog fell from %d to %d, its receiver takes %s",
		beside.P99, alone.P99, beside.P50, alone.P50, o.quietRate, o.workers, before, after, flooded), nil
}

// flood leaves n due deliveries of the first tenant in the queue, of one event.
func (r *rig) flood(ctx context.Context, n int) error {
	if err := r.produceFor(ctx, 1, 0, 0, 1); err != nil {
		return err
	}
	var event string
	if err := r.poll(ctx, time.Minute, "the flood's event", func() (bool, error) {
		rows, err := r.look.Query(ctx, "SELECT id::text FROM events WHERE tenant_id = $1", tenantName(0))
		if err != nil {
			return false, err
		}
		defer rows.Close()
		found := rows.Next()
		if found {
			err = rows.Scan(&event)
		}
		rows.Close()
		return found, err
	}); err != nil {
		return err
	}
	const batch = 100_000
	for left := n; left > 0; left -= batch {
		if _, err := r.look.Exec(ctx, `
WITH made AS (
  SELECT (left(e.id::text, 14) || right(gen_random_uuid()::text, 22))::uuid AS id, e.id AS event_id, s.id AS subscription_id,
    s.destination_id, e.tenant_id, e.received_at, length(e.body) AS body_bytes
  FROM events e JOIN event_subscriptions s ON s.tenant_id = e.tenant_id, generate_series(1, $2)
  WHERE e.id = $1::uuid
), queued AS (
  INSERT INTO delivery_queue (id, tenant_id, destination_id, subscription_id, event_id, due_at, received_at, body_bytes)
  SELECT id, tenant_id, destination_id, subscription_id, event_id, now(), received_at, body_bytes FROM made
)
INSERT INTO deliveries (id, tenant_id, event_id, subscription_id, destination_id)
SELECT id, tenant_id, event_id, subscription_id, destination_id FROM made`, event, min(batch, left)); err != nil {
			return fmt.Errorf("make a flood: %w", err)
		}
	}
	// What the insertion itself leaves to be written is not what is measured.
	if _, err := r.look.Exec(ctx, "CHECKPOINT"); err != nil {
		return fmt.Errorf("write the flood out: %w", err)
	}
	return nil
}

// measureHanging: how fast do events arrive at the others while some
// destinations never answer?
func measureHanging(ctx context.Context, o options, r *result) error {
	const others = 50
	o.tenants = o.hanging + others
	throughput := func(with bool) (float64, float64, error) {
		rig, err := newRig(ctx, o, "--hang", fmt.Sprint(o.hanging))
		if err != nil {
			return 0, 0, err
		}
		defer rig.close()
		if err := rig.startPlane(ctx, "all", o.workers); err != nil {
			return 0, 0, err
		}
		var c counts
		warm := o.events / 10
		if err := rig.produceFor(ctx, warm, 0, o.hanging, o.tenants); err != nil {
			return 0, 0, err
		}
		if err := rig.arrived(ctx, warm, &c); err != nil {
			return 0, 0, err
		}
		if with {
			if err := rig.produceFor(ctx, 100*o.hanging, 0, 0, o.hanging); err != nil {
				return 0, 0, err
			}
			if err := rig.poll(ctx, time.Minute, "the hanging destinations' events to be stored", func() (bool, error) {
				n, err := rig.stored(ctx)
				return n >= warm+100*o.hanging, err
			}); err != nil {
				return 0, 0, err
			}
		}
		begun := time.Now()
		if err := rig.produceFor(ctx, o.events, 0, o.hanging, o.tenants); err != nil {
			return 0, 0, err
		}
		if err := rig.arrived(ctx, warm+o.events, &c); err != nil {
			return 0, 0, err
		}
		took := time.Since(begun)
		busy, err := rig.metric(`streaming_hub_dispatch_busy_workers{destinations="suspect"}`)
		return float64(o.events) / took.Seconds(), busy, err
	}
	alone, _, err := throughput(false)
	if err != nil {
		return err
	}
	beside, busy, err := throughput(true)
	if err != nil {
		return err
	}
	r.rows = append(r.rows, row{"others beside hanging destinations", fmt.Sprintf("%.0f %%", 100*beside/alone), "≥ 90 %",
		fmt.Sprintf("%.0f and %.0f events/s to %d others, %d hanging, %d workers of which those held %.0f at the end",
			beside, alone, others, o.hanging, o.workers, busy)})
	return nil
}
