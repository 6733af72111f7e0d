-- Quarantined records as the API lists them. A page walks downwards by id in
-- chunks of narrow rows; headers and bodies are read by key for what is shown.

-- Served by the primary key, the newest partition first.
-- name: QuarantinePage :many
SELECT id, reason, topic, kafka_partition, kafka_offset, received_at,
  readmit_requested_at, readmitted_at, readmit_result, body_bytes, octet_length(body)::integer AS kept_bytes
FROM quarantined_records
WHERE id < @before AND id >= @lowest
ORDER BY id DESC
LIMIT @page;

-- The bounds prune partitions, which the list alone does not.
-- name: QuarantinedByID :many
SELECT id, reason, topic, kafka_partition, kafka_offset, received_at,
  readmit_requested_at, readmitted_at, readmit_result, body_bytes, octet_length(body)::integer AS kept_bytes
FROM quarantined_records
WHERE id = ANY(@ids::uuid[]) AND id >= @lowest::uuid AND id <= @highest::uuid;

-- name: QuarantinedHeaders :many
SELECT id, headers
FROM quarantined_records
WHERE id = ANY(@ids::uuid[]) AND id >= @lowest::uuid AND id <= @highest::uuid;

-- name: QuarantinedBodies :many
SELECT id, body
FROM quarantined_records
WHERE id = ANY(@ids::uuid[]) AND id >= @lowest::uuid AND id <= @highest::uuid;

-- RequestReadmission marks the records that are neither accepted nor asked
-- for already, and returns those. Locked in order of id: two calls cannot wait
-- for each other in a circle.
-- name: RequestReadmission :many
WITH open AS (
  SELECT id FROM quarantined_records
  WHERE id = ANY(@ids::uuid[]) AND id >= @lowest::uuid AND id <= @highest::uuid
    AND readmitted_at IS NULL AND readmit_requested_at IS NULL
  ORDER BY id
  FOR UPDATE
)
UPDATE quarantined_records q
SET readmit_requested_at = now()
FROM open
WHERE q.id = open.id AND q.id >= @lowest::uuid AND q.id <= @highest::uuid
RETURNING q.id;

-- NotifyReadmit wakes the data planes; a lost notification costs a poll.
-- name: NotifyReadmit :exec
SELECT pg_notify('hub_readmit', '');
