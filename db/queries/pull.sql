-- The pull API: a tenant's events in seq order.

-- NewestSeqs is asked by the watcher of long polls and at the start of each
-- read. Served by the primary key.
-- name: NewestSeqs :many
SELECT tenant_id, (next_seq - 1)::bigint AS newest
FROM tenant_counters
WHERE tenant_id = ANY(@tenant_ids::text[]);

-- ScanEvents reads what a filter needs to know. Served by events_tenant_seq of
-- each partition that may hold ids from not_before on; the others are left
-- out when the statement starts. The body's size comes without the body.
-- name: ScanEvents :many
SELECT id, seq, source, event_type, schema_major, octet_length(body)::integer AS body_bytes
FROM events
WHERE tenant_id = @tenant_id AND seq > @after AND id >= @not_before::uuid
ORDER BY seq
LIMIT @page;
