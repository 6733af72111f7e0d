-- Ingest: one transaction per partition batch, in two round trips.
-- First: BEGIN, LockTenants, KnownKeys. Then, with the plan made from their
-- answers: AdvanceSeq, the inserts and COMMIT.

-- EnsureTenants makes the counter rows of tenants that this process has not
-- met yet. Committed by itself, before the transaction that locks them.
-- name: EnsureTenants :exec
INSERT INTO tenant_counters (tenant_id)
SELECT unnest(@tenant_ids::text[])
ON CONFLICT (tenant_id) DO NOTHING;

-- LockTenants takes the tenants' rows in tenant order: no two transactions
-- can wait for each other in a circle. Served by the primary key.
-- name: LockTenants :many
SELECT tenant_id, next_seq, config_version
FROM tenant_counters
WHERE tenant_id = ANY(@tenant_ids::text[])
ORDER BY tenant_id
FOR UPDATE;

-- KnownKeys finds which dedup keys exist already. Served by the unique index
-- of each of the few partitions. It runs after the tenants are locked, so no
-- other transaction can add a key of theirs in between.
-- name: KnownKeys :many
SELECT key, content_hash
FROM event_keys
WHERE key = ANY(@keys::uuid[]);

-- name: AdvanceSeq :exec
UPDATE tenant_counters c
SET next_seq = n.next_seq
FROM ROWS FROM (unnest(@tenant_ids::text[]), unnest(@next_seqs::bigint[])) AS n(tenant_id, next_seq)
WHERE c.tenant_id = n.tenant_id;

-- name: InsertEventKeys :exec
INSERT INTO event_keys (key, content_hash, event_id)
SELECT * FROM ROWS FROM (
  unnest(@keys::uuid[]), unnest(@content_hashes::uuid[]), unnest(@event_ids::uuid[])
) AS k(key, content_hash, event_id);

-- name: InsertEvents :exec
INSERT INTO events (
  id, tenant_id, seq, source, ce_id, event_type, schema_version, schema_major,
  received_at, topic, kafka_partition, kafka_offset, context, body)
SELECT e.id, e.tenant_id, e.seq, e.source, e.ce_id, e.event_type, e.schema_version, e.schema_major,
  @received_at::timestamptz, @topic::text, @kafka_partition::integer, e.kafka_offset, e.context, e.body
FROM ROWS FROM (
  unnest(@ids::uuid[]), unnest(@tenant_ids::text[]), unnest(@seqs::bigint[]),
  unnest(@sources::text[]), unnest(@ce_ids::text[]), unnest(@event_types::text[]),
  unnest(@schema_versions::text[]), unnest(@schema_majors::integer[]),
  unnest(@kafka_offsets::bigint[]), unnest(@contexts::json[]), unnest(@bodies::bytea[])
) AS e(id, tenant_id, seq, source, ce_id, event_type, schema_version, schema_major,
  kafka_offset, context, body);

-- InsertDeliveries writes birth rows and queue rows. A row with a token is
-- born claimed: it belongs to the worker pool of this process already.
-- name: InsertDeliveries :exec
WITH born AS (
  SELECT * FROM ROWS FROM (
    unnest(@ids::uuid[]), unnest(@tenant_ids::text[]), unnest(@event_ids::uuid[]),
    unnest(@subscription_ids::uuid[]), unnest(@destination_ids::uuid[]),
    unnest(@body_bytes::integer[]), unnest(@lease_tokens::bigint[]), unnest(@due_in_us::bigint[]),
    unnest(@lasts::boolean[])
  ) AS d(id, tenant_id, event_id, subscription_id, destination_id, body_bytes, lease_token, due_in_us, last)
), queued AS (
  INSERT INTO delivery_queue (
    id, tenant_id, destination_id, subscription_id, event_id, due_at,
    leased_until, lease_token, received_at, body_bytes, last_at)
  SELECT id, tenant_id, destination_id, subscription_id, event_id,
    now() + due_in_us * interval '1 microsecond',
    CASE WHEN lease_token <> 0 THEN now() + @lease::interval END, nullif(lease_token, 0),
    @received_at::timestamptz, body_bytes,
    CASE WHEN last THEN now() + due_in_us * interval '1 microsecond' END
  FROM born
)
INSERT INTO deliveries (id, tenant_id, event_id, subscription_id, destination_id)
SELECT id, tenant_id, event_id, subscription_id, destination_id FROM born;

-- name: InsertQuarantinedRecords :exec
INSERT INTO quarantined_records (
  id, tenant_id, reason, topic, kafka_partition, kafka_offset, headers, body, body_bytes, received_at)
SELECT q.id, nullif(q.tenant_id, ''), q.reason, @topic::text, @kafka_partition::integer,
  q.kafka_offset, q.headers, q.body, q.body_bytes, @received_at::timestamptz
FROM ROWS FROM (
  unnest(@ids::uuid[]), unnest(@tenant_ids::text[]), unnest(@reasons::text[]),
  unnest(@kafka_offsets::bigint[]), unnest(@headers::jsonb[]), unnest(@bodies::bytea[]),
  unnest(@body_bytes::integer[])
) AS q(id, tenant_id, reason, kafka_offset, headers, body, body_bytes);

-- AdvanceProgress notes how far a partition is stored. It never goes back: a
-- replica that stood still and then finishes an old batch changes nothing.
-- name: AdvanceProgress :exec
INSERT INTO ingest_progress AS p (topic_id, kafka_partition, topic, next_offset, updated_at)
VALUES (@topic_id::uuid, @kafka_partition::integer, @topic::text, @next_offset::bigint, now())
ON CONFLICT (topic_id, kafka_partition)
DO UPDATE SET next_offset = greatest(p.next_offset, excluded.next_offset), updated_at = excluded.updated_at;

-- ProgressOf reads it back for the partitions whose offsets are to be
-- committed.
-- name: ProgressOf :many
SELECT p.topic_id, p.kafka_partition, p.next_offset
FROM ROWS FROM (unnest(@topic_ids::uuid[]), unnest(@kafka_partitions::integer[])) AS asked(topic_id, kafka_partition)
JOIN ingest_progress p ON p.topic_id = asked.topic_id AND p.kafka_partition = asked.kafka_partition;
