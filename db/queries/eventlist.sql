-- Events as the API lists them, without their bodies. A test send has seq 0: it
-- is read by its id and is in no list.

-- Served by events_tenant_seq, one probe for each partition.
-- name: EventPageOfTenant :many
SELECT id, tenant_id, seq, source, ce_id, event_type, schema_version, schema_major,
  received_at, topic, kafka_partition, kafka_offset, context, octet_length(body)::integer AS body_bytes
FROM events
WHERE tenant_id = @tenant_id AND seq < @before AND seq > 0
ORDER BY seq DESC
LIMIT @page;

-- Served by the primary key, the newest partition first.
-- name: EventPage :many
SELECT id, tenant_id, seq, source, ce_id, event_type, schema_version, schema_major,
  received_at, topic, kafka_partition, kafka_offset, context, octet_length(body)::integer AS body_bytes
FROM events
WHERE id < @before AND seq > 0
ORDER BY id DESC
LIMIT @page;

-- The bounds prune partitions, which the list alone does not.
-- name: EventHeadsByID :many
SELECT id, tenant_id, seq, source, ce_id, event_type, schema_version, schema_major,
  received_at, topic, kafka_partition, kafka_offset, context, octet_length(body)::integer AS body_bytes
FROM events
WHERE id = ANY(@ids::uuid[]) AND id >= @lowest::uuid AND id <= @highest::uuid;

-- name: EventBodiesByID :many
SELECT id, body
FROM events
WHERE id = ANY(@ids::uuid[]) AND id >= @lowest::uuid AND id <= @highest::uuid;
