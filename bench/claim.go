package main

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/streaming-hub/streaming-hub/db"
)

const (
	claimSmall, claimLarge = 10_000, 1_000_000
	claimRounds            = 200
	claimBatch             = 400 // deliveries per claim, over all lanes
)

// measureClaim: what does it cost to find and lease due deliveries while ten
// thousand wait, and while a million do? The statistics are those of an empty
// table, as a queue's usually are.
func measureClaim(ctx context.Context, o options, r *result) error {
	small, err := claimTime(ctx, o, claimSmall)
	if err != nil {
		return err
	}
	large, err := claimTime(ctx, o, claimLarge)
	if err != nil {
		return err
	}
	ratio := large / small
	r.ClaimRatio = &ratio
	r.rows = append(r.rows, row{"claim at 1 M waiting vs 10 k", fmt.Sprintf("%.2f", ratio), "≤ 1.5",
		fmt.Sprintf("median of %d walks and claims of %d over %d lanes: %.2f ms and %.2f ms", claimRounds, claimBatch, o.tenants, small, large)})
	return nil
}

// claimTime is the median of a walk over the lanes and a claim, in ms.
func claimTime(ctx context.Context, o options, waiting int) (float64, error) {
	rig, err := newRig(ctx, o)
	if err != nil {
		return 0, err
	}
	defer rig.close()
	for _, sql := range []string{
		"ANALYZE delivery_queue",
		"ALTER TABLE delivery_queue SET (autovacuum_enabled = off)", // else it gathers statistics
		fmt.Sprintf(`INSERT INTO delivery_queue (id, tenant_id, destination_id, subscription_id, event_id, due_at, received_at, body_bytes)
			SELECT (left(hub_uuid_floor(now() - n * interval '1 millisecond')::text, 15) || right(gen_random_uuid()::text, 21))::uuid, d.tenant_id, d.id, d.id, d.id, now() - n * interval '1 millisecond', now(), 1024
			FROM (SELECT tenant_id, id, row_number() OVER (ORDER BY id) AS place FROM destinations) d,
				generate_series(1, %d) n WHERE n %% %d + 1 = d.place`, waiting, o.tenants),
		"CHECKPOINT", // the claims are measured, not the write-back of a million rows
	} {
		if _, err := rig.look.Exec(ctx, sql); err != nil {
			return 0, fmt.Errorf("fill the queue: %w", err)
		}
	}
	queue, err := db.Open(ctx, db.Config{DSN: rig.postgres.DSN(), Hot: true})
	if err != nil {
		return 0, err
	}
	defer queue.Close()
	var times []float64
	for range claimRounds {
		begun := time.Now()
		heads, err := queue.Lanes(ctx, db.Lane{}, math.MaxInt16)
		if err != nil {
			return 0, err
		}
		quotas := make([]db.LaneQuota, len(heads))
		for i, h := range heads {
			quotas[i] = db.LaneQuota{Lane: h.Lane, Quota: max(1, claimBatch/len(heads))}
		}
		claims, err := queue.ClaimLanes(ctx, quotas, time.Minute)
		if err != nil {
			return 0, err
		}
		times = append(times, float64(time.Since(begun).Microseconds())/1000)
		if len(heads) != o.tenants || len(claims) < claimBatch/2 {
			return 0, fmt.Errorf("a claim found %d lanes and %d deliveries", len(heads), len(claims))
		}
		releases := make([]db.Release, len(claims))
		for i := range claims {
			releases[i].Claim = claims[i]
		}
		if err := queue.ReleaseLeases(ctx, releases); err != nil {
			return 0, err
		}
	}
	slices.Sort(times)
	return times[len(times)/2], nil
}
