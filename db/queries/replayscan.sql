-- The preview of a replay job: its set is frozen part by part, the oldest
-- first. Each statement reads a bounded number of rows, from where the part
-- before ended.

-- Served by delivery_results_tenant, the oldest partition first.
-- name: DeadEndsOfTenantFrom :many
SELECT id, delivery_id, run, state, dead_reason, test FROM delivery_results
WHERE tenant_id = @tenant_id AND id > @after AND id >= @lowest AND id < @before
ORDER BY id
LIMIT @page;

-- Served by the primary key, the oldest partition first.
-- name: DeadEndsFrom :many
SELECT id, delivery_id, run, state, dead_reason, test FROM delivery_results
WHERE id > @after AND id >= @lowest AND id < @before
ORDER BY id
LIMIT @page;

-- Served by the index of delivery_results by fingerprint and id, the oldest
-- partition first.
-- name: DeadEndsOfCauseFrom :many
SELECT id, delivery_id, run, state, dead_reason, test FROM delivery_results
WHERE fingerprint = @fingerprint::bytea AND id > @after AND id >= @lowest AND id < @before
ORDER BY id
LIMIT @page;

-- Served by deliveries_tenant, the oldest partition first.
-- name: BirthsOfTenantFrom :many
SELECT * FROM deliveries
WHERE tenant_id = @tenant_id AND id > @after AND id >= @lowest AND id < @before
ORDER BY id
LIMIT @page;

-- Served by deliveries_subscription, the oldest partition first.
-- name: BirthsOfSubscriptionFrom :many
SELECT * FROM deliveries
WHERE subscription_id = @subscription_id AND id > @after AND id >= @lowest AND id < @before
ORDER BY id
LIMIT @page;

-- Served by the primary key, the oldest partition first.
-- name: BirthsFrom :many
SELECT * FROM deliveries
WHERE id > @after AND id >= @lowest AND id < @before
ORDER BY id
LIMIT @page;

-- EventFacts are what a run of deliveries needs to know of their events. The
-- size comes without the body. The bounds prune partitions.
-- name: EventFacts :many
SELECT id, seq, event_type, octet_length(body)::integer AS body_bytes
FROM events
WHERE id = ANY(@ids::uuid[]) AND id >= @lowest::uuid AND id <= @highest::uuid;

-- EarlierAnswers tells of deliveries with attempts whether one delivered them
-- and whether their receiver may have acted on one: it answered with 2xx, or
-- its answer was lost. Served by attempts_delivery.
-- name: EarlierAnswers :many
SELECT delivery_id, bool_or(state = 'DELIVERED')::boolean AS delivered,
  bool_or(status BETWEEN 200 AND 299 OR error_class IN ('TIMEOUT', 'RESET', 'PROTOCOL'))::boolean AS perhaps
FROM attempts
WHERE delivery_id = ANY(@delivery_ids::uuid[]) AND id >= @lowest
GROUP BY delivery_id;

-- A tenant's events for a backfill. The bounds by id prune partitions; no
-- condition leaves rows out inside one, which the walk would have to pass by.
-- Served by events_tenant_seq.
-- name: EventsToBackfill :many
SELECT id, seq, source, event_type, schema_major, received_at
FROM events
WHERE tenant_id = @tenant_id AND seq > @after AND seq <= @last AND id >= @lowest::uuid AND id < @before::uuid
ORDER BY seq
LIMIT @page;

-- InsertReplayItems freezes items and returns those that were not frozen yet.
-- name: InsertReplayItems :many
INSERT INTO replay_items (job_id, tenant_id, ordinal, delivery_id, event_id, subscription_id, destination_id)
SELECT @job_id::uuid, i.tenant_id, i.ordinal, i.delivery_id, i.event_id, i.subscription_id, i.destination_id
FROM ROWS FROM (
  unnest(@tenant_ids::text[]), unnest(@ordinals::bigint[]), unnest(@delivery_ids::uuid[]),
  unnest(@event_ids::uuid[]), unnest(@subscription_ids::uuid[]), unnest(@destination_ids::uuid[])
) AS i(tenant_id, ordinal, delivery_id, event_id, subscription_id, destination_id)
ON CONFLICT (job_id, delivery_id) DO NOTHING
RETURNING delivery_id;

-- MoveReplayScan notes how far the preview has come, and its end.
-- name: MoveReplayScan :exec
UPDATE replay_jobs
SET scanned_to = sqlc.narg('scanned_to'), scanned_seq = sqlc.narg('scanned_seq'), last_seq = sqlc.narg('last_seq'),
    total = @total, already_delivered = @already_delivered, possible_duplicates = @possible_duplicates,
    undeliverable = @undeliverable, shares = @shares, state = @state, reason = @reason,
    previewed_at = sqlc.narg('previewed_at'), finished_at = sqlc.narg('finished_at')
WHERE id = @id;
