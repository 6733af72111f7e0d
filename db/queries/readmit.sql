-- Re-admission of quarantined records: asked for by the API, done by ingest.

-- ReadmitAsked lists what people asked for, the oldest first. Served by
-- quarantined_records_asked.
-- name: ReadmitAsked :many
SELECT id, topic, kafka_partition, kafka_offset, headers, body, body_bytes
FROM quarantined_records
WHERE readmit_requested_at IS NOT NULL
ORDER BY readmit_requested_at
LIMIT @max_rows::integer;

-- SettleReadmission writes what came of it, once: whoever comes second finds
-- nothing asked any more.
-- name: SettleReadmission :exec
UPDATE quarantined_records q
SET readmit_requested_at = NULL, readmit_result = r.result,
    readmitted_at = CASE WHEN r.result = 'accepted' THEN now() ELSE q.readmitted_at END
FROM ROWS FROM (unnest(@ids::uuid[]), unnest(@results::text[])) AS r(id, result)
WHERE q.id = r.id AND q.readmit_requested_at IS NOT NULL;
