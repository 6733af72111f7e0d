-- The release of a replay job's items: a handful of statements for any number
-- of them, in one transaction under the job's row lock.

-- ReplayItemsFrom are the next ones. Served by replay_items_order.
-- name: ReplayItemsFrom :many
SELECT ordinal, tenant_id, delivery_id, event_id, subscription_id FROM replay_items
WHERE job_id = @job_id AND ordinal >= @from_ordinal
ORDER BY ordinal
LIMIT @most;

-- LockDeliveries makes everybody else who asks for a run of one of them wait.
-- All lock in the order of ids. Served by the primary key; the bounds prune
-- partitions.
-- name: LockDeliveries :many
SELECT * FROM deliveries
WHERE id = ANY(@ids::uuid[]) AND id >= @lowest::uuid AND id <= @highest::uuid
ORDER BY id
FOR UPDATE;

-- LockBackfilled keeps a subscription as it is and makes other backfills of it
-- wait, in the order of ids. Served by the primary key.
-- name: LockBackfilled :many
SELECT * FROM event_subscriptions
WHERE id = ANY(@ids::uuid[])
ORDER BY id
FOR NO KEY UPDATE;

-- InsertReplayRuns makes the queue rows of runs, due at once, their age counted
-- from now, and returns those of deliveries that were not unfinished.
-- name: InsertReplayRuns :many
INSERT INTO delivery_queue (
  id, tenant_id, destination_id, subscription_id, event_id, due_at, received_at, run, attempts, body_bytes, job_id)
SELECT r.id, r.tenant_id, r.destination_id, r.subscription_id, r.event_id, now(), now(), r.run, r.attempts, r.body_bytes, @job_id::uuid
FROM ROWS FROM (
  unnest(@ids::uuid[]), unnest(@tenant_ids::text[]), unnest(@destination_ids::uuid[]), unnest(@subscription_ids::uuid[]),
  unnest(@event_ids::uuid[]), unnest(@runs::integer[]), unnest(@attempts::integer[]), unnest(@body_bytes::integer[])
) AS r(id, tenant_id, destination_id, subscription_id, event_id, run, attempts, body_bytes)
ON CONFLICT (id) DO NOTHING
RETURNING id;

-- InsertBirths makes the birth rows of backfilled deliveries.
-- name: InsertBirths :exec
INSERT INTO deliveries (id, tenant_id, event_id, subscription_id, destination_id)
SELECT * FROM ROWS FROM (
  unnest(@ids::uuid[]), unnest(@tenant_ids::text[]), unnest(@event_ids::uuid[]),
  unnest(@subscription_ids::uuid[]), unnest(@destination_ids::uuid[])
) AS b(id, tenant_id, event_id, subscription_id, destination_id);

-- SettleReplayItems says what became of pending items. Served by the primary
-- key.
-- name: SettleReplayItems :exec
UPDATE replay_items i
SET state = CASE WHEN o.note = '' THEN 'RELEASED' ELSE 'SKIPPED' END, note = o.note
FROM ROWS FROM (unnest(@delivery_ids::uuid[]), unnest(@notes::text[])) AS o(delivery_id, note)
WHERE i.job_id = @job_id AND i.delivery_id = o.delivery_id AND i.state = 'PENDING';
