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
-- Leases that ran out are claimed again: the first time makes the delivery run
-- alone from then on, and only leases of such runs are counted further. Each
-- row gets a random token of its own, its fence. Served by the lane index,
-- then the key.
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
    reclaims = CASE WHEN q.leased_until IS NULL THEN q.reclaims
                    WHEN q.alone THEN q.reclaims + 1
                    ELSE greatest(q.reclaims, 1) END,
    alone = false
WHERE q.id = ANY(ARRAY(SELECT due.id FROM due))
RETURNING q.id, q.tenant_id, q.destination_id, q.subscription_id, q.event_id, q.due_at, q.last_at,
  q.lease_token, q.received_at, q.first_failed_at, q.run, q.attempts,
  q.run_attempts, q.reclaims, q.test, q.body_bytes, q.job_id;

-- ClaimLast is ClaimLanes for lanes that are not claimed otherwise: behind an
-- open circuit only deliveries whose next attempt is the last, of a destination
-- that is switched off only test sends. Served by the index of those, then the key.
-- name: ClaimLast :many
WITH due AS (
  SELECT ready.id
  FROM ROWS FROM (
    unnest(@tenant_ids::text[]), unnest(@destination_ids::uuid[]), unnest(@quotas::bigint[]),
    unnest(@tests_only::boolean[])
  ) AS lane(tenant_id, destination_id, quota, tests_only)
  CROSS JOIN LATERAL (
    SELECT q.id
    FROM delivery_queue q
    WHERE q.tenant_id = lane.tenant_id AND q.destination_id = lane.destination_id
      AND q.last_at <= now() AND q.due_at <= now() AND (q.test OR NOT lane.tests_only)
      AND (q.leased_until IS NULL OR q.leased_until < now())
    ORDER BY q.last_at
    LIMIT lane.quota
    FOR UPDATE SKIP LOCKED
  ) ready
)
UPDATE delivery_queue q
SET leased_until = now() + @lease::interval,
    lease_token = (random() * 9007199254740991)::bigint + 1,
    reclaims = CASE WHEN q.leased_until IS NULL THEN q.reclaims
                    WHEN q.alone THEN q.reclaims + 1
                    ELSE greatest(q.reclaims, 1) END,
    alone = false
WHERE q.id = ANY(ARRAY(SELECT due.id FROM due))
RETURNING q.id, q.tenant_id, q.destination_id, q.subscription_id, q.event_id, q.due_at, q.last_at,
  q.lease_token, q.received_at, q.first_failed_at, q.run, q.attempts,
  q.run_attempts, q.reclaims, q.test, q.body_bytes, q.job_id;

-- BeginAlone gives a delivery that runs alone a fresh lease and notes that the
-- run begins: should the lease end without an outcome, this run is to blame.
-- name: BeginAlone :execrows
UPDATE delivery_queue
SET alone = true, leased_until = now() + @lease::interval
WHERE id = @id AND lease_token = @lease_token::bigint;

-- EventsByID loads what claimed deliveries carry. The bounds prune partitions,
-- which the list alone does not.
-- name: EventsByID :many
SELECT id, tenant_id, seq, source, ce_id, event_type, schema_version, schema_major,
  received_at, topic, kafka_partition, kafka_offset, context, body
FROM events
WHERE id = ANY(@ids::uuid[]) AND id >= @lowest::uuid AND id <= @highest::uuid;

-- ReleaseLeases gives claimed deliveries back without an attempt: put off by so
-- many microseconds (0 keeps the due time), held until their subscription
-- returns unless it just did, or moved to the lane of another destination.
-- name: ReleaseLeases :exec
UPDATE delivery_queue q
SET leased_until = NULL, lease_token = NULL, alone = false, destination_id = o.destination_id,
    (due_at, last_at) = (
      SELECT CASE WHEN back.held THEN 'infinity'::timestamptz
                  WHEN o.hold THEN now() + interval '1 s'
                  WHEN o.put_off_us > 0 THEN now() + o.put_off_us * interval '1 microsecond'
                  ELSE q.due_at END,
             CASE WHEN NOT back.held THEN q.last_at END
      FROM (SELECT o.hold AND NOT EXISTS (
              SELECT FROM event_subscriptions s
              WHERE s.id = q.subscription_id AND s.enabled AND s.verification_state = 'ACTIVE' AND s.deleted_at IS NULL) AS held
           ) back)
FROM ROWS FROM (
  unnest(@ids::uuid[]), unnest(@lease_tokens::bigint[]), unnest(@put_off_us::bigint[]),
  unnest(@holds::boolean[]), unnest(@destination_ids::uuid[])
) AS o(id, lease_token, put_off_us, hold, destination_id)
WHERE q.id = o.id AND q.lease_token = o.lease_token;

-- name: NotifyDue :exec
SELECT pg_notify('hub_due', '');

-- name: SubscriptionExists :one
SELECT EXISTS (SELECT FROM event_subscriptions WHERE id = @id AND deleted_at IS NULL);

-- OldestDue is the age in seconds of the oldest delivery that is due and has
-- no lease, over the first lanes; 0 when there is none. Lanes that wait for a
-- reason do not count: an open circuit, a limit of the destination's, a
-- destination that is switched off.
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
) head
WHERE NOT EXISTS (
    SELECT FROM circuit_breakers b
    WHERE b.destination_id = lanes.destination_id AND (b.phase <> 'CLOSED' OR b.ramp_limit > 0))
  AND NOT EXISTS (
    SELECT FROM destinations d
    WHERE d.id = lanes.destination_id AND (d.rate_limit IS NOT NULL OR d.max_in_flight IS NOT NULL))
  AND NOT EXISTS (
    SELECT FROM failure_rates r WHERE r.destination_id = lanes.destination_id AND r.state <> 'ACTIVE');
