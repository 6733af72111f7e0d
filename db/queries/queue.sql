-- The delivery queue: claims and releases.

-- LanesAfter walks the lanes (tenant, destination) of the queue from the given
-- one on, with the earliest due time of each. It skips from lane to lane in the
-- lane index, so its cost follows the number of lanes and never the length of
-- any. A lane whose earliest row is leased shows that row's due time.
-- name: LanesAfter :many
WITH RECURSIVE lanes AS (
  (SELECT q.tenant_id, q.destination_id, q.due_at, 1 AS n
   FROM delivery_queue q
   WHERE (q.tenant_id, q.destination_id) > (@after_tenant::text, @after_destination::uuid)
   ORDER BY q.tenant_id, q.destination_id, q.due_at
   LIMIT 1)
  UNION ALL
  SELECT following.tenant_id, following.destination_id, following.due_at, lanes.n + 1
  FROM lanes CROSS JOIN LATERAL (
    SELECT q.tenant_id, q.destination_id, q.due_at
    FROM delivery_queue q
    WHERE (q.tenant_id, q.destination_id) > (lanes.tenant_id, lanes.destination_id)
    ORDER BY q.tenant_id, q.destination_id, q.due_at
    LIMIT 1
  ) following
  WHERE lanes.n < @max_lanes::integer
)
SELECT tenant_id, destination_id,
  (CASE WHEN due_at = 'infinity' THEN 'Infinity'::double precision
        ELSE extract(epoch FROM due_at - now()) END)::double precision AS due_in_seconds
FROM lanes;

-- ClaimLanes leases up to the given number of due deliveries of each lane.
-- Leases that ran out are claimed again and counted. Each row gets a random
-- token of its own, its fence. Served by the lane index, then the key.
-- name: ClaimLanes :many
WITH due AS (
  SELECT ready.id
  FROM ROWS FROM (
    unnest(@tenant_ids::text[]), unnest(@destination_ids::uuid[]), unnest(@quotas::bigint[])
  ) AS lane(tenant_id, destination_id, quota)
  CROSS JOIN LATERAL (
    SELECT q.id
    FROM delivery_queue q
    WHERE q.tenant_id = lane.tenant_id AND q.destination_id = lane.destination_id
      AND q.due_at <= now()
      AND (q.leased_until IS NULL OR q.leased_until < now())
    ORDER BY q.due_at
    LIMIT lane.quota
    FOR UPDATE SKIP LOCKED
  ) ready
)
UPDATE delivery_queue q
SET leased_until = now() + @lease::interval,
    lease_token = (random() * 9007199254740991)::bigint + 1,
    reclaims = q.reclaims + CASE WHEN q.leased_until IS NULL THEN 0 ELSE 1 END
WHERE q.id = ANY(ARRAY(SELECT due.id FROM due))
RETURNING q.id, q.tenant_id, q.destination_id, q.subscription_id, q.event_id, q.due_at,
  q.lease_token, q.received_at, q.first_failed_at, q.run, q.attempts,
  q.run_attempts, q.reclaims, q.body_bytes;

-- EventsByID loads what claimed deliveries carry. The bounds prune partitions,
-- which the list alone does not.
-- name: EventsByID :many
SELECT id, tenant_id, seq, source, ce_id, event_type, schema_version, schema_major,
  received_at, topic, kafka_partition, kafka_offset, context, body
FROM events
WHERE id = ANY(@ids::uuid[]) AND id >= @lowest::uuid AND id <= @highest::uuid;

-- ReleaseLeases gives claimed deliveries back without an attempt. due_at moves
-- only when put_off is positive.
-- name: ReleaseLeases :exec
UPDATE delivery_queue q
SET leased_until = NULL, lease_token = NULL,
    due_at = CASE WHEN @put_off::interval > interval '0' THEN now() + @put_off::interval ELSE q.due_at END
WHERE q.id = ANY(@ids::uuid[]) AND q.lease_token = ANY(@lease_tokens::bigint[]);

-- OldestDue is the age in seconds of the oldest delivery that is due and has
-- no lease, over the first lanes; 0 when there is none.
-- name: OldestDue :one
WITH RECURSIVE lanes AS (
  (SELECT q.tenant_id, q.destination_id, 1 AS n
   FROM delivery_queue q ORDER BY q.tenant_id, q.destination_id LIMIT 1)
  UNION ALL
  SELECT following.tenant_id, following.destination_id, lanes.n + 1
  FROM lanes CROSS JOIN LATERAL (
    SELECT q.tenant_id, q.destination_id
    FROM delivery_queue q
    WHERE (q.tenant_id, q.destination_id) > (lanes.tenant_id, lanes.destination_id)
    ORDER BY q.tenant_id, q.destination_id
    LIMIT 1
  ) following
  WHERE lanes.n < @max_lanes::integer
)
SELECT coalesce(extract(epoch FROM now() - min(head.due_at)), 0)::double precision AS age_seconds
FROM lanes CROSS JOIN LATERAL (
  SELECT q.due_at FROM delivery_queue q
  WHERE q.tenant_id = lanes.tenant_id AND q.destination_id = lanes.destination_id
    AND q.due_at <= now() AND (q.leased_until IS NULL OR q.leased_until < now())
  ORDER BY q.due_at LIMIT 1
) head;
