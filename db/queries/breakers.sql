-- Circuit breakers as the data plane keeps them. Rows are locked in the order
-- of their keys, so that replicas never wait for each other in a circle.

-- BreakersChangedSince finds what replicas wrote lately; at first, with a time
-- long ago, all. Served by circuit_breakers_changed.
-- name: BreakersChangedSince :many
SELECT * FROM circuit_breakers WHERE changed_at > @since::timestamptz ORDER BY changed_at LIMIT @most;

-- EnsureBreakers makes closed rows of destinations that have none.
-- name: EnsureBreakers :exec
INSERT INTO circuit_breakers (
  destination_id, tenant_id, version, phase, generation, failures, window_newest, window_attempts, window_failures,
  cause, open_for_ms, ramp_limit, changed_at)
SELECT n.destination_id, n.tenant_id, 0, 'CLOSED', 0, 0, 0, array_fill(0, ARRAY[12]), array_fill(0, ARRAY[12]), '', 0, 0, now()
FROM ROWS FROM (unnest(@destination_ids::uuid[]), unnest(@tenant_ids::text[])) AS n(destination_id, tenant_id)
ORDER BY n.destination_id
ON CONFLICT (destination_id) DO NOTHING;

-- name: LockBreakers :many
SELECT * FROM circuit_breakers
WHERE destination_id = ANY(@destination_ids::uuid[])
ORDER BY destination_id
FOR UPDATE;

-- name: UpdateBreaker :exec
UPDATE circuit_breakers
SET version = version + 1, phase = @phase, generation = @generation, failures = @failures,
    window_newest = @window_newest, window_attempts = @window_attempts, window_failures = @window_failures,
    cause = @cause, opened_at = sqlc.narg('opened_at'), open_for_ms = @open_for_ms,
    next_probe_at = sqlc.narg('next_probe_at'), probe_attempt = sqlc.narg('probe_attempt'),
    probe_started_at = sqlc.narg('probe_started_at'), closed_at = sqlc.narg('closed_at'),
    ramp_limit = @ramp_limit, changed_at = clock_timestamp()
WHERE destination_id = @destination_id;
