-- Dead-letter observations: stored in batches by the observer, listed by the
-- API downwards by id. Dedup goes by KnownKeys and InsertEventKeys.

-- name: InsertObservations :exec
INSERT INTO dlq_observations (
  id, tenant_id, writer, topic, kafka_partition, kafka_offset, source_topic, error_class, cause_kind,
  observed_at, detail, body, body_bytes)
SELECT o.id, nullif(o.tenant_id, ''), o.writer, o.topic, o.kafka_partition, o.kafka_offset,
  nullif(o.source_topic, ''), nullif(o.error_class, ''), nullif(o.cause_kind, ''),
  @observed_at::timestamptz, o.detail, o.body, o.body_bytes
FROM ROWS FROM (
  unnest(@ids::uuid[]), unnest(@tenant_ids::text[]), unnest(@writers::text[]), unnest(@topics::text[]),
  unnest(@kafka_partitions::integer[]), unnest(@kafka_offsets::bigint[]), unnest(@source_topics::text[]),
  unnest(@error_classes::text[]), unnest(@cause_kinds::text[]), unnest(@details::jsonb[]),
  unnest(@bodies::bytea[]), unnest(@body_bytes::integer[])
) AS o(id, tenant_id, writer, topic, kafka_partition, kafka_offset, source_topic, error_class, cause_kind,
  detail, body, body_bytes);

-- Served by the primary key, the newest partition first.
-- name: ObservationPage :many
SELECT id, tenant_id, writer, topic, kafka_partition, kafka_offset, source_topic, error_class, cause_kind,
  observed_at, detail, body_bytes, octet_length(body)::integer AS kept_bytes
FROM dlq_observations
WHERE id < @before AND id >= @lowest
ORDER BY id DESC
LIMIT @page;

-- Served by dlq_observations_tenant, the newest partition first.
-- name: ObservationPageOfTenant :many
SELECT id, tenant_id, writer, topic, kafka_partition, kafka_offset, source_topic, error_class, cause_kind,
  observed_at, detail, body_bytes, octet_length(body)::integer AS kept_bytes
FROM dlq_observations
WHERE tenant_id = @tenant_id::text AND id < @before AND id >= @lowest
ORDER BY id DESC
LIMIT @page;

-- The bounds prune partitions, which the list alone does not.
-- name: ObservationsByID :many
SELECT id, tenant_id, writer, topic, kafka_partition, kafka_offset, source_topic, error_class, cause_kind,
  observed_at, detail, body_bytes, octet_length(body)::integer AS kept_bytes
FROM dlq_observations
WHERE id = ANY(@ids::uuid[]) AND id >= @lowest::uuid AND id <= @highest::uuid;

-- name: ObservationBodies :many
SELECT id, body
FROM dlq_observations
WHERE id = ANY(@ids::uuid[]) AND id >= @lowest::uuid AND id <= @highest::uuid;
